import { ROOT } from './block-records.ts';
import { BY_PRIVATE_HASH, BY_SHARED_HASH, fastest, TIER_BITS, tiersByAnyHash } from './holder-sets.ts';
import type { Residency } from './residency.ts';
import { type DumpSlice, type HashPair, type StorageTier, type StoredRun, TIERS } from './types.ts';

/** Words of a run above which it is split into several events. */
const RUN_WORDS_MAX = 2 * 2048;

/** Blocks checked in a slice of less than 1 ms. */
const LOOKED_AT = 1024;

/**
 * Yields the holdings of a rank as events: tier by tier, breadth first, with a chain without branches in one event.
 * Yields after each slice, perhaps nothing. Events may continue between slices, and their changes may or may not be in
 * the result. So a receiver that then applies all events since the first slice has the holdings of the rank.
 */
export function* dumpRank(residency: Residency, rank: number): Generator<DumpSlice, void, void> {
  const incarnation = residency.incarnations.find(rank);
  if (incarnation === 0) return;
  const runs: StoredRun[] = [];
  let tiers = 1; // slower tiers in which the first walk finds blocks are added
  for (const [tier, name] of TIERS.entries()) {
    if ((tiers & (1 << tier)) === 0) continue;
    const walk = new DumpWalk(residency, incarnation, new RunWriter(residency, incarnation, tier, name, runs));
    for (const _ of walk.slices()) {
      yield { runs: runs.splice(0), isLast: false };
      if (residency.incarnations.find(rank) !== incarnation) return; // it was cleared, and an event says so
    }
    tiers |= walk.tiers;
  }
  yield { runs, isLast: true };
}

/** One walk through all holdings of an incarnation. */
class DumpWalk {
  /** Tiers in which it holds any block. */
  tiers = 0;
  readonly #residency: Residency;
  readonly #incarnation: number;
  readonly #run: RunWriter;
  #looked = 0;

  constructor(residency: Residency, incarnation: number, run: RunWriter) {
    this.#residency = residency;
    this.#incarnation = incarnation;
    this.#run = run;
  }

  /** Writes runs, with a pause after each slice. */
  *slices(): Generator<void, void, void> {
    const starts: number[] = [];
    yield* this.#heldBelow(ROOT, starts);
    for (let at = 0; at < starts.length; at++) {
      this.#run.begin();
      for (let block = starts[at] as number; this.#isHeld(block); ) {
        this.#run.add(block);
        if (this.#isSliceOver()) yield;
        const first = starts.length;
        yield* this.#heldBelow(block, starts);
        if (starts.length !== first + 1) break;
        block = starts.pop() as number;
      }
      this.#run.end();
    }
  }

  /**
   * Whether the incarnation still holds the block. Between two slices the block may have gone, and another one may have
   * its number.
   */
  #isHeld(block: number): boolean {
    const { blocks } = this.#residency;
    const tiers = blocks.isFree(block) ? 0 : this.#residency.tiersOf(block, this.#incarnation);
    this.tiers |= tiersByAnyHash(tiers);
    return tiers !== 0;
  }

  /** Counts one more checked block. */
  #isSliceOver(): boolean {
    return ++this.#looked % LOOKED_AT === 0;
  }

  *#heldBelow(block: number, held: number[]): Generator<void, void, void> {
    const { blocks, cuts, cursors } = this.#residency;
    const cursor = { next: blocks.child(block) };
    cursors.add(cursor);
    try {
      while (cursor.next !== 0) {
        const child = cursor.next;
        cursor.next = blocks.next(child);
        if (cuts.has(this.#incarnation)) cuts.settleBelow(block, child, this.#incarnation);
        if (!blocks.isFree(child) && this.#residency.tiersOf(child, this.#incarnation) !== 0) held.push(child);
        if (this.#isSliceOver()) yield;
      }
    } finally {
      cursors.delete(cursor);
    }
  }
}

/** Joins blocks of one tier to events. */
class RunWriter {
  readonly #residency: Residency;
  readonly #incarnation: number;
  readonly #tier: number;
  readonly #name: StorageTier;
  readonly #runs: StoredRun[];
  #parent: HashPair | undefined;
  #hashes: number[] = [];
  #locals: number[] = [];
  readonly #others: StoredRun[] = [];

  constructor(residency: Residency, incarnation: number, tier: number, name: StorageTier, runs: StoredRun[]) {
    this.#residency = residency;
    this.#incarnation = incarnation;
    this.#tier = tier;
    this.#name = name;
    this.#runs = runs;
  }

  begin(): void {
    this.#hashes = [];
    this.#locals = [];
  }

  add(block: number): void {
    const { blocks } = this.#residency;
    const [hash, ...others] = this.#hashesOf(block, this.#tier);
    if (hash === undefined) {
      this.end();
      return;
    }
    if (this.#hashes.length >= RUN_WORDS_MAX) this.end();
    const local = [blocks.localLow(block), blocks.localHigh(block)] as const;
    if (this.#hashes.length === 0 || others.length > 0) {
      const parent = blocks.parentOf(block);
      const parentHash = parent === ROOT ? undefined : this.#fastestHash(parent);
      if (this.#hashes.length === 0) this.#parent = parentHash;
      // The engine has the block twice, under several hashes.
      for (const other of others) this.#others.push(this.#run(parentHash, other, local));
    }
    this.#hashes.push(...hash);
    this.#locals.push(...local);
  }

  end(): void {
    if (this.#hashes.length > 0) this.#runs.push(this.#run(this.#parent, this.#hashes, this.#locals));
    this.#runs.push(...this.#others.splice(0));
    this.begin();
  }

  #run(parent: HashPair | undefined, hashes: readonly number[], locals: readonly number[]): StoredRun {
    return { tier: this.#name, parent, blockHashes: Uint32Array.from(hashes), tokensHashes: Uint32Array.from(locals) };
  }

  /** Returns the hash under which an earlier event named the block: that of its fastest tier. */
  #fastestHash(block: number): HashPair | undefined {
    return this.#hashesOf(block, fastest(this.#residency.tiersOf(block, this.#incarnation)))[0];
  }

  /** Returns the engine's hashes for the block in a tier. */
  #hashesOf(block: number, tier: number): HashPair[] {
    const { blocks, engineHashes } = this.#residency;
    const tiers = this.#residency.tiersOf(block, this.#incarnation);
    const found: HashPair[] = [];
    if (((tiers & TIER_BITS) >>> tier) & 1) found.push(pair(blocks.low(block), blocks.high(block)));
    if (((tiers >>> BY_SHARED_HASH) & TIER_BITS & (1 << tier)) !== 0) {
      found.push(pair(engineHashes.sharedLow(block), engineHashes.sharedHigh(block)));
    }
    if (tiers >>> BY_PRIVATE_HASH === 0) return found;
    for (let hash = engineHashes.firstPrivate(block); hash !== 0; hash = engineHashes.nextPrivate(hash)) {
      if (engineHashes.incarnationOf(hash) !== this.#incarnation || ((engineHashes.tiersOf(hash) >>> tier) & 1) === 0)
        continue;
      found.push(pair(engineHashes.low(hash), engineHashes.high(hash)));
    }
    return found;
  }
}

function pair(low: number, high: number): HashPair {
  return [low >>> 0, high >>> 0];
}
