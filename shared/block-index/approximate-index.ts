import type { Clock } from '../clock/index.ts';
import type { BlockHashes } from '../tokens/index.ts';
import { BlockIndex } from './block-index.ts';
import { BlockAllowance } from './memory.ts';
import { Overlaps, type PrefixIndex } from './prefix-index.ts';
import { RankStays } from './rank-stays.ts';
import type { RankTable } from './rank-table.ts';
import { TouchedBlocks } from './touched-blocks.ts';

/** Number of expired blocks that one query removes at most. */
const EXPIRED_PER_QUERY = 1000;
/** Number of blocks that a decision evicts at most, beyond as many as its own. */
const EVICTED_AHEAD = 256;
/** Step to which expiry is rounded up: this, or a tenth of a shorter time to live. */
const BUCKET_MS = 100;
/** List of the blocks that expire by time. Ranks with a known capacity have lists of their own. */
const BY_TIME = 0;
/**
 * Times for which clients want their blocks kept longer, one list for each. Times are rounded up to these, so that a
 * later entry of a list expires later.
 */
const HELD_MS: readonly number[] = [300_000, 3_600_000, 86_400_000];
const LISTS_BY_TIME = 1 + HELD_MS.length;
/**
 * Share of the room in which such blocks take precedence. One client's wish must not evict the prompts of all others.
 */
const HELD_SHARE = 0.5;

export interface ApproximateIndexOptions {
  readonly ranks: RankTable;
  readonly clock: Pick<Clock, 'nowMs'>;
  /**
   * Rule of eviction. `lru`: a rank keeps as many blocks as it has room for (`setCapacity`), and until that is known
   * goes by time.
   */
  readonly policy: 'ttl' | 'lru';
  /** Time for which a block counts as held after the last decision that used it. */
  readonly ttlMs: number;
  /** Bound of the holdings of ranks that go by time; the least recently used are evicted. @default 1,048,576 */
  readonly blocksMax?: number;
  /** Returns the bound of the memory in bytes. The index calls it whenever it has grown. @default none */
  readonly bytesMax?: () => number;
  /** Called with the number of blocks evicted for lack of room. */
  readonly onEvicted?: (blocks: number) => void;
}

interface Running {
  readonly rank: number;
  readonly sequence: Uint32Array;
}

/**
 * The blocks that ranks hold, as the router's own decisions imply. In approximate mode it replaces events. Beside
 * events (`raise`) it knows a prompt before its first event arrives.
 */
export class ApproximateIndex implements PrefixIndex {
  readonly #ranks: RankTable;
  readonly #index: BlockIndex;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #policy: 'ttl' | 'lru';
  readonly #ttlMs: number;
  readonly #bucketMs: number;
  readonly #touched = new TouchedBlocks();
  readonly #stays = new RankStays();
  /** Record that the sweep for ended stays checks next; 0 = no sweep is running. */
  #sweptTo = 0;
  /** Numbers of stays and lists that had ended when that sweep began. */
  #sweptStays = 0;
  #sweptLists = 0;
  readonly #blocksMax: number;
  readonly #allowance: BlockAllowance;
  readonly #onEvicted: (blocks: number) => void;
  readonly #capacities: (number | undefined)[] = [];
  /** List of each rank, by rank number. */
  readonly #lists: (number | undefined)[] = [];
  #listCount = LISTS_BY_TIME;
  readonly #freeLists: number[] = [];
  /** Lists of removed ranks. */
  readonly #goneLists: number[] = [];
  readonly #running = new Map<string, Running>();
  readonly #found = new Overlaps(0);
  readonly #hash = new Uint32Array(2);

  constructor(options: ApproximateIndexOptions) {
    const { ranks, clock, policy, ttlMs, blocksMax = 1 << 20, onEvicted = () => {} } = options;
    const { bytesMax = () => Number.POSITIVE_INFINITY } = options;
    // There is room for twice as many, so that the list of uses decides what to evict. Under `lru` the ranks' own
    // bounds apply.
    const roomBlocks = policy === 'lru' ? 1 << 24 : 2 * blocksMax;
    this.#index = new BlockIndex({ ranks, blocksMax: roomBlocks, onEvicted });
    this.#ranks = ranks;
    this.#allowance = new BlockAllowance(Number.POSITIVE_INFINITY, bytesMax);
    this.#clock = clock;
    this.#policy = policy;
    this.#blocksMax = blocksMax;
    this.#onEvicted = onEvicted;
    this.#ttlMs = ttlMs;
    this.#bucketMs = Math.min(BUCKET_MS, Math.max(1, ttlMs / 10));
  }

