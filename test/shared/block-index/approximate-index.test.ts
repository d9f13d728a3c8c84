import { describe, expect, it } from 'vitest';
import { ApproximateIndex, type ApproximateIndexOptions, BlockIndex } from '../../../shared/block-index/index.ts';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { RankTable } from '../../../shared/block-index/rank-table.ts';
import { type BlockHashes, chainHashes } from '../../../shared/tokens/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const A = 0;
const B = 1;

function prompt(...locals: number[]): BlockHashes {
  const local = Uint32Array.from(locals.flatMap((each) => [each, 7]));
  return { local, sequence: chainHashes(local) };
}

function setUp(options: Partial<ApproximateIndexOptions> = {}) {
  const clock = new VirtualClock();
  const ranks = new RankTable();
  ranks.intern('a', 0);
  ranks.intern('b', 0);
  const index = new ApproximateIndex({ ranks, clock, policy: 'ttl', ttlMs: 120_000, ...options });
  return { clock, ranks, index };
}

/** Blocks that each rank is thought to hold, by rank. */
function found(index: ApproximateIndex, hashes: BlockHashes): Record<number, number> {
  const overlaps = new Overlaps(2);
  index.match(hashes, overlaps);
  return Object.fromEntries(
    [...overlaps.ranks.subarray(0, overlaps.count)].map((rank) => [rank, overlaps.device[rank] ?? 0]),
  );
}

describe('approximate index by time to live', () => {
  it('knows the blocks of a decision until their time is up', async () => {
    const { clock, index } = setUp({ ttlMs: 200 });
    index.decided('r', A, prompt(1, 2, 3));
    expect(found(index, prompt(1, 2, 3, 4))).toEqual({ [A]: 3 });
    await clock.advance(250);
    expect(found(index, prompt(1, 2, 3, 4))).toEqual({});
    expect(index.blockCount).toBe(0);
  });

  it('counts from the last decision that used a block', async () => {
    const { clock, index } = setUp({ ttlMs: 50 });
    index.decided('r', A, prompt(1, 2));
    await clock.advance(25);
    index.decided('s', A, prompt(1));
    await clock.advance(30);
    expect(found(index, prompt(1, 2))).toEqual({ [A]: 1 });
    await clock.advance(30);
    expect(found(index, prompt(1, 2))).toEqual({});
  });

  it('keeps for longer what a client expects to be of use for longer, and counts from its last use', async () => {
    const { clock, index } = setUp({ ttlMs: 1000 });
    index.decided('r', A, prompt(1, 2, 3), 300_000);
    index.decided('s', A, prompt(1, 2)); // somebody else's turn takes nothing of that
    index.decided('t', A, prompt(9), 400); // not less than the others
    await clock.advance(900);
    expect(found(index, prompt(9))).toEqual({ [A]: 1 });
    await clock.advance(298_000);
    expect([found(index, prompt(1, 2, 3)), found(index, prompt(9))]).toEqual([{ [A]: 3 }, {}]);
    index.decided('u', A, prompt(1), 3_600_000);
    await clock.advance(2000);
    expect(found(index, prompt(1, 2, 3))).toEqual({ [A]: 1 });
    await clock.advance(3_600_000);
    expect([found(index, prompt(1)), index.blockCount]).toEqual([{}, 0]);
  });

  it('gives up what is held for longer last, for want of room', () => {
    const { index } = setUp({ blocksMax: 6 });
    index.decided('r', A, prompt(1, 2, 3), 3_600_000);
    index.decided('s', A, prompt(5, 6, 7, 8));
    expect([found(index, prompt(1, 2, 3)), index.blockCount]).toEqual([{ [A]: 3 }, 6]);
    index.decided('t', A, prompt(11, 12, 13, 14, 15, 16), 3_600_000);
    expect(index.blockCount).toBe(6);
  });

  it('has room for the prompts of others, even if much is held for longer', () => {
    const { index } = setUp({ blocksMax: 8 });
    for (let at = 1; at <= 8; at++) index.decided(`r${at}`, A, prompt(at), 86_400_000);
    const others = prompt(21, 22, 23, 24);
    index.decided('s', B, others);
    expect(found(index, others)).toEqual({ [B]: 4 });
    expect([4, 5].map((at) => found(index, prompt(at)))).toEqual([{}, { [A]: 1 }]); // used longest ago
  });

  it('keeps ranks apart', async () => {
    const { clock, index } = setUp({ ttlMs: 1000 });
    index.decided('r', A, prompt(1, 2));
    await clock.advance(500);
    index.decided('s', B, prompt(1, 2, 3));
    expect(found(index, prompt(1, 2, 3))).toEqual({ [A]: 2, [B]: 3 });
    await clock.advance(600);
    expect(found(index, prompt(1, 2, 3))).toEqual({ [B]: 3 });
  });

  it('takes long lists off in slices', async () => {
    const { clock, index } = setUp({ ttlMs: 1000 });
    for (let at = 0; at < 100; at++)
      index.decided(`${at}`, A, prompt(...Array.from({ length: 100 }, (_, each) => 100 * at + each)));
    await clock.advance(2000);
    let slices = 0;
    while (index.housekeep(1000)) slices++;
    expect(slices).toBeGreaterThan(5);
    expect(index.blockCount).toBe(0);
  });

  it('forgets how long the blocks of a removed rank were held, for the next rank with its number', async () => {
    const { clock, ranks, index } = setUp({ ttlMs: 1000 });
    index.decided('r', A, prompt(1, 2), 300_000);
    ranks.drop(A);
    index.removeRank(A);
    expect(ranks.intern('c', 0)).toBe(A);
    index.decided('s', A, prompt(1, 2));
    expect(found(index, prompt(1, 2))).toEqual({ [A]: 2 });
    await clock.advance(1100);
    expect(found(index, prompt(1, 2))).toEqual({});
  });

  it('has room for the blocks of others once it has swept those of ranks that were removed', () => {
    const { index } = setUp({ blocksMax: 4 });
    index.decided('r', B, prompt(4, 5));
    index.decided('s', A, prompt(1, 2));
    index.removeRank(A);
    while (index.housekeep(1));
    index.decided('t', B, prompt(8, 9));
    expect(found(index, prompt(4, 5))).toEqual({ [B]: 2 });
    expect(found(index, prompt(8, 9))).toEqual({ [B]: 2 });
    expect(index.blockCount).toBe(4);
    index.removeRank(B);
    index.decided('u', A, prompt(1));
    while (index.housekeep(1));
    expect(found(index, prompt(1))).toEqual({ [A]: 1 });
    expect(index.blockCount).toBe(1);
  });

  it('gives up the blocks nearest to their end when it is full', () => {
    const evicted: number[] = [];
    const { index } = setUp({ blocksMax: 10, onEvicted: (blocks) => evicted.push(blocks) });
    index.decided('r', A, prompt(1, 2, 3, 4, 5, 6));
    index.decided('s', A, prompt(11, 12, 13, 14, 15, 16));
    expect(found(index, prompt(1, 2, 3, 4, 5, 6))).toEqual({ [A]: 4 });
    expect(found(index, prompt(11, 12, 13, 14, 15, 16))).toEqual({ [A]: 6 });
    expect(evicted).toEqual([2]);
  });
});

