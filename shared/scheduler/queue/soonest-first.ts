import { roomy } from '../../records/index.ts';
import type { Chooser, ChooserOptions } from '../chooser.ts';
import { uncachedTokens } from '../cost.ts';
import type { Waiting } from './class-queue.ts';

/** Most waiting requests that are compared each time, from the most urgent ones. */
const COMPARED_MAX = 64;
/** Most pairs of a request and a rank that has some of its prompt. Fewer requests are compared in large pools. */
const PAIRS_MAX = 4096;

/** Backlog of a rank that may not take the requests of the lane. */
const NEVER = Number.POSITIVE_INFINITY;

/**
 * Finds the waiting request that has the least to wait for its first token: the backlog of a rank, and what the rank
 * has not cached of the prompt. So a rank that becomes idle gets a request whose prompt it has cached, and not one
 * whose cached blocks are on a busy rank.
 */
export class SoonestFirst {
  readonly #options: ChooserOptions;
  readonly #chooser: Chooser;
  /** Prompt tokens that each rank still has to prefill. By rank number. */
  #backlogs = new Float64Array(0);

  constructor(options: ChooserOptions & { readonly chooser: Chooser }) {
    this.#options = options;
    this.#chooser = options.chooser;
  }

  /**
   * Returns the request of a lane that should leave next, of those in the tier of `first`. The requests of a lane may
   * all go to the same ranks. Each token ahead of a request makes it less urgent, and waiting more.
   * @param first the most urgent one without regard to backlogs
   * @param lane the most urgent ones come first, more or less
   */
  of(first: Waiting, lane: Iterable<Waiting>): Waiting {
    const { request } = first.weighed;
    if (this.#chooser.narrow(request) !== undefined) return first; // leaves with its error
    if (this.#fillBacklogs() > 0) return first; // no rank is idle: a short request leaves for one that soon will be
    let best = first;
    let bestKey = Number.NEGATIVE_INFINITY;
    let [compared, pairs] = [0, 0];
    for (const waiting of lane) {
      if (compared++ === COMPARED_MAX || pairs > PAIRS_MAX) break;
      pairs += waiting.found.ranks.length;
      if ((waiting.weighed.request.strictPriority ?? 0) !== (request.strictPriority ?? 0)) continue;
      const key = waiting.key + waiting.uncachedTokens - this.#tokensAhead(waiting);
      if (key < bestKey || (key === bestKey && waiting.order > best.order)) continue;
      best = waiting;
      bestKey = key;
    }
    return best;
  }

  /** Notes the backlogs of the candidates. Returns the least. */
  #fillBacklogs(): number {
    const { clock, ranks: table } = this.#options;
    const { ranks, count } = this.#chooser.candidates;
    this.#backlogs = roomy(this.#backlogs, table.capacity).fill(NEVER);
    const nowMs = clock.nowMs();
    let least = NEVER;
    for (let at = 0; at < count; at++) {
      const rank = ranks[at] as number;
      const tokens = this.#chooser.prefillTokensAt(rank, nowMs, 'stator');
      this.#backlogs[rank] = tokens;
      least = Math.min(least, tokens);
    }
    return least;
  }

  /** Returns the tokens that are computed before the request's first token, on the best rank for it, if one is idle. */
  #tokensAhead({ found: { ranks, blocks }, weighed }: Waiting): number {
    const { blockSizeTokens, config } = this.#options;
    const { hostCacheHitWeight, diskCacheHitWeight } = config;
    const { promptTokens } = weighed.request;
    let tokens = promptTokens; // on an idle rank
    for (let at = 0; at < ranks.length; at++) {
      const backlog = this.#backlogs[ranks[at] as number] ?? NEVER;
      if (backlog >= tokens) continue;
      const onDevice = blocks[3 * at] as number;
      const onHost = hostCacheHitWeight * (blocks[3 * at + 1] as number);
      const onDisk = diskCacheHitWeight * (blocks[3 * at + 2] as number);
      const cached = Math.round((onDevice + onHost + onDisk) * blockSizeTokens);
      tokens = Math.min(tokens, backlog + uncachedTokens(promptTokens, cached));
    }
    return tokens;
  }
}
