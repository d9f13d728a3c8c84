import { reasonOf } from '../../errors/index.ts';
import { asRecord, parseExact, type UnknownRecord } from '../../records/index.ts';
import type { EngineEvent } from '../kv-stream/engine-events.ts';
import { EventNormaliser } from '../kv-stream/event-normaliser.ts';
import { EventOutlet } from '../kv-stream/event-outlet.ts';
import type { EventFeed, FeedDeps } from '../server/dialect.ts';
import type { KvEvent } from '../types.ts';

const PATH = '/kv_cache_events';
/** Limit of an answer: the server answers when its queue has been empty for two seconds. */
const ANSWER_TIMEOUT_MS = 30_000;
const PAUSE_MS = 100;
/** Pause before a retry when the server does not answer. */
const RETRY_MS = 1000;
/** Limit of blocks that were not full when they were stored: one for each sequence, and no engine has more. */
const PARTIAL_BLOCKS_MAX = 100_000;
const U64_MASK = 0xffff_ffff_ffff_ffffn;

interface PolledEventsOptions extends FeedDeps {
  readonly blockSizeTokens: number;
  /** Longest wait for an answer. @default 30,000 */
  readonly answerTimeoutMs?: number;
}

/**
 * KV events of TensorRT-LLM, which its server gives out once, to any caller. The events in a lost answer cannot be
 * requested again: then the cache counts as empty, and the blocks stored from there on are followed.
 *
 * Its ranks of attention data parallelism are one rank for routers, as no request can name one; a block that several of
 * them hold is gone with the last.
 */
export class PolledEvents implements EventFeed {
  readonly #options: PolledEventsOptions;
  readonly #stopping = new AbortController();
  readonly #outlet: EventOutlet;
  readonly #lastIds = new Map<number, number>();
  readonly #partial = new Set<string>();
  readonly #normaliser: EventNormaliser;
  #window = 0;

