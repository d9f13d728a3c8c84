import type { Clock } from '../../clock/index.ts';
import { workerError } from '../../errors/index.ts';
import { RecordReader, type UnknownRecord } from '../../records/index.ts';

/*
 * What is asked of a worker and what it says, on the request plane. The sequence hashes of a prompt ride as the raw u32 tail of
 * the OPEN frame, low half first.
 */

/**
 * Endpoint of a worker's component where it is asked; in no record of discovery, as its place follows from the model's.
 */
export const QUOTE_ENDPOINT = 'quote';

/** Blocks of a prompt that are asked about: 32 KiB a question. Those beyond count as computed anew everywhere. */
const BLOCKS_MAX = 4096;
const RANKS_MAX = 1024;
const ID_LENGTH_MAX = 1024;

/** Not a client's mistake: the two ends are of different versions, or one of them is not what it seems. */
const read = new RecordReader((what) => workerError('BackendProtocol', what));

/** A question to a worker. */
export type QuoteQuestion =
  /** What would a prompt find, and may it come at once? */
  | {
      readonly kind: 'quote';
      readonly blockSizeTokens: number;
      readonly sequence: Uint32Array;
      readonly hold?: HoldTerms | undefined;
    }
  /** May it come? */
  | { readonly kind: 'claim'; readonly claim: PlaceClaim };

/** When a worker promises a place with its quotes. */
export interface HoldTerms {
  /** Of the request. */
  readonly id: string;
  /** Prompt tokens. */
  readonly tokens: number;
  /** The rank that has to take it. @default any */
  readonly dpRank?: number | undefined;
  /** Only where it would compute at most so many of them, */
  readonly uncachedTokensMax: number;
  /** and at most so many with what waits there. */
  readonly backlogTokensMax: number;
}

export interface PlaceClaim {
  /** Of the request. */
  readonly id: string;
  readonly dpRank: number;
  /** Prompt tokens that it will compute. */
  readonly tokens: number;
  /** It goes elsewhere when there are more before it; infinite = it comes in any case. */
  readonly prefillTokensMax: number;
}

/** What one rank says that a prompt would find there. */
export interface QuotedRank {
  readonly dpRank: number;
  /** Leading prompt tokens that are cached. */
  readonly cachedTokens: number;
  /** Prompt tokens that are to be computed there before it, those of requests on their way among them. */
  readonly prefillTokens: number;
  /** KV blocks in use. */
  readonly activeBlocks: number;
}

/** What a worker says. */
export interface QuoteAnswer {
  readonly ranks: readonly QuotedRank[];
  /** The rank that holds a place for the request; undefined = none does. */
  readonly heldAt?: number | undefined;
}

export interface ClaimAnswer {
  readonly isHeld: boolean;
  /** Prompt tokens before it, without its own. */
  readonly prefillTokens: number;
}

/** Record and tail of a question. */
export function encodeQuestion(question: QuoteQuestion): {
  readonly body: UnknownRecord;
  readonly tokenIds?: Uint32Array;
} {
  if (question.kind === 'quote') {
    const { blockSizeTokens, sequence, hold } = question;
    const body = { block_size_tokens: blockSizeTokens, ...(hold === undefined ? {} : { hold: encodeHold(hold) }) };
    return { body, tokenIds: sequence.subarray(0, 2 * BLOCKS_MAX) };
  }
  const { id, dpRank, tokens, prefillTokensMax } = question.claim;
  const limit = Number.isFinite(prefillTokensMax) ? { prefill_tokens_max: Math.max(0, prefillTokensMax) } : {};
  return { body: { claim: { request_id: id, dp_rank: dpRank, tokens, ...limit } } };
}

/** @throws ServeError for a record that is no question */
export function decodeQuestion(body: unknown, tail: Uint32Array | undefined): QuoteQuestion {
  const { claim, hold, block_size_tokens } = read.record(body, 'question');
  if (claim !== undefined) return { kind: 'claim', claim: decodeClaim(read.record(claim, 'claim')) };
  const sequence = tail ?? new Uint32Array(0);
  if (sequence.length % 2 !== 0 || sequence.length > 2 * BLOCKS_MAX)
    throw workerError('BackendProtocol', `at most ${BLOCKS_MAX} block hashes of two words each`);
  return {
    kind: 'quote',
    blockSizeTokens: read.wholeNumber(block_size_tokens, 'block_size_tokens'),
    sequence,
    hold: hold === undefined ? undefined : decodeHold(read.record(hold, 'hold')),
  };
}

function encodeHold({ id, tokens, dpRank, uncachedTokensMax, backlogTokensMax }: HoldTerms): UnknownRecord {
  return {
    request_id: id,
    tokens,
    ...(dpRank === undefined ? {} : { dp_rank: dpRank }),
    uncached_tokens_max: uncachedTokensMax,
    backlog_tokens_max: backlogTokensMax,
  };
}

function decodeHold(hold: UnknownRecord): HoldTerms {
  const { request_id, tokens, dp_rank, uncached_tokens_max, backlog_tokens_max } = hold;
  return {
    id: read.text(request_id, 'request_id', ID_LENGTH_MAX),
    tokens: read.wholeNumber(tokens, 'tokens'),
    dpRank: dp_rank === undefined ? undefined : read.wholeNumber(dp_rank, 'dp_rank'),
    uncachedTokensMax: read.wholeNumber(uncached_tokens_max, 'uncached_tokens_max'),
    backlogTokensMax: read.wholeNumber(backlog_tokens_max, 'backlog_tokens_max'),
  };
}

