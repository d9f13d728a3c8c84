import { chainHashes, type HashScratch, hashScratch } from '../tokens/index.ts';
import { ROOT } from './block-records.ts';
import { U64Set } from './hash-table.ts';
import { ALONE, fastest, HOLDER_MASK, INCARNATION_SHIFT, RECENT, TIER_BITS, TIERS_MASK } from './holder-sets.ts';
import type { Overlaps } from './prefix-index.ts';
import type { Residency } from './residency.ts';
import type { HashPair } from './types.ts';

/**
 * Finds the longest held prefixes of a chain of sequence hashes. The hash of its whole prefix identifies a block, and
 * its holders are among those of every block before it. So bisection finds the end of the chain. From there the way
 * leads up by skips, over segments with equal holders, and most blocks are never read:
 *
 *     block     0 . . . . . 63 64 . . . . 200 | 201 . .     not in the index from 201 on
 *     holders   { a b c d }    { b }          |
 *               ^ <-- skip --- ^ <--- skip -- ^             200 to 64, its parent 63, and 0
 */
export function matchChain(residency: Residency, sequence: Uint32Array, overlaps: Overlaps): void {
  const { blocks } = residency;
  let block = lastBlock(residency, sequence);
  if (!residency.cuts.isEmpty && residency.cuts.settleChain(block, sequence)) block = lastBlock(residency, sequence);
  while (block !== ROOT) {
    const holders = blocks.holders(block) & ~RECENT;
    score(residency, holders, blocks.depth(block), overlaps);
    block = ancestorOfOthers(residency, sequence, block, holders);
  }
  settle(overlaps);
}

/** Returns the block at `depth` of the chain, counted from 1; 0 if it is not in the index. */
function blockAt(residency: Residency, sequence: Uint32Array, depth: number): number {
  const at = 2 * depth - 2;
  return residency.table.findBlock((sequence[at] as number) | 0, (sequence[at + 1] as number) | 0);
}

/** Returns the last block of the chain that is in the index; `ROOT` if none is. */
function lastBlock(residency: Residency, sequence: Uint32Array): number {
  let missing = sequence.length >> 1;
  if (missing === 0) return ROOT;
  const whole = blockAt(residency, sequence, missing);
  if (whole !== 0) return whole;
  let found = 0;
  let block = ROOT;
  // Many prompts share nothing with others, so the first look-up is of the first block.
  for (let depth = 1; missing - found > 1; depth = (found + missing) >>> 1) {
    const at = blockAt(residency, sequence, depth);
    if (at === 0) missing = depth;
    else {
      found = depth;
      block = at;
    }
  }
  return block;
}

/** Returns the nearest ancestor with other holders; `ROOT` if all ancestors have the same. */
function ancestorOfOthers(residency: Residency, sequence: Uint32Array, from: number, holders: number): number {
  const { blocks } = residency;
  let block = from;
  for (;;) {
    const above = blocks.skip(block);
    if (above === ROOT) return ROOT;
    if ((blocks.holders(above) & ~RECENT) === holders) {
      block = above;
      continue;
    }
    // The block at depth `other` has other holders, the one at depth `same` has the same.
    let result = above;
    let other = blocks.depth(above);
    let same = blocks.depth(block);
    while (same - other > 1) {
      const middle = (other + same) >>> 1;
      const at = blockAt(residency, sequence, middle);
      if ((blocks.holders(at) & ~RECENT) === holders) same = middle;
      else {
        other = middle;
        result = at;
      }
    }
    return result;
  }
}

/**
 * Records that these holders hold the first `length` blocks. Holders of more were recorded before. Lengths include all
 * faster tiers.
 */
function score(residency: Residency, holders: number, length: number, overlaps: Overlaps): void {
  const { ranks } = residency.incarnations;
  if ((holders & ALONE) !== 0) {
    scoreRank(ranks[(holders & HOLDER_MASK) >>> INCARNATION_SHIFT] as number, holders & TIERS_MASK, length, overlaps);
    return;
  }
  if (holders === 0) return;
  const page = residency.sets.pageOf(holders);
  const from = residency.sets.membersAt(holders);
  const to = from + residency.sets.countOf(holders);
  for (let at = from; at < to; at++) {
    const member = page[at] as number;
    scoreRank(ranks[member >>> INCARNATION_SHIFT] as number, member & TIERS_MASK, length, overlaps);
  }
}

function scoreRank(rank: number, tiers: number, length: number, overlaps: Overlaps): void {
  if (rank < 0) return;
  overlaps.touch(rank);
  if (overlaps.disk[rank] === 0) overlaps.disk[rank] = length;
  const tier = (tiers & TIER_BITS) === 1 ? 0 : fastest(tiers);
  if (tier > 1) return;
  if (overlaps.host[rank] === 0) overlaps.host[rank] = length;
  if (tier === 0 && overlaps.device[rank] === 0) overlaps.device[rank] = length;
}

