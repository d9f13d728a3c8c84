import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { poolName, type RoutableWorker, type WorkerPool } from '../../../shared/router/index.ts';
import { PoolMembers } from '../../../shared/scheduler/pool-members.ts';

const BASE: WorkerPool = { key: 'base', model: 'base', role: 'aggregated', blockSizeTokens: 16 };
const adapter = (at: number): WorkerPool => ({ ...BASE, key: `adapter-${at}`, model: `adapter-${at}`, base: BASE });
const worker = (id: string): RoutableWorker => ({ id }) as RoutableWorker;
const idsOf = (workers: readonly RoutableWorker[]): readonly string[] => workers.map(({ id }) => id);

describe('the worker sets of a base model and its adapters', () => {
  it('have every worker once, those of the base model first, after any change', () => {
    const change = fc.record({
      set: fc.integer({ min: 0, max: 3 }),
      ids: fc.option(fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e')), { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const members = new PoolMembers<RoutableWorker>();
        const naive = new Map<string, readonly RoutableWorker[]>();
        for (const { set, ids } of changes) {
          const facts = set === 0 ? BASE : adapter(set);
          const before = members.all;
          const listed = ids?.map(worker);
          if (listed === undefined) {
            members.remove(facts, new Error('gone'));
            naive.delete(poolName(facts));
          } else {
            const isOther = members.set(members.of(facts), listed);
            naive.set(poolName(facts), listed);
            expect(isOther).toBe(members.all !== before);
          }
          const own = naive.get(poolName(BASE)) ?? [];
          const everybody = new Set([...own, ...[...naive.values()].flat()].map(({ id }) => id));
          expect(members.all.slice(0, own.length)).toEqual(own);
          expect([...idsOf(members.all)].sort()).toEqual([...everybody].sort());
        }
      }),
    );
  });

  it.each([10, 100])('are set again in time proportional to their number: %i adapters', (adapters) => {
    let reads = 0;
    const counted = (id: string): RoutableWorker =>
      ({
        get id() {
          reads++;
          return id;
        },
      }) as RoutableWorker;
    const list = (): readonly RoutableWorker[] => Array.from({ length: 100 }, (_, at) => counted(`${at}`));
    const pools = [BASE, ...Array.from({ length: adapters }, (_, at) => adapter(at))];
    const members = new PoolMembers<RoutableWorker>();
    for (const pool of pools) members.set(members.of(pool), list());
    reads = 0;
    for (const pool of pools) members.set(members.of(pool), list());
    expect(reads).toBeLessThanOrEqual(4 * 100 * pools.length);
  });
});