function decodeClaim({ request_id, dp_rank, tokens, prefill_tokens_max: max }: UnknownRecord): PlaceClaim {
  return {
    id: read.text(request_id, 'request_id', ID_LENGTH_MAX),
    dpRank: read.wholeNumber(dp_rank, 'dp_rank'),
    tokens: read.wholeNumber(tokens, 'tokens'),
    prefillTokensMax: max === undefined ? Number.POSITIVE_INFINITY : read.wholeNumber(max, 'prefill_tokens_max'),
  };
}

export function encodeQuotes({ ranks, heldAt }: QuoteAnswer): UnknownRecord {
  return {
    ...(heldAt === undefined ? {} : { held_at: heldAt }),
    ranks: ranks.map(({ dpRank, cachedTokens, prefillTokens, activeBlocks }) => ({
      dp_rank: dpRank,
      cached_tokens: cachedTokens,
      prefill_tokens: prefillTokens,
      active_blocks: activeBlocks,
    })),
  };
}

/** @throws ServeError for a record that is no answer to a question for quotes */
export function decodeQuotes(body: unknown): QuoteAnswer {
  const { ranks, held_at } = read.record(body, 'answer');
  const heldAt = held_at === undefined ? undefined : read.wholeNumber(held_at, 'held_at');
  return { ranks: read.list(ranks, 'ranks', RANKS_MAX).map(decodeRank), heldAt };
}

function decodeRank(item: unknown): QuotedRank {
  const { dp_rank, cached_tokens, prefill_tokens, active_blocks } = read.record(item, 'rank');
  return {
    dpRank: read.wholeNumber(dp_rank, 'dp_rank'),
    cachedTokens: read.wholeNumber(cached_tokens, 'cached_tokens'),
    prefillTokens: read.wholeNumber(prefill_tokens, 'prefill_tokens'),
    activeBlocks: read.wholeNumber(active_blocks, 'active_blocks'),
  };
}

export function encodeClaimAnswer({ isHeld, prefillTokens }: ClaimAnswer): UnknownRecord {
  return { held: isHeld, prefill_tokens: prefillTokens };
}

/** @throws ServeError for a record that is no answer to a claim */
export function decodeClaimAnswer(body: unknown): ClaimAnswer {
  const { held, prefill_tokens } = read.record(body, 'answer');
  if (typeof held !== 'boolean') throw read.refuse(held, 'held', 'true or false');
  return { isHeld: held, prefillTokens: read.wholeNumber(prefill_tokens, 'prefill_tokens') };
}

/** A request whose prompt is promised a place and is on its way there. */
export interface HeldPlace {
  readonly id: string;
  readonly dpRank: number;
  /** Prompt tokens that it will compute. */
  readonly tokens: number;
}

/** A place is given up when its request has not come by then: it went elsewhere, or whoever sent it is gone. */
const HELD_MS = 250;
/** Places held at once; those beyond are promised without being counted. */
const HELD_MAX = 4096;

/**
 * Requests on their way to one worker, so that those who ask it in the same instant see one another.
 *
 *     quote ──> claim ──held──> request arrives, or 250 ms are over
 *                 └──refused──> claim elsewhere
 */
export class PlaceBook {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #onUncounted: () => void;
  readonly #held = new Map<string, HeldPlace & { readonly untilMs: number }>(); // the oldest first
  readonly #tokens = new Map<number, number>(); // by rank

  /** @param onUncounted a place is promised without being counted */
  constructor(clock: Pick<Clock, 'nowMs'>, onUncounted = () => {}) {
    this.#clock = clock;
    this.#onUncounted = onUncounted;
  }

  /** Prompt tokens on their way to a rank. */
  tokensOf(dpRank: number): number {
    this.#forgetLate();
    return this.#tokens.get(dpRank) ?? 0;
  }

  hold(place: HeldPlace): void {
    this.arrived(place.id);
    this.#forgetLate();
    if (this.#held.size >= HELD_MAX) {
      this.#onUncounted();
      return;
    }
    this.#held.set(place.id, { ...place, untilMs: this.#clock.nowMs() + HELD_MS });
    this.#count(place, 1);
  }

  /** The request is there, and counted by the engine from now on. Nothing for one that holds no place. */
  arrived(id: string): void {
    const place = this.#held.get(id);
    if (place === undefined) return;
    this.#held.delete(id);
    this.#count(place, -1);
  }

  #forgetLate(): void {
    const nowMs = this.#clock.nowMs();
    for (const { id, untilMs } of this.#held.values()) {
      if (untilMs > nowMs) return;
      this.arrived(id);
    }
  }

  #count({ dpRank, tokens }: HeldPlace, sign: 1 | -1): void {
    const now = (this.#tokens.get(dpRank) ?? 0) + sign * tokens;
    if (now > 0) this.#tokens.set(dpRank, now);
    else this.#tokens.delete(dpRank);
  }
}