  /**
   * Records that a request went to `rank`. Its blocks count as stored there, and under `lru` they stay until the
   * request is `freed`.
   */
  decided(requestId: string, rank: number, { local, sequence }: BlockHashes, cacheTtlMs = 0): void {
    this.#expire(EXPIRED_PER_QUERY);
    this.#index.stored(rank, 'device', undefined, sequence, local);
    const isPinned = this.#hasCapacity(rank) && !this.#running.has(requestId);
    if (isPinned) this.#running.set(requestId, { rank, sequence });
    const held = HELD_MS.findIndex((ms) => ms >= cacheTtlMs);
    const heldMs = cacheTtlMs > this.#ttlMs ? (HELD_MS[held] ?? this.#ttlMs) : 0;
    const stamp = Math.ceil((this.#clock.nowMs() + Math.max(this.#ttlMs, heldMs)) / this.#bucketMs);
    const list = heldMs > this.#ttlMs && !this.#hasCapacity(rank) ? 1 + held : this.#listOf(rank);
    const stay = this.#stays.open(rank);
    for (let at = sequence.length - 2; at >= 0; at -= 2) {
      const record = this.#touched.open(stay, (sequence[at] as number) | 0, (sequence[at + 1] as number) | 0);
      if (record === 0) continue;
      if (isPinned) this.#touched.pin(record);
      if (this.#isHeldLonger(record, stamp)) continue;
      this.#touched.touch(record, list, stamp);
    }
    this.#shrink(rank);
    this.#makeRoom(rank, sequence.length >> 1);
  }

  /** Records that the request left its worker. Idempotent. */
  freed(requestId: string): void {
    const running = this.#running.get(requestId);
    if (running === undefined) return;
    this.#running.delete(requestId);
    const { rank, sequence } = running;
    const stay = this.#stays.find(rank);
    if (stay === undefined) return;
    const list = this.#listOf(rank);
    for (let at = sequence.length - 2; at >= 0; at -= 2) {
      const record = this.#touched.find(stay, (sequence[at] as number) | 0, (sequence[at + 1] as number) | 0);
      if (record === 0) continue;
      this.#touched.unpin(record);
      this.#touched.touch(record, list, this.#touched.stampOf(record));
    }
    this.#shrink(rank);
  }

  /** Sets how many blocks the rank has room for; undefined = unknown. Has an effect only under `lru`. */
  setCapacity(rank: number, blocks: number | undefined): void {
    this.#capacities[rank] = blocks;
    this.#shrink(rank);
  }

  /** Clears the rank as a block index does, and recycles its number if its pair was dropped from the `RankTable`. */
  removeRank(rank: number): void {
    for (const [requestId, running] of this.#running) if (running.rank === rank) this.freed(requestId);
    this.#index.cleared(rank);
    this.#capacities[rank] = undefined;
    this.#stays.end(rank);
    const list = this.#lists[rank];
    this.#lists[rank] = undefined;
    if (list !== undefined) this.#goneLists.push(list);
    this.#ranks.recycle(rank);
  }

  /** Resets `overlaps` and fills it. All blocks count as on the device. */
  match(hashes: BlockHashes, overlaps: Overlaps): void {
    this.#expire(EXPIRED_PER_QUERY);
    this.#index.match(hashes, overlaps);
  }

  /**
   * Raises the device blocks that another index found to those known here. Lower tiers then continue where the device
   * ends.
   */
  raise(hashes: BlockHashes, overlaps: Overlaps): void {
    const found = this.#found;
    this.match(hashes, found);
    for (let at = 0; at < found.count; at++) {
      const rank = found.ranks[at] as number;
      const device = overlaps.device[rank] as number;
      const raised = found.device[rank] as number;
      if (raised <= device) continue;
      const inHost = device + (overlaps.host[rank] as number);
      const onDisk = inHost + (overlaps.disk[rank] as number);
      overlaps.touch(rank);
      overlaps.device[rank] = raised;
      overlaps.host[rank] = Math.max(0, inHost - raised);
      overlaps.disk[rank] = Math.max(0, onDisk - Math.max(raised, inHost));
    }
  }

  /** Removes expired blocks, at most `blocksMax`. @returns whether more is left to do */
  housekeep(blocksMax = 2000): boolean {
    const isLate = this.#expire(blocksMax);
    const hasGone = this.#sweepGone(blocksMax);
    return this.#index.housekeep(blocksMax) || isLate || hasGone;
  }

  /** Removes records of ranks that were removed. @returns whether more is left to do */
  #sweepGone(recordsMax: number): boolean {
    if (this.#sweptTo === 0) {
      this.#sweptStays = this.#stays.endedCount;
      this.#sweptLists = this.#goneLists.length;
      if (this.#sweptStays === 0) return false;
      this.#sweptTo = 1;
    }
    this.#sweptTo = this.#touched.sweep(this.#sweptTo, recordsMax, (stay) => this.#stays.rankOf(stay) === undefined);
    if (this.#sweptTo > 0) return true;
    this.#stays.recycle(this.#sweptStays);
    this.#freeLists.push(...this.#goneLists.splice(0, this.#sweptLists));
    return this.#stays.endedCount > 0;
  }

  get blockCount(): number {
    return this.#index.blockCount;
  }

  /** Bytes of memory in use, counted as in `BlockIndex`. */
  get bytes(): number {
    return this.#index.bytes + this.#touched.bytes;
  }

  blocksOf(rank: number): number {
    return this.#index.blocksOf(rank);
  }

  /** Yields what `rank` should hold, as `BlockIndex.dump` does. */
  dump(rank: number): ReturnType<BlockIndex['dump']> {
    return this.#index.dump(rank);
  }

  #hasCapacity(rank: number): boolean {
    return this.#policy === 'lru' && this.#capacities[rank] !== undefined;
  }

  #listOf(rank: number): number {
    if (!this.#hasCapacity(rank)) return BY_TIME;
    const list = this.#lists[rank] ?? this.#freeLists.pop() ?? this.#listCount++;
    this.#lists[rank] = list;
    return list;
  }

  /** Evicts least recently used blocks, except those of running requests, until the rank has room for the rest. */
  #shrink(rank: number): void {
    if (!this.#hasCapacity(rank)) return;
    while (this.blocksOf(rank) > (this.#capacities[rank] ?? 0)) {
      const record = this.#touched.oldest(this.#listOf(rank));
      if (record === 0) return;
      this.#forget(record);
    }
  }

  /**
   * Evicts the blocks that expire first. If memory is short, also evicts those that `rank` used longest ago. Many
   * evictions are spread over several decisions.
   */
  #makeRoom(rank: number, blocks: number): void {
    const held = this.#touched;
    const fitting = this.#allowance.blocksMax(held.count, this.bytes);
    const room = Math.min(fitting, this.#blocksMax);
    let evicted = 0;
    for (; held.count > room && evicted < blocks + EVICTED_AHEAD; evicted++) {
      const record = this.#firstByTime(room) || (held.count > fitting ? held.oldest(this.#listOf(rank)) : 0);
      if (record === 0) break;
      this.#forget(record);
    }
    if (evicted > 0) this.#onEvicted(evicted);
  }

  /** @returns whether more expired blocks are left */
  #expire(blocksMax: number): boolean {
    const now = this.#clock.nowMs() / this.#bucketMs;
    let count = 0;
    for (let list = BY_TIME; list < LISTS_BY_TIME; list++) {
      for (;;) {
        const record = this.#touched.oldest(list);
        if (record === 0 || this.#touched.stampOf(record) > now) break;
        if (count++ === blocksMax) return true;
        this.#forget(record);
      }
    }
    return false;
  }

  /** Whether another client wants the block kept beyond `stamp`. */
  #isHeldLonger(record: number, stamp: number): boolean {
    const list = this.#touched.listOf(record);
    return list > BY_TIME && list < LISTS_BY_TIME && this.#touched.stampOf(record) > stamp;
  }

  /**
   * Returns the block to evict first for lack of room. Blocks kept for longer go last, as far as they are within their
   * share.
   */
  #firstByTime(room: number): number {
    const isOver = this.#heldCount > HELD_SHARE * room;
    return (isOver ? 0 : this.#touched.oldest(BY_TIME)) || this.#firstHeld();
  }

  get #heldCount(): number {
    return HELD_MS.reduce((count, _, at) => count + this.#touched.sizeOf(1 + at), 0);
  }

  /** Returns the least recently used of the blocks that are kept for longer; 0 if there are none. */
  #firstHeld(): number {
    let [first, firstMs] = [0, Number.POSITIVE_INFINITY];
    for (const [at, heldMs] of HELD_MS.entries()) {
      const record = this.#touched.oldest(1 + at);
      const usedMs = record === 0 ? firstMs : this.#touched.stampOf(record) * this.#bucketMs - heldMs;
      if (usedMs < firstMs) [first, firstMs] = [record, usedMs];
    }
    return first;
  }

  #forget(record: number): void {
    const rank = this.#stays.rankOf(this.#touched.stayOf(record));
    if (rank !== undefined) {
      this.#hash[0] = this.#touched.low(record);
      this.#hash[1] = this.#touched.high(record);
      this.#index.removed(rank, 'device', this.#hash);
    }
    this.#touched.remove(record);
  }
}

/**
 * Combines an index of events with one of decisions, so that requests of one burst with a common prefix share a worker
 * before the first event arrives.
 */
export function predictingIndex(
  events: PrefixIndex,
  predictions: Pick<ApproximateIndex, 'decided' | 'freed' | 'raise' | 'removeRank'>,
): PrefixIndex {
  return {
    match: (hashes, overlaps) => {
      events.match(hashes, overlaps);
      predictions.raise(hashes, overlaps);
    },
    removeRank: (rank) => {
      predictions.removeRank(rank);
      events.removeRank(rank); // recycles the number once nothing refers to it
    },
    decided: (requestId, rank, hashes) => predictions.decided(requestId, rank, hashes),
    freed: (requestId) => predictions.freed(requestId),
    blocksOf: (rank) => events.blocksOf?.(rank) ?? 0,
  };
}
