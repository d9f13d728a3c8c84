import { describe, expect, it } from 'vitest';
import { BlockIndex, type HashPair, RankTable } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { chainHashes } from '../../../shared/tokens/index.ts';

const MAX = 2n ** 64n - 1n;
const pair = (hash: bigint): HashPair => [Number(BigInt.asUintN(32, hash)), Number(hash >> 32n)];
const pairs = (hashes: readonly bigint[]): Uint32Array => Uint32Array.from(hashes.flatMap(pair));

function openIndex(blocksMax?: number) {
  const ranks = new RankTable();
  let evicted = 0;
  const onEvicted = (blocks: number): void => {
    evicted += blocks;
  };
  const index = new BlockIndex({ ranks, onEvicted, ...(blocksMax === undefined ? {} : { blocksMax }) });
  const overlaps = new Overlaps(0);
  const rank = ranks.intern('1', 0);
  const stored = (parent: bigint | undefined, blocks: readonly (readonly [name: bigint, local: bigint])[], of = rank) =>
    index.stored(
      of,
      'device',
      parent === undefined ? undefined : pair(parent),
      pairs(blocks.map(([name]) => name)),
      pairs(blocks.map(([, local]) => local)),
    );
  const held = (local: readonly bigint[], of = rank): number => {
    const hashes = pairs(local);
    index.match({ local: hashes, sequence: chainHashes(hashes) }, overlaps);
    return overlaps.device[of] ?? 0;
  };
  return { ranks, index, rank, stored, held, evicted: () => evicted };
}

describe('block index on bad input', () => {
  it('holds nothing of a store below a parent that it does not know, and goes on', () => {
    const { index, stored, held } = openIndex();
    expect(stored(9n, [[1n, 11n]])).toBe('parent_block_not_found');
    expect(index.blockCount).toBe(0);
    expect(stored(undefined, [[9n, 19n]])).toBe('ok');
    expect(stored(9n, [[1n, 11n]])).toBe('ok');
    expect(held([19n, 11n])).toBe(2);
  });

  it('takes a parent of another worker for unknown', () => {
    const { ranks, stored } = openIndex();
    expect(stored(undefined, [[1n, 11n]])).toBe('ok');
    expect(stored(1n, [[2n, 12n]], ranks.intern('2', 0))).toBe('parent_block_not_found');
  });

  it('stores once what comes twice, and removes once what is removed twice', () => {
    const { index, rank, stored, held } = openIndex();
    for (let time = 0; time < 2; time++)
      expect(
        stored(undefined, [
          [1n, 11n],
          [2n, 12n],
        ]),
      ).toBe('ok');
    expect(index.blocksOf(rank)).toBe(2);
    expect(index.removed(rank, 'device', pairs([2n]))).toBe('ok');
    expect(index.removed(rank, 'device', pairs([2n]))).toBe('block_not_found');
    expect(held([11n, 12n])).toBe(1);
  });

  it('never scores beyond a gap when a parent is removed before its children', () => {
    const { index, rank, stored, held } = openIndex();
    stored(undefined, [
      [1n, 11n],
      [2n, 12n],
      [3n, 13n],
    ]);
    expect(index.removed(rank, 'device', pairs([2n, 3n]))).toBe('ok');
    expect(held([11n, 12n, 13n])).toBe(1);
    expect(stored(2n, [[3n, 13n]])).toBe('parent_block_not_found');
    expect(
      stored(1n, [
        [2n, 12n],
        [3n, 13n],
      ]),
    ).toBe('ok');
    expect(held([11n, 12n, 13n])).toBe(3);
  });

  it('refuses lists of different lengths, half hashes and a block that is its own ancestor', () => {
    const { index, rank, stored } = openIndex();
    expect(index.stored(rank, 'device', undefined, pairs([1n, 2n]), pairs([11n]))).toBe('invalid_block');
    expect(index.stored(rank, 'device', undefined, Uint32Array.of(1), Uint32Array.of(1))).toBe('invalid_block');
    expect(
      stored(undefined, [
        [5n, 1n],
        [5n, 2n],
      ]),
    ).toBe('invalid_block');
    expect(index.blockCount).toBe(0);
  });

  it('knows the smallest and the largest hashes, as names and as contents', () => {
    const edges = [0n, 1n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 63n - 1n, 2n ** 63n, MAX - 1n, MAX];
    const { index, rank, stored, held } = openIndex();
    expect(
      stored(
        undefined,
        edges.map((edge) => [edge, MAX - edge] as const),
      ),
    ).toBe('ok');
    const contents = edges.map((edge) => MAX - edge);
    expect(held(contents)).toBe(edges.length);
    expect(stored(MAX, [[77n, 0n]])).toBe('ok');
    expect(held([...contents, 0n])).toBe(edges.length + 1);
    expect(index.removed(rank, 'device', pairs([0n]))).toBe('ok');
    expect(held(contents)).toBe(0);
  });

  it('shows a worker id that comes back nothing of its earlier life', () => {
    const { ranks, index, rank, stored, held } = openIndex();
    stored(undefined, [[1n, 11n]]);
    ranks.drop(rank);
    index.removeRank(rank);
    const reborn = ranks.intern('1', 0);
    expect(held([11n], reborn)).toBe(0);
    expect(stored(1n, [[2n, 12n]], reborn)).toBe('parent_block_not_found');
    expect(stored(undefined, [[1n, 11n]], reborn)).toBe('ok');
    expect(held([11n], reborn)).toBe(1);
  });

  it('tells 10,000 workers apart that hold the same block', () => {
    const { ranks, index, stored, held } = openIndex();
    const workers = Array.from({ length: 10_000 }, (_, at) => ranks.intern((at + 16).toString(16), 0));
    for (const rank of workers) expect(stored(undefined, [[1n, 11n]], rank)).toBe('ok');
    for (const rank of workers.slice(0, 5000)) index.removed(rank, 'device', pairs([1n]));
    expect(held([11n], workers[4999])).toBe(0);
    expect(workers.slice(5000).every((rank) => held([11n], rank) === 1)).toBe(true);
    expect(index.blockCount).toBe(1);
  }, 30_000);

  it('gives up the oldest blocks at its bound, and refuses an event that is larger than all of it', () => {
    const { index, stored, held, evicted } = openIndex(32);
    const run = (from: bigint, count: number) =>
      Array.from({ length: count }, (_, at) => [from + BigInt(at), from + BigInt(at)] as const);
    expect(stored(undefined, run(1000n, 33))).toBe('capacity_exhausted');
    for (let prompt = 1n; prompt <= 20n; prompt++) {
      expect(stored(undefined, run(prompt * 100n, 8))).toBe('ok');
      expect(index.blockCount).toBeLessThanOrEqual(32);
    }
    expect(held(run(2000n, 8).map(([, local]) => local))).toBe(8);
    expect(held(run(100n, 8).map(([, local]) => local))).toBe(0);
    expect(evicted()).toBeGreaterThanOrEqual(128);
  });
});
