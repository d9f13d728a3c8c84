import { describe, expect, it } from 'vitest';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import { handleSignals } from '../../../../shared/planner/decide/handle-batch.ts';
import { type FleetSample, joinSamples, type Planner, readOpenSample } from '../../../../shared/planner/index.ts';
import type { Observed, ObservedOption } from '../../../../shared/planner/live/connector.ts';
import { viewOf } from '../../../../shared/planner/live/option-views.ts';
import type { OptionView } from '../../../../shared/planner/record/option-view.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import type { PlannerEventOf } from '../../../../shared/protocol/index.ts';
import { BEGIN_S, heldAt, tellStory, tickAt } from '../../../support/planner/fleet-signals.ts';
import { instanceIdAt, plannerOf } from '../../../support/planner/planned-model.ts';

const NEVER = new AbortController().signal;
const GROUP = 'ns#m';

/** A model whose records are kept, in batches of signals. */
function modelOf(config: Record<string, unknown> = {}, more: Partial<Planner> = {}) {
  const store = new MemoryPlannerStore({ wallMs: () => BEGIN_S * 1000 });
  const planner = { ...plannerOf({ ttft_ms: 250, itl_ms: 25, ...config }), ...more };
  return {
    hear: (signals: readonly SentSignal[], fleet?: readonly OptionView[]) =>
      handleSignals(signals, { store, group: GROUP, planner, fleet }, NEVER),
    /** Samples of stored ticks, the oldest first, and the one that is not stored yet. */
    async samples(): Promise<readonly FleetSample[]> {
      const ticks = (await store.ticks(GROUP, { sinceMs: 0 }, NEVER)).toReversed();
      const open = readOpenSample((await store.readState(GROUP, NEVER))?.state ?? '');
      return [...ticks.flatMap(({ sample }) => sample ?? []), ...(open === undefined ? [] : [open.sample])];
    },
    async total(): Promise<FleetSample> {
      return (await this.samples()).reduce(joinSamples);
    },
  };
}

const option = (parts: Partial<ObservedOption> = {}): ObservedOption => {
  const counts = { ready: 0, starting: 0, draining: 0, desired: 0, min: 0, max: 8, instances: [] };
  return { id: '0-on-demand', ...counts, unit: { replicas: 2, instances: 1, gpus: 4 }, ...parts };
};
const observed = (...options: readonly ObservedOption[]): Observed => {
  return { pools: { decode: { ready: 0, starting: 0, draining: 0, desired: 0, refreshing: false, options } } };
};

function interruptionAt(atS: number, at: number, source: string): SentSignal {
  const id = instanceIdAt(at);
  const common = { v: 1, namespace: 'ns', model: 'm', epoch: source, seq: 0, component: 'agg' } as const;
  const atMs = 1000 * (BEGIN_S + atS);
  const what = { type: 'capacity.interrupt', kind: 'spot-warning', deadline_at: atMs + 120_000 } as const;
  return {
    signal: { ...what, ...common, source: `${source}/${id}`, instance_id: id, at: atMs },
    sentAtS: BEGIN_S + atS,
  };
}

