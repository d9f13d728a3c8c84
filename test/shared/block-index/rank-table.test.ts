import { describe, expect, it } from 'vitest';
import { RankTable } from '../../../shared/block-index/rank-table.ts';

describe('rank table', () => {
  it('numbers pairs densely and keeps each number with its pair', () => {
    const ranks = new RankTable();
    expect([ranks.intern('a', 0), ranks.intern('a', 1), ranks.intern('b', 0), ranks.intern('a', 1)]).toEqual([
      0, 1, 2, 1,
    ]);
    expect(ranks.capacity).toBe(3);
    expect([ranks.workerIdOf(1), ranks.dpRankOf(1), ranks.find('b', 0), ranks.find('b', 1)]).toEqual([
      'a',
      1,
      2,
      undefined,
    ]);
    expect(ranks.ranksOf('a')).toEqual([0, 1]);
  });

  it('gives a dropped number to another pair only once it is recycled, and only once', () => {
    const ranks = new RankTable();
    ranks.intern('a', 0);
    ranks.recycle(0);
    ranks.drop(0);
    ranks.drop(0);
    expect(ranks.workerIdOf(0)).toBeUndefined();
    expect(ranks.ranksOf('a')).toEqual([]);
    expect(ranks.intern('b', 0)).toBe(1);
    ranks.recycle(0);
    ranks.recycle(0);
    ranks.recycle(7);
    expect([ranks.intern('c', 0), ranks.intern('d', 0)]).toEqual([0, 2]);
  });
});
