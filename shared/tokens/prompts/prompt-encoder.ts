import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../clock/index.ts';
import { findThreadEntry } from '../ask-loader.ts';
import { noteParts } from '../hashing/known-parts.ts';
import { PatternBudgetError } from '../patterns/steps.ts';
import type { Tokenizer } from '../types.ts';
import { EncodeQueue, type Lane, ThreadLane } from './encode-queue.ts';
import { type EncodedSegments, type EncodeJob, joinIds, SegmentEncoder } from './segments.ts';
import { type CachedSegment, TokenCache } from './token-cache.ts';

/** Time after which encoding yields to the event loop, at the end of the current segment. */
const SLICE_MS = 5;

export interface PromptEncoderOptions {
  readonly clock: Clock;
  /** Size limit of the cache of tokens, 0 = none. @default 0 */
  readonly cacheBytesMax?: number;
  /** Number of threads for long prompts, started when needed; 0 = encode in slices on the event loop. @default 0 */
  readonly threadsMax?: number;
  /**
   * Number of UTF-16 units that are encoded at once; a quarter of it outside Latin, where words are longer. @default
   * 32768, about 1 ms of common words and 5 ms of random letters
   */
  readonly inlineUnitsMax?: number;
  /** Number of long prompts that may wait; one more is refused. @default 256 */
  readonly waitingMax?: number;
  /** Limit for a long prompt, waiting included. @default 30000 */
  readonly timeoutMs?: number;
  /** Called when a thread ended by itself; its prompt has failed. */
  readonly onThreadLost?: (reason: Error) => void;
  /** Called once for each tokenizer whose patterns took too many steps for a text, with its file. */
  readonly onCostly?: (path: string | undefined) => void;
}

export interface EncodePromptOptions {
  /** @default false */
  readonly addSpecialTokens?: boolean;
  /** Number of tokens after which the rest of a prompt need not be encoded. @default Infinity */
  readonly enoughTokens?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface EncodedPrompt {
  readonly ids: Uint32Array;
  /** Number of tokens from the cache; undefined when the cache was not used. */
  readonly cachedTokens: number | undefined;
  /** False when encoding stopped at `enoughTokens`: then `ids` are only a beginning of the prompt. */
  readonly isWhole: boolean;
}

/** Length from which the cache is used: a shorter text is encoded faster than its segments are looked up. */
const CACHED_UNITS_MIN = 1024;
/** Weight of a text for the general library, which takes 50 times as long. */
const GENERAL_SLOWNESS = 64;
const NOT_LATIN_SLOWNESS = 4;
const NOT_LATIN1 = /[^\0-\xff]/;

/**
 * Encodes prompts of any length without blocking the event loop: short ones at once, long ones in threads or in slices.
 * Only segments that are not in the cache are encoded.
 */
export class PromptEncoder {
  readonly #cache: TokenCache | undefined;
  readonly #inlineUnitsMax: number;
  readonly #queue: EncodeQueue;
  /** Queue for tokenizers that encode only in threads. It has one thread if `threadsMax` asks for none. */
  readonly #threads: EncodeQueue;
  readonly #onCostly: (path: string | undefined) => void;
  readonly #costly = new WeakSet<Tokenizer>();

  constructor({ clock, cacheBytesMax = 0, inlineUnitsMax = 32_768, ...options }: PromptEncoderOptions) {
    this.#cache = cacheBytesMax > 0 ? new TokenCache(cacheBytesMax) : undefined;
    this.#inlineUnitsMax = inlineUnitsMax;
    this.#onCostly = options.onCostly ?? (() => undefined);
    const { threadsMax = 0, onThreadLost = () => undefined } = options;
    const openQueue = (lanesMax: number, openLane: () => Lane): EncodeQueue => {
      return new EncodeQueue({
        clock,
        openLane,
        lanesMax,
        waitingMax: options.waitingMax ?? 256,
        timeoutMs: options.timeoutMs ?? 30_000,
      });
    };
    const entry = findThreadEntry('encode-thread.js');
    const threads =
      entry === undefined
        ? undefined
        : openQueue(Math.max(1, threadsMax), () => new ThreadLane({ clock, entry, onLost: onThreadLost }));
    this.#queue = threads !== undefined && threadsMax > 0 ? threads : openQueue(1, () => createLoopLane(clock));
    this.#threads = threads ?? this.#queue;
  }