describe('what a planner records of a fleet', () => {
  const told = tellStory(600, { rate: () => 6, workers: () => 3, itlMs: 30 });

  it('has every request, token and second once, however signals are split into batches', async () => {
    for (const size of [1, 7, 40]) {
      const model = modelOf();
      for (let at = 0; at < told.length; at += size) await model.hear(told.slice(at, at + size));
      const { started, inputTokens, outputTokens, seconds, ttft, itl } = await model.total();
      expect(started).toBe(30 * 120);
      expect(inputTokens).toBe(1000 * started);
      expect(outputTokens).toBe(100 * started);
      expect(seconds).toBeCloseTo(601, 1); // the state of a model begins a second before its first signal
      expect(ttft).toMatchObject({ count: started, met: started, targetMs: 250 });
      expect(ttft.sumMs / ttft.count).toBeCloseTo(200, 3);
      expect(itl).toMatchObject({ count: 100 * started, met: 0, targetMs: 25 });
    }
  });

  it('has about one record a minute while nothing changes', async () => {
    const model = modelOf();
    for (const signal of told) await model.hear([signal]);
    const samples = await model.samples();
    expect(samples.length).toBeGreaterThanOrEqual(10);
    expect(samples.length).toBeLessThan(20);
  });

  it('has the most requests that were held at once, also of a tick that was not stored', async () => {
    const model = modelOf();
    await model.hear([tickAt(0, 0)]);
    await model.hear([heldAt(5, 0, 7)]);
    await model.hear([tickAt(60, 1)]);
    expect((await model.total()).heldMax).toBe(7);
  });

  it('counts workers and GPUs of each option by phase, in worker seconds', async () => {
    const model = modelOf();
    const atMs = 1000 * BEGIN_S + 30_000;
    const failing = { code: 'InsufficientInstanceCapacity', types: ['g6e.xlarge'], zone: 'us-east-1a', atMs };
    const fleet = viewOf(
      observed(
        option({ ready: 2, starting: 1, draining: 1, desired: 3 }),
        option({ id: '1-spot', desired: 2, failing }),
        option({ id: '2-spot' }),
      ),
    );
    await model.hear([tickAt(0, 0)], []);
    await model.hear([tickAt(60, 1)], fleet);
    const seconds = 61; // the state of a model begins a second before its first signal
    expect((await model.total()).options).toEqual({
      'decode/0-on-demand': {
        workers: { serving: 4 * seconds, starting: 2 * seconds, draining: 2 * seconds },
        gpuSeconds: 4 * 4 * seconds,
      },
      'decode/1-spot': { workers: { capacity: 4 * seconds }, gpuSeconds: 0, failing: 'InsufficientInstanceCapacity' },
    });
  });

  it('counts the GPUs of a worker as the configuration states them until an engine has spoken', async () => {
    const model = modelOf({ decode_engine_num_gpu: 4 }, { engines: {} });
    await model.hear([tickAt(0, 0)]);
    await model.hear([heldAt(5, 0, 7)]);
    await model.hear([tickAt(60, 1)]);
    const { workers, gpuSeconds } = (await model.total()).options.decode!;
    expect(workers.starting).toBeGreaterThan(0);
    expect(gpuSeconds).toBe(4 * workers.starting!);
  });

  it('splits machines that start by what their agents say, and adds up the times of ended starts', async () => {
    const model = modelOf();
    const ids = ['i-a', 'i-b', 'i-c'];
    const instances = ids.map((id) => ({ id, state: 'starting' }) as const);
    const fleet = viewOf(observed(option({ starting: 3, desired: 3, instances })));
    let seq = 0;
    const at = (
      atS: number,
      id: string,
      phase: PlannerEventOf<'host.phase'>['phase'],
      more: object = {},
    ): SentSignal => {
      const common = {
        v: 1,
        namespace: 'ns',
        model: 'm',
        epoch: 'e',
        seq: seq++,
        component: 'agg',
        source: id,
      } as const;
      const what = { type: 'host.phase', instance_id: id, phase, at: 1000 * (BEGIN_S + atS), ...more } as const;
      return { signal: { ...what, ...common }, sentAtS: BEGIN_S + atS };
    };
    await model.hear([tickAt(0, 0)], []);
    await model.hear([tickAt(60, 1)], fleet);
    await model.hear([at(61, 'i-a', 'image'), at(62, 'i-b', 'image')], fleet);
    await model.hear([at(70, 'i-a', 'engine'), tickAt(120, 2)], fleet);
    const took = { boot: 20, image: 30, engine: 40 };
    await model.hear([at(130, 'i-a', 'serving', { took_s: took }), at(131, 'i-b', 'failed')], fleet);
    await model.hear([tickAt(180, 3)], fleet);
    const { options, starts } = await model.total();
    expect(options['decode/0-on-demand']?.workers).toEqual({
      starting: 6 * 61, // no agent has spoken: nothing is known
      boot: 2 * 120, // i-c is silent
      image: 2 * 120, // i-b, whose start has failed
      engine: 2 * 60,
      register: 2 * 60, // i-a serves, and its group does not know yet
    });
    expect(starts).toEqual({ count: 1, seconds: took });
  });

  it('has a failed launch once, whether its group or EC2 tells of it', async () => {
    const model = modelOf();
    const atMs = 1000 * (BEGIN_S + 8);
    const about = { code: 'InsufficientInstanceCapacity', zone: 'us-east-1a' };
    const types = ['g6e.xlarge'];
    const lastFailure = { ...about, types, atMs };
    const common = { v: 1, namespace: 'ns', model: 'm', epoch: 'f', seq: 0, component: 'agg', source: 'g' } as const;
    const told = { ...about, instance_types: ['g6e.xlarge'], activity_id: 'a', at: atMs };
    await model.hear([tickAt(0, 0)]);
    await model.hear([{ signal: { type: 'capacity.failed', ...told, ...common }, sentAtS: BEGIN_S + 9 }]);
    for (let at = 1; at < 6; at++) await model.hear([tickAt(60 * at, at)], viewOf(observed(option({ lastFailure }))));
    const { events, options } = await model.total();
    expect(events.map(({ kind, about: text }) => [kind, text])).toEqual([
      ['launch-failed', 'InsufficientInstanceCapacity: g6e.xlarge in us-east-1a'],
    ]);
    expect(options['decode/0-on-demand']).toMatchObject({ workers: {}, failing: 'InsufficientInstanceCapacity' });
  });

  it('counts a worker of several machines once', () => {
    const unit = { replicas: 1, instances: 2, gpus: 8 };
    const [view] = viewOf(observed(option({ unit, ready: 4, desired: 4 }))) ?? [];
    expect(view).toMatchObject({ serving: 2, gpusPerWorker: 16 });
  });

  it('counts the workers that were heard, if the environment counts none', async () => {
    const model = modelOf();
    for (const signal of told) await model.hear([signal]);
    const { options, seconds } = await model.total();
    expect(Object.keys(options)).toEqual(['decode']);
    expect((options.decode?.workers.serving ?? 0) / seconds).toBeGreaterThan(2.9);
  });

  it('claims nothing about a time in which no planner ran', async () => {
    const model = modelOf();
    await model.hear(
      [tickAt(0, 0)],
      [{ pool: 'decode', key: 'decode', serving: 1, starting: 0, draining: 0, ordered: 0 }],
    );
    await model.hear([tickAt(7200, 1)]);
    const { seconds } = await model.total();
    expect(seconds).toBeLessThanOrEqual(181);
  });

  it('has an interruption once, whether the machine or EC2 tells of it, and counts those that have no room', async () => {
    const model = modelOf();
    await model.hear([tickAt(0, 0)]);
    await model.hear([interruptionAt(10, 0, 'agent'), interruptionAt(11, 0, 'ec2')]);
    await model.hear([tickAt(30, 1)]);
    const storm = Array.from({ length: 100 }, (_, at) => interruptionAt(40, at + 1, 'ec2'));
    await model.hear(storm);
    await model.hear([tickAt(120, 2)]);
    const samples = await model.samples();
    const events = samples.flatMap((sample) => sample.events);
    const [first] = events;
    expect(first).toMatchObject({ kind: 'spot-warning', pool: 'decode', instance: instanceIdAt(0) });
    expect((first?.deadlineMs ?? 0) - (first?.atMs ?? 0)).toBe(120_000);
    expect(events.filter(({ instance }) => instance === instanceIdAt(0))).toHaveLength(1);
    expect(Math.max(...samples.map((sample) => sample.events.length))).toBeLessThanOrEqual(16);
    const leftOut = samples.reduce((sum, sample) => sum + sample.eventsLeftOut, 0);
    expect(events.length + leftOut).toBe(101);
  });

  it('has a bounded size, whatever happens', async () => {
    const model = modelOf();
    const options = Array.from({ length: 16 }, (_, at) =>
      option({ id: `${at}-spot`, ready: 900, starting: 99, desired: 999 }),
    );
    await model.hear([tickAt(0, 0)]);
    await model.hear(
      Array.from({ length: 200 }, (_, at) => interruptionAt(1, at, 'ec2')),
      viewOf(observed(...options)),
    );
    await model.hear([tickAt(60, 1)], viewOf(observed(...options)));
    for (const sample of await model.samples()) expect(JSON.stringify(sample).length).toBeLessThan(8 * 1024);
  });
});
