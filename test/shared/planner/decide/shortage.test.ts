import { describe, expect, it } from 'vitest';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import { handleSignals } from '../../../../shared/planner/decide/handle-batch.ts';
import type { CountedWorkers } from '../../../../shared/planner/decide/worker-counts.ts';
import type { DecisionRecord } from '../../../../shared/planner/index.ts';
import { countedOf } from '../../../../shared/planner/live/counted-workers.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import type { PlannerEventOf } from '../../../../shared/protocol/index.ts';
import { BEGIN_S, tickAt } from '../../../support/planner/fleet-signals.ts';
import { aggregatedAt, instanceIdAt, plannerOf } from '../../../support/planner/planned-model.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns#m';

/** A planned model, played in rounds of five seconds. */
function modelOf(config: Record<string, unknown> = {}) {
  const store = new MemoryPlannerStore();
  const planner = plannerOf({ rate_deviations: 0, rate_target_load: 1, ...config });
  let seq = 0;
  const hear = async (signals: readonly SentSignal[], counted?: CountedWorkers) =>
    await handleSignals(signals, { store, group: GROUP, planner, counted }, NEVER);
  return {
    hear,
    /** Lets workers report from one second to another; with `counted`, the environment counts them. */
    async play(fromS: number, untilS: number, fleet: FleetOf, counted?: (atS: number) => CountedWorkers) {
      for (let atS = fromS; atS <= untilS; atS += 5) {
        await hear([aggregatedAt(atS, seq++, { perInstance: 1, rate: 75, ...fleet })], counted?.(atS));
      }
    },
    async decisions(): Promise<readonly DecisionRecord[]> {
      return (await store.decisions(GROUP, { sinceMs: 0 }, NEVER)).toReversed();
    },
    /** Targets that were decided, without those of the first minute, in which the law finds its number. */
    async targets(): Promise<readonly (number | undefined)[]> {
      const settled = (await this.decisions()).filter(({ decidedAtMs }) => decidedAtMs > 1000 * (BEGIN_S + 60));
      return settled.map(({ targets }) => targets.decode);
    },
    async target(): Promise<number | undefined> {
      return (await this.decisions()).at(-1)?.targets.decode;
    },
    ticks: () => store.ticks(GROUP, { sinceMs: 0 }, NEVER),
  };
}

interface FleetOf {
  readonly workers: number;
  readonly without?: readonly number[];
  readonly rate?: number;
}

function interruptionAt(
  atS: number,
  instance: number,
  kind: PlannerEventOf<'capacity.interrupt'>['kind'],
  leftS?: number,
): SentSignal {
  const at = 1000 * (BEGIN_S + atS);
  const id = instanceIdAt(instance);
  const common = { v: 1, namespace: 'ns', model: 'm', source: `${kind}/${id}`, epoch: `event-${atS}`, seq: 0 } as const;
  const deadline = leftS === undefined ? {} : { deadline_at: at + 1000 * leftS };
  const signal = {
    type: 'capacity.interrupt',
    ...common,
    component: 'agg',
    instance_id: id,
    kind,
    ...deadline,
    at,
  } as const;
  return { signal, sentAtS: BEGIN_S + atS };
}

describe('a fleet for which no capacity can be launched', () => {
  // 75 requests/s, of which a worker serves 10: eight workers are needed, and two serve.
  it.each([
    ['nothing starts', { ready: 2, starting: 0 }],
    ['the missing workers count as starting', { ready: 2, starting: 6 }],
    ['the starting ones are those of an option that fails', { ready: 2, starting: 6, failing: 6 }],
  ])('has no further decision in half an hour, if %s', async (_, decode) => {
    const model = modelOf();
    const before = { ready: 2, starting: 0 };
    await model.play(0, 1800, { workers: 2 }, (atS) => ({ decode: atS < 30 ? before : decode }));
    expect(await model.targets()).toEqual([]);
    expect(await model.target()).toBe(8);
  });

  it('differs from one that starts in what its ticks say', async () => {
    const model = modelOf();
    const decode = { ready: 2, starting: 6, failing: 4 };
    await model.play(0, 60, { workers: 2 }, () => ({ decode }));
    const [latest] = await model.ticks();
    expect(latest?.figures).toMatchObject({ decode_ready: 2, decode_starting: 6, decode_failing: 4 });
  });
});

describe('a fleet that was changed by hand', () => {
  it('is brought back once it has stayed above its target for a down window, and not decided about again soon', async () => {
    const model = modelOf();
    const counted = (ready: number) => () => ({ decode: { ready, starting: 0 } });
    await model.play(0, 100, { workers: 2 }, counted(2));
    await model.play(105, 200, { workers: 8 }, counted(8));
    expect(await model.target()).toBe(8);
    await model.play(205, 300, { workers: 20 }, counted(20));
    expect(await model.targets()).toEqual([]);
    await model.play(305, 1400, { workers: 20 }, counted(20));
    expect(await model.targets()).toEqual([8]);
    expect((await model.decisions()).at(-1)?.reason).toBe(
      'more workers exist than were decided: 20 of decode, and 8 were decided',
    );
  });

  it('is left alone while it comes down to its target', async () => {
    const model = modelOf({ rate_down_window_seconds: 30 });
    await model.play(0, 100, { workers: 2 });
    await model.play(105, 200, { workers: 8 });
    await model.play(205, 900, { workers: 8, rate: 40 }); // nothing ends
    expect((await model.targets()).filter((target) => target === 4)).toHaveLength(1);
  });
});

