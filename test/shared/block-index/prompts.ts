import type { BlockIndex, HashPair, StoredRun } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { RankTable } from '../../../shared/block-index/rank-table.ts';
import type { IndexStatus, StorageTier } from '../../../shared/block-index/types.ts';
import { type BlockHashes, chainHashes } from '../../../shared/tokens/index.ts';

/** A prompt whose blocks have these local hashes. */
export function prompt(...locals: readonly number[]): BlockHashes {
  return hashesOf(locals.length, (at) => locals[at] as number);
}

/** A prompt of `count` blocks that shares nothing with one of another `first`. */
export function longPrompt(first: number, count: number): BlockHashes {
  return hashesOf(count, (at) => first * 1_000_000 + at);
}

function hashesOf(count: number, localAt: (at: number) => number): BlockHashes {
  const local = new Uint32Array(2 * count).fill(7);
  for (let at = 0; at < count; at++) local[2 * at] = localAt(at);
  return { local, sequence: chainHashes(local) };
}

export function tableOf(ranks: number): RankTable {
  const table = new RankTable();
  for (let rank = 0; rank < ranks; rank++) table.intern(rank.toString(16), 0);
  return table;
}

export interface StoreOptions {
  readonly tier?: StorageTier;
  /** Blocks before it are the parents. @default 0 */
  readonly from?: number;
  /** The engine's names of the blocks. @default our sequence hashes */
  readonly names?: Uint32Array;
}

/** Tells the index that `rank` stored the blocks of a prompt. */
export function store(
  index: BlockIndex,
  rank: number,
  { local, sequence }: BlockHashes,
  { tier = 'device', from = 0, names = sequence }: StoreOptions = {},
): IndexStatus {
  const parent = from === 0 ? undefined : hashAt(names, from - 1);
  return index.stored(rank, tier, parent, names.slice(2 * from), local.slice(2 * from));
}

/** Returns all that the rank holds. */
export function dumpOf(index: Pick<BlockIndex, 'dump'>, rank: number): readonly StoredRun[] {
  return [...index.dump(rank)].flatMap(({ runs }) => runs);
}

/** Tells the index that `rank` removed the blocks at these positions. */
export function remove(
  index: BlockIndex,
  rank: number,
  { sequence }: BlockHashes,
  positions: readonly number[],
  tier: StorageTier = 'device',
): IndexStatus {
  return index.removed(rank, tier, Uint32Array.from(positions.flatMap((at) => hashAt(sequence, at))));
}

/** Blocks on the device, in host memory and on disk, by rank. */
export function overlapsOf(
  index: Pick<BlockIndex, 'match'>,
  hashes: BlockHashes,
): Record<number, readonly [device: number, host: number, disk: number]> {
  const overlaps = new Overlaps(1);
  index.match(hashes, overlaps);
  return Object.fromEntries(
    [...overlaps.ranks.subarray(0, overlaps.count)].map((rank) => [
      rank,
      [overlaps.device[rank] ?? 0, overlaps.host[rank] ?? 0, overlaps.disk[rank] ?? 0],
    ]),
  );
}

/** Blocks on the device by rank. */
export function deviceOf(index: Pick<BlockIndex, 'match'>, hashes: BlockHashes): Record<number, number> {
  return Object.fromEntries(Object.entries(overlapsOf(index, hashes)).map(([rank, [device]]) => [rank, device]));
}

function hashAt(hashes: Uint32Array, at: number): HashPair {
  return [hashes[2 * at] ?? 0, hashes[2 * at + 1] ?? 0];
}
