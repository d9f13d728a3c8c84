import type { BlockIndex, HashPair, StoredRun } from '../../../shared/block-index/index.ts';
import type { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import type { RankTable } from '../../../shared/block-index/rank-table.ts';
import type { DumpSlice, IndexStatus, StorageTier } from '../../../shared/block-index/types.ts';
import { type BlockHashes, chainHashes } from '../../../shared/tokens/index.ts';

const TIERS: readonly StorageTier[] = ['device', 'host_pinned', 'disk', 'external'];

/** A block by its whole prefix. */
interface Block {
  readonly sequence: bigint;
  readonly local: bigint;
  readonly parent: Block | undefined;
}

/** A block that a rank holds, under the engine's name for it, with its tiers as bits. */
interface Name {
  readonly block: Block;
  tiers: number;
}

/** Methods of an index that write to it and read from it. */
export type IndexContract = Pick<
  BlockIndex,
  | 'stored'
  | 'removed'
  | 'cleared'
  | 'removeRank'
  | 'match'
  | 'blockCount'
  | 'blocksOf'
  | 'dump'
  | 'housekeep'
  | 'duplicateBlocks'
>;

/** The index as its contract describes it, on maps. */
export class NaiveBlockIndex implements IndexContract {
  readonly #ranks: RankTable;
  readonly #names = new Map<number, Map<bigint, Name>>();
  /** Tiers of the blocks of each rank, by sequence hash. Undefined after a change, until the next reading. */
  #tiers: Map<number, ReadonlyMap<bigint, number>> | undefined;
  duplicateBlocks = 0;

  constructor(ranks: RankTable) {
    this.#ranks = ranks;
  }

  stored(
    rank: number,
    tier: StorageTier,
    parent: HashPair | undefined,
    blockHashes: Uint32Array,
    tokensHashes: Uint32Array,
  ): IndexStatus {
    this.#tiers = undefined;
    const hashes = toBigints(blockHashes);
    const locals = toBigints(tokensHashes);
    if (hashes.length !== locals.length) return 'invalid_block';
    if (hashes.length === 0) return 'ok';
    const names = this.#names.get(rank) ?? new Map<bigint, Name>();
    const level = TIERS.indexOf(tier);
    let parentBlock: Block | undefined;
    if (parent !== undefined) {
      parentBlock = names.get(toBigint(parent[0], parent[1]))?.block;
      if (parentBlock === undefined || fastest(tiersOf(names, parentBlock)) > level) return 'parent_block_not_found';
    }
    const path: Block[] = [];
    for (const local of locals) path.push(childOf(path.at(-1) ?? parentBlock, local));
    const known = new Set<bigint>();
    for (let at: Block | undefined = parentBlock; at !== undefined; at = at.parent) known.add(at.sequence);
    for (const [at, hash] of hashes.entries()) {
      const named = names.get(hash)?.block;
      if (hashes.indexOf(hash) < at) return 'invalid_block';
      const block = path[at] as Block;
      if (named !== undefined && named.sequence !== block.sequence && known.has(named.sequence)) return 'invalid_block';
      known.add(block.sequence);
    }
    this.#names.set(rank, names);
    for (const [at, hash] of hashes.entries()) {
      const block = path[at] as Block;
      const name = names.get(hash);
      if (name !== undefined && name.block.sequence !== block.sequence) {
        for (const each of TIERS.keys()) if ((name.tiers >> each) & 1) this.#drop(names, hash, name, each, new Set());
      }
      if ((tiersOf(names, block) >> level) & 1) this.duplicateBlocks++;
      const kept = names.get(hash);
      if (kept === undefined) names.set(hash, { block, tiers: 1 << level });
      else kept.tiers |= 1 << level;
    }
    return 'ok';
  }

  removed(rank: number, tier: StorageTier, blockHashes: Uint32Array): IndexStatus {
    this.#tiers = undefined;
    const names = this.#names.get(rank);
    const level = TIERS.indexOf(tier);
    const cut = new Set<bigint>();
    let status: IndexStatus = 'ok';
    for (const hash of toBigints(blockHashes)) {
      const name = names?.get(hash);
      if (names === undefined || name === undefined || ((name.tiers >> level) & 1) === 0) {
        if (!cut.has(hash)) status = 'block_not_found';
      } else this.#drop(names, hash, name, level, cut);
    }
    return status;
  }

  #drop(names: Map<bigint, Name>, hash: bigint, name: Name, level: number, cut: Set<bigint>): void {
    name.tiers &= ~(1 << level);
    if (name.tiers === 0) names.delete(hash);
    const belows = [...names].filter(([, below]) => isBelow(below.block, name.block));
    belows.sort(([, left], [, right]) => depthOf(left.block) - depthOf(right.block));
    for (const [other, below] of belows) {
      const parent = below.block.parent;
      const keep = below.tiers & (0b1111 << (parent === undefined ? 0 : fastest(tiersOf(names, parent))));
      if (keep !== below.tiers) cut.add(other);
      below.tiers = keep;
      if (keep === 0) names.delete(other);
    }
  }

  cleared(rank: number): void {
    this.#tiers = undefined;
    this.#names.delete(rank);
  }

  removeRank(rank: number): void {
    this.cleared(rank);
    this.#ranks.recycle(rank);
  }

  match(hashes: BlockHashes, overlaps: Overlaps): void {
    overlaps.reset(this.#ranks.capacity);
    const sequence = sequenceOf(hashes);
    this.#tiers ??= new Map([...this.#names].map(([rank, names]) => [rank, tiersBySequence(names)]));
    for (const [rank, tiers] of this.#tiers) {
      let at = 0;
      const run = (mask: number): number => {
        const from = at;
        while (at < sequence.length && (tiers.get(sequence[at] as bigint) ?? 0) & mask) at++;
        return at - from;
      };
      const device = run(0b0001);
      const host = run(0b0010);
      const disk = run(0b1100);
      if (at === 0) continue;
      overlaps.touch(rank);
      overlaps.device[rank] = device;
      overlaps.host[rank] = host;
      overlaps.disk[rank] = disk;
    }
  }

  get blockCount(): number {
    const held = new Set<bigint>();
    for (const names of this.#names.values()) for (const { block } of names.values()) held.add(block.sequence);
    return held.size;
  }

  blocksOf(rank: number): number {
    return new Set([...(this.#names.get(rank)?.values() ?? [])].map(({ block }) => block.sequence)).size;
  }

  *dump(rank: number): Generator<DumpSlice, void, void> {
    yield { runs: this.#runsOf(rank), isLast: true };
  }

  #runsOf(rank: number): readonly StoredRun[] {
    const names = [...(this.#names.get(rank) ?? [])];
    names.sort(([, left], [, right]) => depthOf(left.block) - depthOf(right.block));
    const runs: StoredRun[] = [];
    for (const [level, tier] of TIERS.entries()) {
      for (const [hash, { block, tiers }] of names) {
        if (((tiers >> level) & 1) === 0) continue;
        const parents = names.filter(([, name]) => name.block.sequence === block.parent?.sequence);
        parents.sort(([, left], [, right]) => fastest(left.tiers) - fastest(right.tiers));
        const parent = parents[0] === undefined ? undefined : toPair(parents[0][0]);
        const last = runs.at(-1);
        if (last?.tier === tier && parent !== undefined && toBigints(last.blockHashes).at(-1) === parents[0]?.[0]) {
          runs[runs.length - 1] = {
            ...last,
            blockHashes: Uint32Array.of(...last.blockHashes, ...toPair(hash)),
            tokensHashes: Uint32Array.of(...last.tokensHashes, ...toPair(block.local)),
          };
        } else {
          runs.push({
            tier,
            parent,
            blockHashes: Uint32Array.from(toPair(hash)),
            tokensHashes: Uint32Array.from(toPair(block.local)),
          });
        }
      }
    }
    return runs;
  }

  housekeep(): boolean {
    return false;
  }
}

const sequences = new WeakMap<BlockHashes, readonly bigint[]>();

/** Prompts that are looked for are the same ones again and again. */
function sequenceOf(hashes: BlockHashes): readonly bigint[] {
  const known = sequences.get(hashes) ?? toBigints(hashes.sequence);
  sequences.set(hashes, known);
  return known;
}

function tiersBySequence(names: ReadonlyMap<bigint, Name>): ReadonlyMap<bigint, number> {
  const tiers = new Map<bigint, number>();
  for (const { block, tiers: own } of names.values()) {
    tiers.set(block.sequence, (tiers.get(block.sequence) ?? 0) | own);
  }
  return tiers;
}

function toBigint(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}

function toPair(hash: bigint): HashPair {
  return [Number(hash & 0xffff_ffffn), Number(hash >> 32n)];
}

function toBigints(pairs: Uint32Array): bigint[] {
  return Array.from({ length: pairs.length >> 1 }, (_, at) => toBigint(pairs[2 * at] ?? 0, pairs[2 * at + 1] ?? 0));
}

function childOf(parent: Block | undefined, local: bigint): Block {
  const pair = Uint32Array.from(toPair(local));
  const chained = parent === undefined ? pair : chainHashes(pair, toPair(parent.sequence));
  return { sequence: toBigint(chained[0] ?? 0, chained[1] ?? 0), local, parent };
}

function tiersOf(names: ReadonlyMap<bigint, Name>, block: Block): number {
  let tiers = 0;
  for (const name of names.values()) if (name.block.sequence === block.sequence) tiers |= name.tiers;
  return tiers;
}

/** Number of the fastest tier among the bits; beyond all tiers when there is none. */
function fastest(tiers: number): number {
  return tiers === 0 ? TIERS.length : 31 - Math.clz32(tiers & -tiers);
}

function isBelow(block: Block, above: Block): boolean {
  for (let at = block.parent; at !== undefined; at = at.parent) if (at.sequence === above.sequence) return true;
  return false;
}

function depthOf(block: Block): number {
  let depth = 0;
  for (let at: Block | undefined = block; at !== undefined; at = at.parent) depth++;
  return depth;
}