describe('an instance that is interrupted', () => {
  /** A model of eight wanted workers that serve, one on an instance. */
  async function steady(config: Record<string, unknown> = {}) {
    const model = modelOf(config);
    await model.play(0, 60, { workers: 4 });
    await model.play(65, 200, { workers: 8 });
    expect(await model.target()).toBe(8);
    return model;
  }

  it('has its workers replaced at the notice, and until it has gone', async () => {
    const model = await steady();
    const { decision } = await model.hear([interruptionAt(201, 3, 'spot-warning', 120)]);
    expect(decision).toMatchObject({ targets: { decode: 9 }, previous: { decode: 7 } });
    expect(decision?.reason).toContain('1 of decode on instances that end');
    await model.play(205, 260, { workers: 9 }); // the replacement serves
    await model.play(265, 375, { workers: 9, without: [3] });
    expect(await model.targets()).toEqual([9]);
    await model.play(385, 400, { workers: 9, without: [3] });
    expect(await model.targets()).toEqual([9, 8]);
  });

  it('has its workers replaced at the notice even if the environment lists it as serving', async () => {
    const model = modelOf();
    const counted = () => ({ decode: { ready: 8, starting: 0 } });
    await model.play(0, 100, { workers: 8 }, counted);
    const { decision } = await model.hear([interruptionAt(101, 3, 'spot-warning', 120)], counted());
    expect(decision).toMatchObject({ targets: { decode: 9 }, previous: { decode: 7 } });
  });

  it('is not replaced a second time when the environment no longer lists it as serving', async () => {
    const model = modelOf();
    const without = (...gone: readonly number[]) => {
      const ids = Array.from({ length: 9 }, (_, at) => at).filter((at) => !gone.includes(at));
      return () => ({ decode: { ready: ids.length, starting: 0, serving: new Set(ids.map(instanceIdAt)) } });
    };
    await model.play(0, 100, { workers: 8 }, without(8));
    await model.hear([interruptionAt(101, 3, 'spot-warning', 120)], without(8)());
    await model.play(105, 125, { workers: 9 }, without());
    expect(await model.targets()).toEqual([9]);
    await model.play(130, 400, { workers: 9, without: [3] }, without(3));
    expect(await model.targets()).toEqual([9, 8]);
    const [, last] = (await model.decisions()).slice(-2);
    expect(last?.decidedAtMs).toBe(1000 * (BEGIN_S + 130));
  });

  it('of a mere recommendation has one worker more beside it, until it is gone', async () => {
    const model = await steady();
    const { decision } = await model.hear([interruptionAt(201, 3, 'rebalance')]);
    expect(decision).toMatchObject({ targets: { decode: 9 }, previous: { decode: 8 } });
    await model.play(205, 800, { workers: 9 });
    expect(await model.targets()).toEqual([9]);
    await model.play(805, 900, { workers: 9, without: [3] });
    expect(await model.targets()).toEqual([9, 8]);
  });

  it('of a mere recommendation serves on, also if the environment lists no instances', async () => {
    const model = await steady();
    const pool = { ready: 8, starting: 0, draining: 0, desired: 8, refreshing: false, options: [] };
    const counted = countedOf({ pools: { decode: pool } });
    const { decision } = await model.hear([interruptionAt(201, 3, 'rebalance')], counted);
    expect(decision).toMatchObject({ targets: { decode: 9 }, previous: { decode: 8 } });
  });

  it('that ends in hours is replaced shortly before its end', async () => {
    const model = await steady();
    await model.hear([interruptionAt(201, 3, 'block-end', 600)]);
    await model.play(205, 660, { workers: 8 });
    expect(await model.targets()).toEqual([]);
    await model.play(665, 700, { workers: 8 }); // a start takes a minute, and twice that are two
    expect(await model.targets()).toEqual([9]);
  });

  it('is not replaced beyond the GPU budget', async () => {
    const model = await steady({ max_gpu_budget: 8 });
    await model.hear([interruptionAt(201, 3, 'spot-warning', 120)]);
    await model.hear([interruptionAt(202, 4, 'rebalance')]);
    expect(await model.targets()).toEqual([]);
  });

  it('counts once, however often its notice comes, and not at all if no worker is on it', async () => {
    const model = await steady();
    await model.hear([interruptionAt(201, 3, 'spot-warning', 120), interruptionAt(201, 3, 'spot-warning', 120)]);
    await model.hear([interruptionAt(201, 3, 'spot-warning', 120), interruptionAt(203, 99, 'spot-warning', 120)]);
    await model.hear([interruptionAt(204, 3, 'rebalance')]);
    expect(await model.targets()).toEqual([9]);
  });
});

describe('a tick of a scheduler', () => {
  it.each([
    ['with an ISO time', '2027-01-15T08:00:00Z'],
    ['without a time', undefined],
  ])('%s counts by the time of the queue, with an epoch for each', async (_, at) => {
    const model = modelOf({ min_endpoint: 0, idle_to_zero_seconds: 60 });
    await model.play(0, 100, { workers: 2, rate: 0 });
    for (let minute = 2; minute < 12; minute++) {
      const { signal, sentAtS } = tickAt(60 * minute, 0);
      await model.hear([{ signal: { ...signal, epoch: `execution-${minute}`, at } as never, sentAtS }]);
    }
    const ticks = await model.ticks();
    expect(ticks[0]?.atMs).toBe(1000 * (BEGIN_S + 660));
  });
});

describe('what a tick costs in a store', () => {
  it('is a stored tick when its reason changes or each minute, and none otherwise', async () => {
    const model = modelOf();
    await model.play(0, 600, { workers: 8 });
    const ticks = await model.ticks();
    expect(ticks.length).toBeGreaterThanOrEqual(10);
    expect(ticks.length).toBeLessThanOrEqual(20);
  });
});