describe('approximate index by capacity', () => {
  it('drops the least recently used blocks, ends of prompts first', () => {
    const { index } = setUp({ policy: 'lru' });
    index.setCapacity(A, 5);
    index.decided('r', A, prompt(1, 2, 3));
    index.freed('r');
    index.decided('s', A, prompt(11, 12, 13));
    expect(found(index, prompt(1, 2, 3))).toEqual({ [A]: 2 });
    expect(found(index, prompt(11, 12, 13))).toEqual({ [A]: 3 });
    expect(index.blocksOf(A)).toBe(5);
  });

  it('spares running requests, and knows no time', async () => {
    const { clock, index } = setUp({ policy: 'lru', ttlMs: 300 });
    index.setCapacity(A, 4);
    index.decided('r', A, prompt(1, 2, 3));
    index.decided('s', A, prompt(1, 2, 13));
    index.freed('s');
    await clock.advance(900);
    index.decided('t', A, prompt(21));
    expect(found(index, prompt(1, 2, 3))).toEqual({ [A]: 3 });
    expect(found(index, prompt(1, 2, 13))).toEqual({ [A]: 2 });
    expect(found(index, prompt(21))).toEqual({ [A]: 1 });
    index.freed('r');
    index.setCapacity(A, 2);
    expect(found(index, prompt(1, 2, 3))).toEqual({ [A]: 1 });
  });

  it('goes by time if the capacity is unknown', async () => {
    const { clock, index } = setUp({ policy: 'lru', ttlMs: 300 });
    index.decided('r', A, prompt(1, 2, 3));
    await clock.advance(900);
    expect(found(index, prompt(1, 2, 3))).toEqual({});
  });

  it('leaves nothing behind of a rank that was removed, and its number can be used again', () => {
    const { index } = setUp({ policy: 'lru' });
    index.setCapacity(A, 10);
    index.decided('r', A, prompt(1, 2, 3));
    index.decided('s', A, prompt(1, 2, 4));
    index.freed('s');
    index.removeRank(A);
    expect(found(index, prompt(1, 2, 3))).toEqual({});
    index.setCapacity(A, 10);
    index.decided('t', A, prompt(1, 2));
    index.freed('r');
    while (index.housekeep());
    expect(found(index, prompt(1, 2, 3))).toEqual({ [A]: 2 });
    expect(index.blockCount).toBe(2);
  });
});

describe('approximate index beside events', () => {
  it('raises the device to the larger of the two, and lower tiers go on from there', () => {
    const { ranks, index } = setUp({ ttlMs: 5000 });
    const events = new BlockIndex({ ranks });
    const { local, sequence } = prompt(1, 2, 3, 4, 5, 6);
    events.stored(A, 'device', undefined, sequence.subarray(0, 2), local.subarray(0, 2));
    events.stored(A, 'host_pinned', undefined, sequence.subarray(0, 8), local.subarray(0, 8));
    events.stored(A, 'disk', undefined, sequence, local);
    index.decided('r', A, prompt(1, 2, 3));
    index.decided('s', B, prompt(1, 2));
    const overlaps = new Overlaps(2);
    events.match({ local, sequence }, overlaps);
    expect([overlaps.device[A], overlaps.host[A], overlaps.disk[A]]).toEqual([1, 3, 2]);
    index.raise({ local, sequence }, overlaps);
    expect([overlaps.device[A], overlaps.host[A], overlaps.disk[A]]).toEqual([3, 1, 2]);
    expect([overlaps.device[B], overlaps.host[B], overlaps.disk[B]]).toEqual([2, 0, 0]);
    expect(overlaps.count).toBe(2);
  });
});