/** Turns lengths into the blocks that each tier adds. */
function settle(overlaps: Overlaps): void {
  const { device, host, disk } = overlaps;
  for (let at = 0; at < overlaps.count; at++) {
    const rank = overlaps.ranks[at] as number;
    const inHost = host[rank] as number;
    disk[rank] = (disk[rank] as number) - inHost;
    host[rank] = inHost - (device[rank] as number);
  }
}

/** The blocks of one event: their sequence hashes, and their numbers in the index. Reused from event to event. */
export class Path {
  /** Pairs of halves, valid until the next hashing in this process. */
  sequence: Int32Array;
  /** Numbers of the blocks; 0 from the first one that is not in the index. */
  blocks = new Int32Array(256);
  /** Number of blocks that are in the index. */
  known = 0;
  readonly #seen = new U64Set();
  readonly #scratch: HashScratch = hashScratch();

  constructor() {
    this.sequence = this.#scratch.sequence;
  }

  /** Computes the hashes of the blocks that follow `parent`, at least one. */
  chain(residency: Residency, parent: number, tokensHashes: Uint32Array): void {
    const { local, blocksMax } = this.#scratch;
    const count = tokensHashes.length >> 1;
    if (count > blocksMax) {
      this.#chainLong(residency, parent, tokensHashes);
      return;
    }
    for (let word = 0; word < tokensHashes.length; word++) local[word] = tokensHashes[word] as number;
    const { sequence } = this.#scratch;
    this.sequence = sequence;
    if (parent !== ROOT) {
      this.#scratch.chain(0, count, residency.blocks.low(parent), residency.blocks.high(parent));
      return;
    }
    sequence[0] = local[0] as number;
    sequence[1] = local[1] as number;
    this.#scratch.chain(1, count, sequence[0] as number, sequence[1] as number);
  }

  /** Computes the hashes of more blocks than the scratch takes at once. */
  #chainLong({ blocks }: Residency, parent: number, tokensHashes: Uint32Array): void {
    const start = parent === ROOT ? undefined : ([blocks.low(parent) >>> 0, blocks.high(parent) >>> 0] as const);
    this.sequence = new Int32Array(chainHashes(tokensHashes, start));
  }

  /** Looks up the first `count` blocks. */
  locate(residency: Residency, count: number): void {
    if (count > this.blocks.length) this.blocks = new Int32Array(2 * count);
    const { sequence, blocks } = this;
    let at = 0;
    for (; at < count; at++) {
      const block = residency.table.findBlock(sequence[2 * at] as number, sequence[2 * at + 1] as number);
      if (block === 0) break;
      blocks[at] = block;
    }
    // The other blocks will be added to the table.
    if (at + 1 < count) residency.table.warm(sequence, at + 1, count);
    this.known = at;
    for (let missing = at; missing < count; missing++) blocks[missing] = 0;
  }

  /** Whether the engine's hashes equal Stator's. */
  isNamedBy(blockHashes: Uint32Array): boolean {
    for (let at = 0; at < blockHashes.length; at++) {
      if (((blockHashes[at] as number) | 0) !== this.sequence[at]) return false;
    }
    return true;
  }

  /**
   * Releases engine hashes that stood for other blocks so far: the engine's latest word counts.
   * @returns false, without changes, if a block would be its own ancestor
   */
  makeWay(
    residency: Residency,
    incarnation: number,
    parent: HashPair | undefined,
    parentBlock: number,
    blockHashes: Uint32Array,
  ): boolean {
    const seen = this.#seen;
    seen.clear();
    if (parent !== undefined) seen.add(parent[0] | 0, parent[1] | 0);
    const count = blockHashes.length >> 1;
    let renamed = 0;
    for (let at = 0; at < count; at++) {
      const low = (blockHashes[2 * at] as number) | 0;
      const high = (blockHashes[2 * at + 1] as number) | 0;
      if (!seen.add(low, high)) return false;
      const entry = residency.find(incarnation, low, high);
      if (entry === 0 || residency.blockOf(entry) === this.blocks[at]) continue;
      if (this.#leadsThrough(residency, residency.blockOf(entry), parentBlock, at)) return false;
      renamed++;
    }
    for (let at = 0; renamed > 0 && at < count; at++) {
      const low = (blockHashes[2 * at] as number) | 0;
      const high = (blockHashes[2 * at + 1] as number) | 0;
      const entry = residency.find(incarnation, low, high);
      if (entry === 0 || residency.blockOf(entry) === this.blocks[at]) continue;
      residency.drop(incarnation, entry, TIER_BITS);
      this.locate(residency, count);
    }
    return true;
  }

  /** Returns the last block of the path that is in the index; `parent` if none is. */
  last(parent: number): number {
    return this.known === 0 ? parent : (this.blocks[this.known - 1] as number);
  }

  /** Whether `block` stands before position `at` of a path that follows `parent`. */
  #leadsThrough(residency: Residency, block: number, parent: number, at: number): boolean {
    const before = this.blocks.indexOf(block);
    if (before >= 0 && before < at) return true;
    for (let above = parent; above !== ROOT; above = residency.blocks.parentOf(above)) if (above === block) return true;
    return false;
  }
}
