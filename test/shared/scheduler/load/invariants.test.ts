import { describe, expect, it } from 'vitest';
import { ActiveLoad } from '../../../../shared/scheduler/load/active-load.ts';
import { BlockUses } from '../../../../shared/scheduler/load/block-uses.ts';
import { hashesOf } from './prompt-hashes.ts';

const HASHES = hashesOf([1, 2, 3]);

function loadOf(ranks: number): ActiveLoad {
  return new ActiveLoad(ranks, { blockSizeTokens: 16, expiryMs: 60_000 });
}

function entry(id: string, rank: number) {
  return { id, rank, promptTokens: 48, hashes: HASHES, isReusing: true, prefillTokens: 48 };
}

describe('load of a rank whose state was corrupted stops', () => {
  it('when a request ends its uses of blocks twice', () => {
    const uses = new BlockUses(2);
    const last = uses.acquire(0, HASHES);
    uses.release(last);
    expect(() => uses.release(last)).toThrow('broken invariant: a request ends its use of a block once');
  });

  it('when more prefills end than began', () => {
    const load = loadOf(2);
    load.add(entry('a', 0), 0);
    load.prefills[0] = 0;
    expect(() => load.prefillDone('a', 1)).toThrow('broken invariant: a prefill ends once');
  });

  it('when blocks of a request were taken off its rank before', () => {
    const load = loadOf(2);
    load.add(entry('a', 0), 0);
    load.uses.release(0);
    expect(() => load.free('a', 1)).toThrow('broken invariant');
  });

  it('when a request is booked on a rank that has no place', () => {
    const load = loadOf(2);
    expect(() => load.add(entry('a', 2), 0)).toThrow(
      'broken invariant: a request is booked on a rank that has its place',
    );
    expect(load.size).toBe(0);
  });
});
