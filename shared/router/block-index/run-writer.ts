import { ROOT } from './block-records.ts';
import type { Residency } from './residency.ts';
import { BY_PRIVATE_HASH, BY_SHARED_HASH, fastest, LEVEL_MASK } from './tiers.ts';
import type { HashPair, StorageTier, StoredRun } from './types.ts';

/** A longer run is told in several. */
const RUN_WORDS_MAX = 2 * 2048;

/** Puts blocks of one tier together to events. */
export class RunWriter {
  readonly #residency: Residency;
  readonly #incarnation: number;
  readonly #level: number;
  readonly #tier: StorageTier;
  readonly #runs: StoredRun[];
  #parent: HashPair | undefined;
  #hashes: number[] = [];
  #locals: number[] = [];
  readonly #others: StoredRun[] = [];

  constructor(residency: Residency, incarnation: number, level: number, tier: StorageTier, runs: StoredRun[]) {
    this.#residency = residency;
    this.#incarnation = incarnation;
    this.#level = level;
    this.#tier = tier;
    this.#runs = runs;
  }

  begin(): void {
    this.#hashes = [];
    this.#locals = [];
  }

  add(block: number): void {
    const { blocks } = this.#residency;
    const [hash, ...others] = this.#hashesOf(block, this.#level);
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
    return { tier: this.#tier, parent, blockHashes: Uint32Array.from(hashes), tokensHashes: Uint32Array.from(locals) };
  }

  /** A hash under which the block was told before this one: that of its fastest tier. */
  #fastestHash(block: number): HashPair | undefined {
    return this.#hashesOf(block, fastest(this.#residency.tiersOf(block, this.#incarnation)))[0];
  }

  /** Hashes that the engine has for the block in a tier. */
  #hashesOf(block: number, level: number): HashPair[] {
    const { blocks, engineHashes } = this.#residency;
    const tiers = this.#residency.tiersOf(block, this.#incarnation);
    const found: HashPair[] = [];
    if (((tiers & LEVEL_MASK) >>> level) & 1) found.push(pair(blocks.low(block), blocks.high(block)));
    if (((tiers >>> BY_SHARED_HASH) & LEVEL_MASK & (1 << level)) !== 0) {
      found.push(pair(engineHashes.sharedLow(block), engineHashes.sharedHigh(block)));
    }
    if (tiers >>> BY_PRIVATE_HASH === 0) return found;
    for (let hash = engineHashes.firstPrivate(block); hash !== 0; hash = engineHashes.nextPrivate(hash)) {
      if (engineHashes.incarnationOf(hash) !== this.#incarnation || ((engineHashes.levelsOf(hash) >>> level) & 1) === 0)
        continue;
      found.push(pair(engineHashes.low(hash), engineHashes.high(hash)));
    }
    return found;
  }
}

function pair(low: number, high: number): HashPair {
  return [low >>> 0, high >>> 0];
}
