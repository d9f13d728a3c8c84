import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RollupAggregator } from '../../../../shared/planner/signals/rollup-aggregator.ts';
import {
  AGGREGATED_RANKS_MAX,
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  type PlannerEventOf,
  readPlannerEvent,
  type TrafficTotals,
} from '../../../../shared/protocol/index.ts';
import { rollupOf } from '../../../support/planner/fleet-signals.ts';

type WorkerRollup = PlannerEventOf<'worker.rollup'>;

const WALL_MS = 1_800_000_000_000;

const aggregatorOf = (): RollupAggregator =>
  new RollupAggregator({ namespace: 'ns', model: 'm', source: 'router', epoch: 'e' });
const served = (started: number): TrafficTotals => ({ ...NO_TRAFFIC, started });
const said = (worker: number, seq: number, started: number, parts: Partial<WorkerRollup> = {}): WorkerRollup => ({
  ...rollupOf(worker, seq, served(started), WALL_MS),
  ...parts,
});
const started = (aggregator: RollupAggregator): number | undefined =>
  aggregator.aggregate(0, WALL_MS)?.pools.agg?.totals.started;

describe('the roll-ups of a fleet, folded', () => {
  it('say nothing before anybody spoke, and nothing twice', () => {
    const aggregator = aggregatorOf();
    expect(aggregator.aggregate(0, WALL_MS)).toBeUndefined();
    aggregator.add(said(0, 0, 0), 0);
    expect(aggregator.aggregate(0, WALL_MS)).toMatchObject({
      type: 'model.rollup',
      source: 'router',
      seq: 0,
      at: WALL_MS,
    });
    expect(aggregator.aggregate(0, WALL_MS)).toBeUndefined();
    aggregator.add(said(0, 1, 0), 0);
    expect(aggregator.aggregate(0, WALL_MS)?.seq).toBe(1);
  });

  it('are an event that everybody can read', () => {
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 0), 0);
    expect(readPlannerEvent(aggregator.aggregate(0, WALL_MS))).toMatchObject({ kind: 'event' });
  });

  it('count what a new worker served, and of one that served before only what comes', () => {
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 3), 0);
    aggregator.add(said(1, 7, 1000), 0);
    expect(started(aggregator)).toBe(3);
    aggregator.add(said(1, 8, 1005), 0);
    expect(started(aggregator)).toBe(8);
  });

  it('heal what was lost, and count nothing twice', () => {
    const aggregator = aggregatorOf();
    expect(aggregator.add(said(0, 0, 0), 0)).toBe(true);
    expect(aggregator.add(said(0, 3, 30), 0)).toBe(true);
    expect(aggregator.add(said(0, 3, 30), 0)).toBe(false);
    expect(aggregator.add(said(0, 1, 10), 0)).toBe(false); // late
    expect(started(aggregator)).toBe(30);
  });

  it('keep what a worker served before it began anew, or left', () => {
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 10), 0);
    aggregator.add(said(0, 0, 4, { epoch: 'another' }), 0);
    expect(started(aggregator)).toBe(14);
    const { worker_id: id } = said(0, 0, 0);
    aggregator.remove(id);
    const { agg } = aggregator.aggregate(0, WALL_MS)!.pools;
    expect(agg).toMatchObject({ workers: [], running: 0, totals: { started: 14 }, has_passes: false });
    aggregator.remove(id);
    expect(aggregator.aggregate(0, WALL_MS)).toBeUndefined();
  });

  it('count the workers at which more waits than runs, over all their ranks', () => {
    const rank = { dp_rank: 0, running: 2, waiting: 2, kv_blocks: 0, kv_blocks_max: 0, prefill_tokens: 0 };
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 0, { ranks: [rank] }), 0);
    aggregator.add(said(1, 0, 0, { ranks: [rank, { ...rank, dp_rank: 1, waiting: 3 }] }), 0);
    aggregator.add(
      said(2, 0, 0, {
        ranks: [
          { ...rank, waiting: 9 },
          { ...rank, dp_rank: 1, running: 20 },
        ],
      }),
      0,
    );
    const event = aggregator.aggregate(0, WALL_MS);
    expect(event?.pools.agg).toMatchObject({ behind: 1, waiting: 18 });
    expect(readPlannerEvent(event)).toMatchObject({ kind: 'event', event: { pools: { agg: { behind: 1 } } } });
  });

  it('add up what waits and runs, and take the mean use of caches that are known', () => {
    const rank = { dp_rank: 0, running: 2, waiting: 5, kv_blocks: 50, kv_blocks_max: 100, prefill_tokens: 0 };
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 0, { ranks: [rank, { ...rank, dp_rank: 1, kv_blocks: 300 }] }), 0); // over-full counts as full
    aggregator.add(said(1, 0, 0, { ranks: [{ ...rank, kv_blocks_max: 0 }] }), 0);
    expect(aggregator.aggregate(0, WALL_MS)?.pools.agg).toMatchObject({ running: 6, waiting: 15, kv_use: 0.75 });
  });

  it('leave out workers that drain, but not what they serve', () => {
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 5), 0);
    aggregator.add(said(1, 0, 7, { draining: true }), 0);
    const { agg } = aggregator.aggregate(0, WALL_MS)!.pools;
    expect(agg?.workers).toEqual([said(0, 0, 0).worker_id]);
    expect(agg).toMatchObject({ running: 3, totals: { started: 12 } });
  });

  it('keep pools apart, and say that a pool has passes only where all its workers do', () => {
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 1, { component: 'prefill', has_passes: true }), 0);
    aggregator.add(said(1, 0, 2, { component: 'decode', has_passes: true }), 0);
    aggregator.add(said(2, 0, 4, { component: 'decode' }), 0);
    expect(aggregator.aggregate(0, WALL_MS)?.pools).toMatchObject({
      prefill: { has_passes: true, totals: { started: 1 } },
      decode: { has_passes: false, totals: { started: 6 } },
    });
  });

  it('drop a process that is silent for 20 s while others speak, and none if all are silent', () => {
    const aggregator = aggregatorOf();
    aggregator.add(said(0, 0, 0), 0);
    aggregator.add(said(1, 0, 0), 0);
    aggregator.aggregate(0, WALL_MS);
    aggregator.add(said(1, 1, 0), 20_000);
    expect(aggregator.aggregate(20_000, WALL_MS)?.pools.agg?.workers).toHaveLength(2);
    expect(aggregator.aggregate(20_001, WALL_MS)?.pools.agg?.workers).toEqual([said(1, 0, 0).worker_id]);
    aggregator.add(said(0, 1, 0), 21_000);
    aggregator.add(said(2, 0, 0), 21_000);
    expect(aggregator.aggregate(90_000, WALL_MS)?.pools.agg?.workers).toHaveLength(3);
  });

  it('hold 20,000 workers, and count those that there was no room for', () => {
    const aggregator = aggregatorOf();
    for (let worker = 0; worker < 20_000; worker++) aggregator.add(said(worker, 0, 0), 0);
    expect(aggregator.add(said(20_000, 0, 0), 0)).toBe(false);
    expect(aggregator.add(said(0, 1, 0), 0)).toBe(true);
    expect(aggregator.add(said(20_000, 1, 0), 5000)).toBe(false);
    expect(aggregator.leftOut).toBe(1); // workers, not what they say
    aggregator.aggregate(5000, WALL_MS);
    expect(aggregator.leftOut).toBe(0);
  });

  it('show the last pass of 1,024 ranks, and say how many more there are', () => {
    const aggregator = aggregatorOf();
    const pass = Array.from({ length: 10 }, () => 1) as unknown as NonNullable<WorkerRollup['ranks'][number]['last']>;
    for (let worker = 0; worker < AGGREGATED_RANKS_MAX + 5; worker++) {
      const [rank] = said(worker, 0, 0).ranks;
      aggregator.add(said(worker, 0, 0, { ranks: [{ ...rank!, last: pass }] }), 0);
    }
    const { agg } = aggregator.aggregate(0, WALL_MS)!.pools;
    expect(agg?.engines).toHaveLength(AGGREGATED_RANKS_MAX);
    expect(agg?.engines_left_out).toBe(5);
    expect(agg?.engines?.[0]).toEqual([said(0, 0, 0).worker_id, 0, ...pass]);
  });

  it('keep a bounded sample of the passes between two messages', () => {
    const aggregator = aggregatorOf();
    const [rank] = said(0, 0, 0).ranks;
    const passOf = (at: number) => [at, 1, 1, 1, 1, 1, 1, 1, 0, 0] as unknown as NonNullable<typeof rank>['last'];
    for (let worker = 0; worker < 400; worker++) {
      aggregator.add(said(worker, 0, 0, { ranks: [{ ...rank!, samples: [passOf(worker)!] }] }), 0);
    }
    const samples = aggregator.aggregate(0, WALL_MS)?.pools.agg?.samples ?? [];
    expect(samples).toHaveLength(PASS_SAMPLES_MAX);
    // of the whole time, and not of its beginning alone
    expect(samples.filter(([at]) => at! >= 200).length).toBeGreaterThan(2);
    expect(samples.filter(([at]) => at! < 200).length).toBeGreaterThan(2);
    aggregator.add(said(0, 1, 0), 0);
    expect(aggregator.aggregate(0, WALL_MS)?.pools.agg).not.toHaveProperty('samples');
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
        const aggregator = aggregatorOf();
        const told = new Map<number, { seq: number; of: number }>();
        for (let worker = 0; worker < 4; worker++) aggregator.add(said(worker, 0, 0), 0);
        for (const { worker, times, grown, fold } of messages) {
          const { seq, of } = told.get(worker) ?? { seq: 0, of: 0 };
          told.set(worker, { seq: seq + 1, of: of + grown });
          for (let each = 0; each < times; each++) aggregator.add(said(worker, seq + 1, of + grown), 0);
          if (fold) aggregator.aggregate(0, WALL_MS);
        }
        let sum = 0;
        for (const [worker, { seq, of }] of told) {
          aggregator.add(said(worker, seq + 1, of), 0); // the last one arrives
          sum += of;
        }
        aggregator.add(said(9, 0, 0), 0); // there is news
        expect(started(aggregator)).toBe(sum);
      }),
    );
  });
});
