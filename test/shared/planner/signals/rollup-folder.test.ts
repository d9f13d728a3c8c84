import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RollupFolder } from '../../../../shared/planner/signals/rollup-folder.ts';
import {
  FOLDED_RANKS_MAX,
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  type PlannerEventOf,
  readPlannerEvent,
  type TrafficTotals,
} from '../../../../shared/protocol/index.ts';
import { rollupOf } from '../../../support/planner/fleet-signals.ts';

type WorkerRollup = PlannerEventOf<'worker.rollup'>;

const WALL_MS = 1_800_000_000_000;

const folderOf = (): RollupFolder => new RollupFolder({ namespace: 'ns', model: 'm', source: 'router', epoch: 'e' });
const served = (started: number): TrafficTotals => ({ ...NO_TRAFFIC, started });
const said = (worker: number, seq: number, started: number, parts: Partial<WorkerRollup> = {}): WorkerRollup => ({
  ...rollupOf(worker, seq, served(started), WALL_MS),
  ...parts,
});
const started = (folder: RollupFolder): number | undefined => folder.fold(0, WALL_MS)?.pools.agg?.totals.started;

describe('the roll-ups of a fleet, folded', () => {
  it('say nothing before anybody spoke, and nothing twice', () => {
    const folder = folderOf();
    expect(folder.fold(0, WALL_MS)).toBeUndefined();
    folder.add(said(0, 0, 0), 0);
    expect(folder.fold(0, WALL_MS)).toMatchObject({ type: 'model.rollup', source: 'router', seq: 0, at: WALL_MS });
    expect(folder.fold(0, WALL_MS)).toBeUndefined();
    folder.add(said(0, 1, 0), 0);
    expect(folder.fold(0, WALL_MS)?.seq).toBe(1);
  });

  it('are an event that everybody can read', () => {
    const folder = folderOf();
    folder.add(said(0, 0, 0), 0);
    expect(readPlannerEvent(folder.fold(0, WALL_MS))).toMatchObject({ kind: 'event' });
  });

  it('count what a new worker served, and of one that served before only what comes', () => {
    const folder = folderOf();
    folder.add(said(0, 0, 3), 0);
    folder.add(said(1, 7, 1000), 0);
    expect(started(folder)).toBe(3);
    folder.add(said(1, 8, 1005), 0);
    expect(started(folder)).toBe(8);
  });

  it('heal what was lost, and count nothing twice', () => {
    const folder = folderOf();
    expect(folder.add(said(0, 0, 0), 0)).toBe(true);
    expect(folder.add(said(0, 3, 30), 0)).toBe(true);
    expect(folder.add(said(0, 3, 30), 0)).toBe(false);
    expect(folder.add(said(0, 1, 10), 0)).toBe(false); // late
    expect(started(folder)).toBe(30);
  });

  it('keep what a worker served before it began anew, or left', () => {
    const folder = folderOf();
    folder.add(said(0, 0, 10), 0);
    folder.add(said(0, 0, 4, { epoch: 'another' }), 0);
    expect(started(folder)).toBe(14);
    const { worker_id: id } = said(0, 0, 0);
    folder.remove(id);
    const { agg } = folder.fold(0, WALL_MS)!.pools;
    expect(agg).toMatchObject({ workers: [], running: 0, totals: { started: 14 }, has_passes: false });
    folder.remove(id);
    expect(folder.fold(0, WALL_MS)).toBeUndefined();
  });

  it('count the workers at which more waits than runs, over all their ranks', () => {
    const rank = { dp_rank: 0, running: 2, waiting: 2, kv_blocks: 0, kv_blocks_max: 0, prefill_tokens: 0 };
    const folder = folderOf();
    folder.add(said(0, 0, 0, { ranks: [rank] }), 0);
    folder.add(said(1, 0, 0, { ranks: [rank, { ...rank, dp_rank: 1, waiting: 3 }] }), 0);
    folder.add(
      said(2, 0, 0, {
        ranks: [
          { ...rank, waiting: 9 },
          { ...rank, dp_rank: 1, running: 20 },
        ],
      }),
      0,
    );
    const event = folder.fold(0, WALL_MS);
    expect(event?.pools.agg).toMatchObject({ behind: 1, waiting: 18 });
    expect(readPlannerEvent(event)).toMatchObject({ kind: 'event', event: { pools: { agg: { behind: 1 } } } });
  });

  it('add up what waits and runs, and take the mean use of caches that are known', () => {
    const rank = { dp_rank: 0, running: 2, waiting: 5, kv_blocks: 50, kv_blocks_max: 100, prefill_tokens: 0 };
    const folder = folderOf();
    folder.add(said(0, 0, 0, { ranks: [rank, { ...rank, dp_rank: 1, kv_blocks: 300 }] }), 0); // over-full counts as full
    folder.add(said(1, 0, 0, { ranks: [{ ...rank, kv_blocks_max: 0 }] }), 0);
    expect(folder.fold(0, WALL_MS)?.pools.agg).toMatchObject({ running: 6, waiting: 15, kv_use: 0.75 });
  });

  it('leave out workers that drain, but not what they serve', () => {
    const folder = folderOf();
    folder.add(said(0, 0, 5), 0);
    folder.add(said(1, 0, 7, { draining: true }), 0);
    const { agg } = folder.fold(0, WALL_MS)!.pools;
    expect(agg?.workers).toEqual([said(0, 0, 0).worker_id]);
    expect(agg).toMatchObject({ running: 3, totals: { started: 12 } });
  });

  it('keep pools apart, and say that a pool has passes only where all its workers do', () => {
    const folder = folderOf();
    folder.add(said(0, 0, 1, { component: 'prefill', has_passes: true }), 0);
    folder.add(said(1, 0, 2, { component: 'decode', has_passes: true }), 0);
    folder.add(said(2, 0, 4, { component: 'decode' }), 0);
    expect(folder.fold(0, WALL_MS)?.pools).toMatchObject({
      prefill: { has_passes: true, totals: { started: 1 } },
      decode: { has_passes: false, totals: { started: 6 } },
    });
  });

  it('drop who is silent for 20 s while others speak, and nobody where all are silent', () => {
    const folder = folderOf();
    folder.add(said(0, 0, 0), 0);
    folder.add(said(1, 0, 0), 0);
    folder.fold(0, WALL_MS);
    folder.add(said(1, 1, 0), 20_000);
    expect(folder.fold(20_000, WALL_MS)?.pools.agg?.workers).toHaveLength(2);
    expect(folder.fold(20_001, WALL_MS)?.pools.agg?.workers).toEqual([said(1, 0, 0).worker_id]);
    folder.add(said(0, 1, 0), 21_000);
    folder.add(said(2, 0, 0), 21_000);
    expect(folder.fold(90_000, WALL_MS)?.pools.agg?.workers).toHaveLength(3);
  });

  it('hold 20,000 workers, and count those that there was no room for', () => {
    const folder = folderOf();
    for (let worker = 0; worker < 20_000; worker++) folder.add(said(worker, 0, 0), 0);
    expect(folder.add(said(20_000, 0, 0), 0)).toBe(false);
    expect(folder.add(said(0, 1, 0), 0)).toBe(true);
    expect(folder.add(said(20_000, 1, 0), 5000)).toBe(false);
    expect(folder.leftOut).toBe(1); // workers, not what they say
    folder.fold(5000, WALL_MS);
    expect(folder.leftOut).toBe(0);
  });

  it('show the last pass of 1,024 ranks, and say how many more there are', () => {
    const folder = folderOf();
    const pass = Array.from({ length: 10 }, () => 1) as unknown as NonNullable<WorkerRollup['ranks'][number]['last']>;
    for (let worker = 0; worker < FOLDED_RANKS_MAX + 5; worker++) {
      const [rank] = said(worker, 0, 0).ranks;
      folder.add(said(worker, 0, 0, { ranks: [{ ...rank!, last: pass }] }), 0);
    }
    const { agg } = folder.fold(0, WALL_MS)!.pools;
    expect(agg?.engines).toHaveLength(FOLDED_RANKS_MAX);
    expect(agg?.engines_left_out).toBe(5);
    expect(agg?.engines?.[0]).toEqual([said(0, 0, 0).worker_id, 0, ...pass]);
  });

  it('keep a bounded sample of the passes between two messages', () => {
    const folder = folderOf();
    const [rank] = said(0, 0, 0).ranks;
    const passOf = (at: number) => [at, 1, 1, 1, 1, 1, 1, 1, 0, 0] as unknown as NonNullable<typeof rank>['last'];
    for (let worker = 0; worker < 400; worker++) {
      folder.add(said(worker, 0, 0, { ranks: [{ ...rank!, samples: [passOf(worker)!] }] }), 0);
    }
    const samples = folder.fold(0, WALL_MS)?.pools.agg?.samples ?? [];
    expect(samples).toHaveLength(PASS_SAMPLES_MAX);
    // of the whole time, and not of its beginning alone
    expect(samples.filter(([at]) => at! >= 200).length).toBeGreaterThan(2);
    expect(samples.filter(([at]) => at! < 200).length).toBeGreaterThan(2);
    folder.add(said(0, 1, 0), 0);
    expect(folder.fold(0, WALL_MS)?.pools.agg).not.toHaveProperty('samples');
  });

  it('come to the same sums however messages are lost, repeated and folded in between', () => {
    const message = fc.record({
      worker: fc.nat(3),
      times: fc.integer({ min: 0, max: 2 }),
      grown: fc.nat(50),
      fold: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 40 }), (messages) => {
        const folder = folderOf();
        const told = new Map<number, { seq: number; of: number }>();
        for (let worker = 0; worker < 4; worker++) folder.add(said(worker, 0, 0), 0);
        for (const { worker, times, grown, fold } of messages) {
          const { seq, of } = told.get(worker) ?? { seq: 0, of: 0 };
          told.set(worker, { seq: seq + 1, of: of + grown });
          for (let each = 0; each < times; each++) folder.add(said(worker, seq + 1, of + grown), 0);
          if (fold) folder.fold(0, WALL_MS);
        }
        let sum = 0;
        for (const [worker, { seq, of }] of told) {
          folder.add(said(worker, seq + 1, of), 0); // the last one arrives
          sum += of;
        }
        folder.add(said(9, 0, 0), 0); // there is news
        expect(started(folder)).toBe(sum);
      }),
    );
  });
});
