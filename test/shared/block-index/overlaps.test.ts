import { describe, expect, it } from 'vitest';
import { Overlaps } from '../../../shared/block-index/prefix-index.ts';

describe('overlaps', () => {
  it('lists each rank once, and forgets everything at a reset', () => {
    const overlaps = new Overlaps(2);
    overlaps.touch(1);
    overlaps.touch(1);
    overlaps.device[1] = 5;
    overlaps.host[1] = 3;
    overlaps.disk[1] = 2;
    expect([...overlaps.ranks.subarray(0, overlaps.count)]).toEqual([1]);
    overlaps.reset(2);
    expect([overlaps.count, overlaps.device[1], overlaps.host[1], overlaps.disk[1]]).toEqual([0, 0, 0, 0]);
    overlaps.touch(1);
    expect(overlaps.count).toBe(1);
  });

  it('makes room for more ranks', () => {
    const overlaps = new Overlaps(1);
    overlaps.touch(0);
    overlaps.reset(100);
    overlaps.touch(99);
    overlaps.device[99] = 4;
    expect([overlaps.count, overlaps.ranks[0], overlaps.device[99], overlaps.device[0]]).toEqual([1, 99, 4, 0]);
  });
});