  constructor(options: PolledEventsOptions) {
    this.#options = options;
    this.#outlet = new EventOutlet(options);
    const { blockSizeTokens } = options;
    this.#normaliser = new EventNormaliser({
      dpRank: 0,
      blockSizeTokens,
      onUnusable: (why) => this.#outlet.drop(1, why),
    });
  }

  async open(): Promise<void> {
    void this.#poll(); // never rejects
  }

  /** Does nothing: earlier events cannot be requested. */
  catchUp(): void {}

  restart(): void {
    this.#lastIds.clear();
    this.#partial.clear();
    this.#window = 0;
    this.clear();
  }

  clear(): void {
    this.#outlet.emit([this.#normaliser.clear()]);
  }

  listen(listener: (events: readonly KvEvent[]) => void): void {
    this.#outlet.listen(listener);
  }

  async close(): Promise<void> {
    this.#outlet.close();
    this.#stopping.abort();
  }

  async #poll(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const goesOn = await this.#ask().catch((problem: unknown) => {
        if (!signal.aborted) this.#lose(1, `an answer of ${PATH} was lost: ${reasonOf(problem)}`);
        return 'later' as const;
      });
      if (goesOn === 'never') return;
      // the loop checks the signal
      await clock.sleep(goesOn === 'now' ? PAUSE_MS : RETRY_MS, signal).catch(() => undefined);
    }
  }

  async #ask(): Promise<'now' | 'later' | 'never'> {
    const { server, answerTimeoutMs = ANSWER_TIMEOUT_MS } = this.#options;
    const { status, text } = await server.ask({ path: PATH, method: 'POST' }, answerTimeoutMs);
    if (status === 404 || status === 405) {
      this.#outlet.warn(`the engine has no ${PATH}: prompts are routed only by load`);
      return 'never';
    }
    if (status !== 200) {
      this.#outlet.warn(`${PATH} answers ${status}`);
      return 'later';
    }
    const answered: unknown = parseExact(text);
    if (Array.isArray(answered) && !this.#stopping.signal.aborted) this.#take(answered);
    return 'now';
  }

  #take(rawEvents: readonly unknown[]): void {
    const events: (KvEvent | undefined)[] = [];
    for (const each of rawEvents) {
      const event = asRecord(each) ?? {};
      if (this.#isAfterGap(event)) events.push(this.#normaliser.clear());
      const read = this.#isOfWholePrefixes(event) ? this.#read(asRecord(event.data) ?? {}) : undefined;
      if (read !== undefined) events.push(this.#normaliser.apply(read));
    }
    this.#outlet.emit(events);
  }

  /** Returns whether the engine's queue was too small: then it drops the oldest events. */
  #isAfterGap({ event_id: id, attention_dp_rank: rank }: UnknownRecord): boolean {
    if (typeof id !== 'number') return false;
    const key = typeof rank === 'number' ? rank : 0;
    const last = this.#lastIds.get(key);
    this.#lastIds.set(key, id);
    if (last === undefined || id === last + 1) return false;
    this.#partial.clear();
    this.#outlet.drop(Math.max(1, id - last - 1), 'dropped by the engine: its event_buffer_max_size is too small');
    return true;
  }

  /**
   * Returns whether an event is about whole prefixes: layers with windowed attention have caches of their own, which do
   * not hold them.
   */
  #isOfWholePrefixes({ window_size: window }: UnknownRecord): boolean {
    if (typeof window !== 'number') return true;
    this.#window = Math.max(this.#window, window);
    return window === this.#window;
  }

  #read(data: UnknownRecord): EngineEvent | undefined {
    if (data.type === 'stored') return this.#stored(data);
    return data.type === 'removed' ? this.#removed(data) : undefined; // created, and moves between tiers
  }

  #stored({ blocks, parent_hash: parent, lora_name: lora, cache_salt: salt }: UnknownRecord): EngineEvent | undefined {
    const { blockSizeTokens: size } = this.#options;
    const hashes: bigint[] = [];
    const tokenIds: number[] = [];
    for (const each of Array.isArray(blocks) ? blocks : []) {
      const block = asRecord(each) ?? {};
      const [hash, ids] = [hashOf(block.block_hash), idsOf(block.tokens)];
      if (hash === undefined || ids === undefined) {
        this.#outlet.drop(1, 'of an unknown form');
        break; // the later blocks depend on it
      }
      if (ids.length > size) {
        this.#outlet.drop(1, `block size ${ids.length}, not ${size}: give --block-size`);
        return undefined;
      }
      if (ids.length < size) {
        if (this.#partial.size < PARTIAL_BLOCKS_MAX) this.#partial.add(`${hash}`);
        break;
      }
      hashes.push(hash);
      tokenIds.push(...ids);
    }
    if (hashes.length === 0) return undefined;
    const parentHash = hashOf(parent);
    return {
      kind: 'stored',
      blockHashes: pairsOf(hashes),
      parentHash: parentHash === undefined ? undefined : pairsOf([parentHash]),
      tokenIds: Uint32Array.from(tokenIds),
      blockSizeTokens: size,
      extraKeys: undefined,
      loraId: undefined,
      loraName: typeof lora === 'string' ? lora : undefined,
      cacheSalt: typeof salt === 'string' ? salt : undefined,
      medium: undefined,
      group: undefined,
      cacheKind: undefined,
    };
  }

  #removed({ block_hashes: list }: UnknownRecord): EngineEvent | undefined {
    const hashes = (Array.isArray(list) ? list : [])
      .map(hashOf)
      .filter((hash) => hash !== undefined && !this.#partial.delete(`${hash}`)) as bigint[];
    if (hashes.length === 0) return undefined;
    return { kind: 'removed', blockHashes: pairsOf(hashes), medium: undefined, group: undefined };
  }

  #lose(count: number, why: string): void {
    this.#outlet.drop(count, why);
    this.clear();
  }
}

function hashOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value & U64_MASK;
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) & U64_MASK : undefined;
}

/** Reads ids of text; undefined for others: media have an id beside the token's. */
function idsOf(tokens: unknown): readonly number[] | undefined {
  if (!Array.isArray(tokens)) return undefined;
  const ids: number[] = [];
  for (const token of tokens) {
    const { token_id: id, token_extra_id: extra = 0 } = asRecord(token) ?? {};
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || (extra !== 0 && extra !== null)) return undefined;
    ids.push(id);
  }
  return ids;
}

/** Converts hashes to pairs of u32 halves, low half first. */
function pairsOf(hashes: readonly bigint[]): Uint32Array {
  const pairs = new Uint32Array(2 * hashes.length);
  for (const [at, hash] of hashes.entries()) {
    pairs[2 * at] = Number(hash & 0xffff_ffffn);
    pairs[2 * at + 1] = Number(hash >> 32n);
  }
  return pairs;
}