  /**
   * Returns the ids of `text`, synchronously if that is cheap. A long prompt rejects with the signal's reason when it
   * aborts, with `server_overloaded` when too many wait, with `deadline_exceeded` after the deadline.
   */
  encode(
    tokenizer: Tokenizer,
    text: string,
    options: EncodePromptOptions = {},
  ): EncodedPrompt | Promise<EncodedPrompt> {
    try {
      const isShort =
        text.length < CACHED_UNITS_MIN && text.length <= this.#inlineUnitsMax && tokenizer.encodesInThreads !== true;
      if (isShort) return { ids: tokenizer.encode(text, options), cachedTokens: undefined, isWhole: true };
      const encoding = new PromptEncoding(tokenizer, text, options, this.#cache);
      const encoded = encoding.run(this.#inlineUnitsMax, this.#queueFor(tokenizer));
      return encoded instanceof Promise ? encoded.catch((error: unknown) => this.#fail(tokenizer, error)) : encoded;
    } catch (error) {
      return this.#fail(tokenizer, error);
    }
  }

  /**
   * Opens a tokenizer that encodes in threads in one of them. With many tokens that takes a second or two, which its
   * first prompt would otherwise wait for. Never rejects: a problem appears with the first prompt.
   */
  async prepare(tokenizer: Tokenizer): Promise<void> {
    if (tokenizer.encodesInThreads !== true) return;
    const nothing = { texts: [], addSpecialTokens: false, enoughTokens: Number.POSITIVE_INFINITY };
    await this.#threads.encode({ tokenizer, ...nothing }).catch(() => undefined);
  }

  #fail(tokenizer: Tokenizer, error: unknown): never {
    if (error instanceof PatternBudgetError && !this.#costly.has(tokenizer)) {
      this.#costly.add(tokenizer);
      this.#onCostly(tokenizer.path);
    }
    throw error;
  }

  /** Ends the threads; prompts under way fail. */
  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#threads.close()]);
  }

  #queueFor(tokenizer: Tokenizer): EncodeQueue {
    return tokenizer.encodesInThreads === true ? this.#threads : this.#queue;
  }
}

/** One prompt in segments: those known from the cache, and those to encode. */
class PromptEncoding {
  readonly #tokenizer: Tokenizer;
  readonly #options: EncodePromptOptions;
  readonly #cache: TokenCache | undefined;
  /** Cached segments in order, with a hole for each segment to encode. */
  readonly #known: (CachedSegment | undefined)[] = [];
  readonly #missing: string[] = [];
  /** UTF-16 units to encode, weighted by the time they take. */
  #missingUnits = 0;
  #cachedTokens = 0;

  constructor(tokenizer: Tokenizer, text: string, options: EncodePromptOptions, cache: TokenCache | undefined) {
    this.#tokenizer = tokenizer;
    this.#options = options;
    // special tokens surround the whole prompt
    const isCut = options.addSpecialTokens !== true && tokenizer.cut !== undefined;
    this.#cache = isCut ? cache : undefined;
    if (isCut) this.#cut(text, tokenizer.cut(text));
    else this.#add(text, undefined);
  }

  run(inlineUnitsMax: number, queue: EncodeQueue): EncodedPrompt | Promise<EncodedPrompt> {
    const { addSpecialTokens = false, enoughTokens = Number.POSITIVE_INFINITY, signal } = this.#options;
    const job = {
      tokenizer: this.#tokenizer,
      texts: this.#missing,
      addSpecialTokens,
      enoughTokens: enoughTokens - this.#cachedTokens,
    };
    const slowness = this.#tokenizer.cut === undefined ? GENERAL_SLOWNESS : 1;
    const isLong = this.#missingUnits * slowness > inlineUnitsMax || this.#tokenizer.encodesInThreads === true;
    if (isLong && this.#tokenizer.recipe !== undefined) {
      return queue.encode(job, signal).then((encoded) => this.#finish(encoded));
    }
    const encoder = new SegmentEncoder(this.#tokenizer.encode, job);
    while (encoder.step());
    return this.#finish(encoder.take());
  }

  #cut(text: string, cuts: readonly number[]): void {
    let from = 0;
    let known: CachedSegment | undefined;
    for (const cut of cuts) {
      const segment = text.slice(from, cut);
      known = this.#cache?.get(this.#tokenizer, segment, known);
      this.#add(segment, known);
      from = cut;
    }
  }

  #add(segment: string, known: CachedSegment | undefined): void {
    this.#known.push(known);
    if (known !== undefined) {
      this.#cachedTokens += known.ids.length;
      return;
    }
    this.#missing.push(segment);
    this.#missingUnits += segment.length * (NOT_LATIN1.test(segment) ? NOT_LATIN_SLOWNESS : 1);
  }

  #finish({ ids, counts }: EncodedSegments): EncodedPrompt {
    const isWhole = counts.length === this.#missing.length;
    if (this.#cache === undefined) return { ids, cachedTokens: undefined, isWhole };
    const { parts, segments } = this.#remember(this.#cache, ids, counts);
    const whole = this.#cachedTokens === 0 ? ids : joinIds(parts, this.#cachedTokens + ids.length);
    if (isWhole) noteParts(whole, segments);
    return { ids: whole, cachedTokens: this.#cachedTokens, isWhole };
  }

  /**
   * Caches copies of the encoded ids: views would keep the ids of the whole prompt alive.
   * @returns the ids of all segments that have some, and the segments up to the first that is not kept
   */
  #remember(cache: TokenCache, ids: Uint32Array, counts: readonly number[]) {
    const parts: Uint32Array[] = [];
    const segments: CachedSegment[] = [];
    let missing = 0;
    let from = 0;
    let last: CachedSegment | undefined;
    for (const [index, known] of this.#known.entries()) {
      if (known !== undefined) {
        parts.push(known.ids);
        last = known;
      } else if (missing < counts.length) {
        const own = ids.slice(from, from + (counts[missing] as number));
        from += own.length;
        parts.push(own);
        last = cache.set(this.#tokenizer, this.#missing[missing++] as string, own, last);
      } else {
        last = undefined; // encoding stopped before it, with enough tokens
      }
      if (last !== undefined && segments.length === index) segments.push(last);
    }
    return { parts, segments };
  }
}

/** Creates a lane that encodes on the event loop in slices, for processes without threads. */
function createLoopLane(clock: Clock): Lane {
  return {
    async encode(job: EncodeJob, signal: AbortSignal): Promise<EncodedSegments> {
      const encoder = new SegmentEncoder(job.tokenizer.encode, job);
      let sliceStartMs = clock.nowMs();
      while (encoder.step()) {
        if (clock.nowMs() - sliceStartMs < SLICE_MS) continue;
        await setImmediate();
        signal.throwIfAborted();
        sliceStartMs = clock.nowMs();
      }
      return encoder.take();
    },
    close: async () => undefined,
  };
}
