import { roomy } from '../records/index.ts';
import { type Candidates, type PromptFacts, uncachedTokens } from './cost.ts';
import { busyShare, COMPUTE, COPY, LATER, TERM_COUNT } from './stator-cost.ts';

/** Most prefixes with a credit. The one that was looked at longest ago goes first. */
const PREFIXES_MAX = 1024;
/**
 * Part of a lost millisecond that counts in an idle pool. A copy takes room from other prefixes, and later requests
 * will seldom find its rank the best. Measured with 1 to 100 prefixes: with 0.05 copies came late, with 0.5 there were
 * too many.
 */
const COUNTED_SHARE = 0.15;
/** Time constant with which a credit fades. */
const FADING_MS = 300_000;

interface Credit {
  readonly ms: number;
  readonly atMs: number;
}

/**
 * Credits for copies of prefixes. The cheapest rank for a single request is nearly always one that has its prefix,
 * however many requests are there already: no request alone repays a second copy, but all later ones together do. So
 * each prefix has a credit, which is what its requests lost because a better rank had not cached it. The credit lowers
 * the costs of ranks without the prefix. When it suffices, one request goes there, and the credit begins again. This is
 * the rule for renting or buying skis: rent until the rents have cost as much as buying (Karlin et al., Competitive
 * snoopy caching, 1988).
 *
 * A lost millisecond counts less in a busy pool: there, a copy delays other requests.
 */
export class CopyCredits {
  /** The prefix that was looked at longest ago is the first. */
  readonly #credits = new Map<number, Credit>();
  /** Prefix of the last request; undefined if all ranks have cached as much of it. */
  #prefix: number | undefined;
  #creditMs = 0;
  /** Part of a lost millisecond that counts. */
  #counted = 0;
  /** Cost of the last request at each candidate that it would not have if the most cached prefix were there, too. */
  #copyMs = new Float64Array(64);
  /** Cost at each candidate without that. */
  #costs = new Float64Array(64);
  #leastMs = 0;

  /**
   * Lowers the costs of candidates that have cached less of the prompt than another one.
   * @param hashes sequence hashes of the prompt's complete blocks, two numbers each
   */
  apply(candidates: Candidates, hashes: Uint32Array, prompt: PromptFacts, nowMs: number): void {
    const { count, costs, terms, cachedTokens } = candidates;
    const { promptTokens, blockSizeTokens } = prompt;
    const { mostCached, leastCached, leastLater } = boundsOf(candidates);
    this.#prefix = leastCached < mostCached ? prefixOf(hashes, mostCached / blockSizeTokens) : undefined;
    if (this.#prefix === undefined) return;

    this.#copyMs = roomy(this.#copyMs, count);
    this.#costs = roomy(this.#costs, count);
    const left = uncachedTokens(promptTokens, mostCached);
    let least = Number.POSITIVE_INFINITY;
    for (let at = 0, term = 0; at < count; at++, term += TERM_COUNT) {
      const spared = 1 - left / uncachedTokens(promptTokens, cachedTokens[at] as number);
      const copy = spared * (terms[term + COMPUTE] as number) + (terms[term + LATER] as number) - leastLater;
      const cost = (costs[at] as number) - copy;
      this.#copyMs[at] = copy;
      this.#costs[at] = cost;
      if (cost < least) least = cost;
    }
    this.#leastMs = least;
    this.#counted = COUNTED_SHARE * (1 - busyShare(candidates));
    this.#creditMs = this.#creditOf(this.#prefix, nowMs);
    if (this.#creditMs > 0) this.#lower(candidates);
  }

  /** Records that the request for which `apply` was called last goes to the candidate at position `at`. */
  chose(at: number, nowMs: number): void {
    if (this.#prefix === undefined) return;
    const copyMs = this.#copyMs[at] as number;
    const lostMs = (this.#costs[at] as number) - this.#leastMs;
    const ms = copyMs > 0 ? Math.max(0, this.#creditMs - copyMs) : this.#creditMs + this.#counted * lostMs;
    this.#credits.delete(this.#prefix);
    this.#credits.set(this.#prefix, { ms, atMs: nowMs });
    if (this.#credits.size > PREFIXES_MAX) this.#credits.delete(this.#credits.keys().next().value as number);
    this.#prefix = undefined;
  }

  /** Forgets the last request, which counts for no credit. */
  skip(): void {
    this.#prefix = undefined;
  }

  #lower({ count, costs, terms }: Candidates): void {
    for (let at = 0; at < count; at++) {
      const credit = Math.min(this.#creditMs, this.#copyMs[at] as number);
      terms[TERM_COUNT * at + COPY] = -credit;
      costs[at]! -= credit;
    }
  }

  #creditOf(prefix: number, nowMs: number): number {
    const credit = this.#credits.get(prefix);
    return credit === undefined ? 0 : credit.ms * Math.exp((credit.atMs - nowMs) / FADING_MS);
  }
}

function boundsOf({ cachedTokens, terms, count }: Candidates) {
  let [mostCached, leastCached, leastLater] = [0, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let at = 0; at < count; at++) {
    const cached = cachedTokens[at] as number;
    const later = terms[TERM_COUNT * at + LATER] as number;
    if (cached > mostCached) mostCached = cached;
    if (cached < leastCached) leastCached = cached;
    if (later < leastLater) leastLater = later;
  }
  return { mostCached, leastCached, leastLater };
}

/** Returns 53 bits of the hash of the prompt's first blocks; undefined if not one is complete. */
function prefixOf(hashes: Uint32Array, blocks: number): number | undefined {
  const last = 2 * (Math.min(Math.floor(blocks), hashes.length >> 1) - 1);
  return last < 0 ? undefined : (hashes[last] as number) * 2 ** 21 + ((hashes[last + 1] as number) & (2 ** 21 - 1));
}
