import type { Clock } from '../../clock/index.ts';
import { workerError } from '../../errors/index.ts';
import { RecordReader, type UnknownRecord } from '../../records/index.ts';

/*
 * Questions to workers and their answers, on the request plane. The sequence hashes of a prompt are the raw u32 tail
 * of the OPEN frame, low half first.
 */

/**
 * Endpoint of a worker's component for questions. It is in no record of discovery, because its place follows from the
 * model's.
 */
export const QUOTE_ENDPOINT = 'quote';

/** Bound of the blocks in a question: 32 KiB. Further blocks count as not cached at every worker. */
const BLOCKS_MAX = 4096;
const RANKS_MAX = 1024;
const ID_LENGTH_MAX = 1024;

/**
 * Reads records. A fault is not the client's mistake: the two ends have different versions, or one of them is not a
 * worker or router.
 */
const read = new RecordReader((what) => workerError('BackendProtocol', what));

/** A question to a worker. */
export type QuoteQuestion =
  /** Asks how cheap the prompt is there, and for a place at once if it is cheap enough. */
  | {
      readonly kind: 'quote';
      readonly blockSizeTokens: number;
      readonly sequence: Uint32Array;
      readonly hold?: HoldTerms | undefined;
    }
  /** Asks for a place. */
  | { readonly kind: 'claim'; readonly claim: PlaceClaim };

/** Terms on which a worker promises a place with its quotes. */
export interface HoldTerms {
  /** Id of the request. */
  readonly id: string;
  /** Prompt tokens. */
  readonly tokens: number;
  /** Rank that must take it. @default any */
  readonly dpRank?: number | undefined;
  /** Bound of the prompt tokens that the worker would have to compute for it. */
  readonly uncachedTokensMax: number;
  /** Bound of the worker's backlog including those tokens. */
  readonly backlogTokensMax: number;
}

export interface PlaceClaim {
  /** Id of the request. */
  readonly id: string;
  readonly dpRank: number;
  /** Prompt tokens that the worker will compute for it. */
  readonly tokens: number;
  /** Backlog above which the request goes elsewhere; infinite = it comes in any case. */
  readonly prefillTokensMax: number;
}

/** Quote of one rank for a prompt. */
export interface QuotedRank {
  readonly dpRank: number;
  /** Leading prompt tokens that the rank has cached. */
  readonly cachedTokens: number;
  /** Prompt tokens that the rank will compute before it, with those of requests that are still to arrive. */
  readonly prefillTokens: number;
  /** KV blocks in use. */
  readonly activeBlocks: number;
}

/** Answer of a worker. */
export interface QuoteAnswer {
  readonly ranks: readonly QuotedRank[];
  /** Rank that holds a place for the request; undefined = none. */
  readonly heldAt?: number | undefined;
}

export interface ClaimAnswer {
  readonly isHeld: boolean;
  /** Prompt tokens before the request, without its own. */
  readonly prefillTokens: number;
}

/** Returns record and tail of a question. */
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

/** @throws ServeError for a record that is not a question */
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

/** @throws ServeError for a record that is not an answer to a question for quotes */
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

/** @throws ServeError for a record that is not an answer to a claim */
export function decodeClaimAnswer(body: unknown): ClaimAnswer {
  const { held, prefill_tokens } = read.record(body, 'answer');
  if (typeof held !== 'boolean') throw read.refuse(held, 'held', 'true or false');
  return { isHeld: held, prefillTokens: read.wholeNumber(prefill_tokens, 'prefill_tokens') };
}

/** A request that has a promised place and has not arrived yet. */
export interface HeldPlace {
  readonly id: string;
  readonly dpRank: number;
  /** Prompt tokens that the worker will compute for it. */
  readonly tokens: number;
}

/** Time after which a place is given up if its request has not arrived: it went elsewhere, or its sender is gone. */
const HELD_MS = 250;
/** Bound of the places held at once. Further ones are promised without being counted. */
const HELD_MAX = 4096;

/**
 * Requests that are to arrive at one worker, so that routers that ask it in the same instant see each other's requests.
 *
 *     quote ──> claim ──held──> request arrives, or 250 ms are over
 *                 └──refused──> claim elsewhere
 */
export class PlaceBook {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #onUncounted: () => void;
  readonly #held = new Map<string, HeldPlace & { readonly untilMs: number }>(); // the oldest first
  readonly #tokens = new Map<number, number>(); // by rank

  /** @param onUncounted called when a place is promised without being counted */
  constructor(clock: Pick<Clock, 'nowMs'>, onUncounted = () => {}) {
    this.#clock = clock;
    this.#onUncounted = onUncounted;
  }

  /** Returns the prompt tokens of requests that are to arrive at a rank. */
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

  /**
   * Notes that the request has arrived, so that the engine counts it from now on. Has no effect for a request without a
   * place.
   */
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
