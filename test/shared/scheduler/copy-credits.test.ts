import { describe, expect, it } from 'vitest';
import { Pool, promptTokens, worker } from './pool.ts';

const SHARED = promptTokens(8192, 1);
/** A question behind the instructions that all requests share. */
const promptOf = (seed: number): Uint32Array => Uint32Array.from([...SHARED, ...promptTokens(2000, seed)]);

function openPool(): Pool {
  const pool = new Pool({ config: { costModel: 'stator' }, workers: ['a', 'b', 'c'].map((id) => worker(id)) });
  pool.store('a', SHARED);
  return pool;
}

/** Two requests at the same instant, which both end. Returns the worker of the second one. */
function playPair(pool: Pool, round: number): string | undefined {
  const ids = [`first-${round}`, `second-${round}`];
  const workers = ids.map((id, at) => pool.submit(id, promptOf(2 + 2 * round + at)).decision?.workerId);
  for (const id of ids) pool.scheduler.free(id);
  return workers[1];
}

describe('a prefix that only one worker has cached', () => {
  it('is copied once the waits for that worker have cost as much as a copy', () => {
    const pool = openPool();
    const workers = Array.from({ length: 30 }, (_, round) => playPair(pool, round));
    expect(workers.slice(0, 5)).toEqual(['a', 'a', 'a', 'a', 'a']);
    const first = workers.findIndex((id) => id !== 'a');
    expect(first).toBeGreaterThan(5);
    expect(workers.filter((id) => id !== 'a').length).toBeLessThanOrEqual(3); // then the next copy has to be earned
    const { candidates } = pool.scheduler.explained(`second-${first}`)!;
    const [atA, atB] = ['a', 'b'].map((id) => candidates.find(({ worker_id }) => worker_id === id)!.terms.copy);
    expect(atA).toBeCloseTo(0);
    expect(atB).toBeLessThan(-50);
  });

  it('is not copied while no request waits', () => {
    const pool = openPool();
    for (let round = 0; round < 200; round++) {
      const { decision } = pool.submit(`r${round}`, promptOf(round + 2));
      expect(decision?.workerId).toBe('a');
      pool.scheduler.free(`r${round}`);
    }
  });

  it('is not copied for waits that were long ago', async () => {
    const pool = openPool();
    const first = Array.from({ length: 30 }, (_, round) => playPair(pool, round)).findIndex((id) => id !== 'a');
    const other = openPool();
    for (let round = 0; round < first; round++) playPair(other, round);
    await other.clock.advance(3_600_000);
    expect(playPair(other, first)).toBe('a');
  });

  it('is not copied to please requests that are pinned to it', () => {
    const pool = openPool();
    for (let round = 0; round < 60; round++) {
      for (const id of ['x', 'y']) pool.submit(id, promptOf(2 + round), { pinned: { workerId: 'a', dpRank: 0 } });
      for (const id of ['x', 'y']) pool.scheduler.free(id);
    }
    expect(playPair(pool, 61)).toBe('a');
  });

  it('is not copied while every worker computes prompts', () => {
    const pool = openPool();
    for (let round = 0; round < 60; round++) {
      for (const id of ['a', 'b', 'c']) {
        pool.submit(`busy-${id}-${round}`, promptTokens(4000, 1000 + 3 * round), {
          pinned: { workerId: id, dpRank: 0 },
        });
      }
      expect(playPair(pool, round)).toBe('a');
      for (const id of ['a', 'b', 'c']) pool.scheduler.free(`busy-${id}-${round}`);
    }
  });
});
