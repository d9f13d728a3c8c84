import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import { decide } from '../../../../shared/planner/decide/decide.ts';
import { handleBatch, handleSignals, PlannerConflict } from '../../../../shared/planner/decide/handle-batch.ts';
import {
  DIRECT_WORKERS_MAX,
  packState,
  STATE_BYTES_MAX,
  startModel,
  unpackState,
} from '../../../../shared/planner/decide/model-state.ts';
import type { PlannerStore } from '../../../../shared/planner/index.ts';
import { RollupAggregator } from '../../../../shared/planner/signals/rollup-aggregator.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { NO_TRAFFIC, type PlannerEventOf } from '../../../../shared/protocol/index.ts';
import { BEGIN_S, changeAt, heldAt, rollupOf, tellStory, tickAt } from '../../../support/planner/fleet-signals.ts';

const NEVER = new AbortController().signal;

function plannerOf(config: Record<string, unknown> = {}) {
  const raw = { mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, start_seconds: 60, ...config };
  return { config: parsePlannerConfig(raw), engines: { decode: { gpus: 1 } } };
}

/** `store`, that writes in another way. */
function withCommit(store: PlannerStore, commit: PlannerStore['commit']): PlannerStore {
  return new Proxy(store, {
    get: (target, name) => {
      const value = name === 'commit' ? commit : Reflect.get(target, name);
      return typeof value === 'function' && name !== 'commit' ? value.bind(target) : value;
    },
  });
}

/** Plays signals in batches of `size` from an empty store; the targets of the last decision. */
async function play(
  signals: readonly SentSignal[],
  { size = 10, planner = plannerOf(), store = new MemoryPlannerStore() as PlannerStore } = {},
) {
  for (let at = 0; at < signals.length; at += size) {
    await handleSignals(signals.slice(at, at + size), { store, group: 'g', planner }, NEVER);
  }
  const decisions = await store.decisions('g', { sinceMs: 0 }, NEVER);
  return { decisions: decisions.toReversed(), store, target: decisions[0]?.targets.decode };
}

describe('what a fleet says, folded', () => {
  it('sizes the fleet for the requests that begin', async () => {
    const { target, decisions } = await play(tellStory(60, { rate: () => 30, workers: () => 1 }));
    // 30/s and a deviation, of which a worker serves 10 at 85 %
    expect(target).toBe(4);
    expect(decisions[0]).toMatchObject({ status: 'PENDING', decisionId: 0, previous: { decode: 1 } });
    expect(decisions[0]?.reason).toMatch(/decode 1 -> \d: .*requests\/s/);
    expect(decisions[0]?.figures).toMatchObject({
      decode_ready: 1,
      input_tokens: 1000,
      output_tokens: 100,
      itl_ms: 20,
    });
  });

  it.each([
    ['their prefill workers', 'prefill' as const, 200],
    ['their workers', 'agg' as const, 110],
  ])('shows the time to the first token of %s', async (_what, component, ttftMs) => {
    const story = tellStory(60, { rate: () => 40, workers: () => 2 }).map(({ signal, sentAtS }): SentSignal => {
      if (signal.type !== 'worker.rollup') return { signal, sentAtS };
      if (signal.worker_id.endsWith('0')) return { signal: { ...signal, component }, sentAtS };
      const totals = { ...signal.totals, ttft_sum_s: signal.totals.ttft_count * 0.02 };
      return { signal: { ...signal, totals, component: component === 'agg' ? component : 'decode' }, sentAtS };
    });
    const mode = component === 'agg' ? 'agg' : 'disagg';
    const rates = { rate_prefill_requests_per_second: 10, rate_decode_requests_per_second: 10 };
    const planner = plannerOf(mode === 'agg' ? {} : { mode, rate_requests_per_second: undefined, ...rates });
    const { decisions } = await play(story, { planner });
    expect(decisions[0]?.figures).toMatchObject({ ttft_ms: ttftMs });
  });

  it('starts another where a worker is too far behind to catch up, whichever process reports it', async () => {
    const planner = plannerOf({ rate_target_load: 1.2, rate_deviations: 0 });
    const story = tellStory(60, { rate: () => 10, workers: () => 1 });
    const behind = story.map(({ signal, sentAtS }) => {
      if (signal.type !== 'worker.rollup') return { signal, sentAtS };
      const ranks = signal.ranks.map((rank) => ({ ...rank, running: 100, waiting: 2000 }));
      return { signal: { ...signal, ranks }, sentAtS };
    });
    expect((await play(story, { planner })).target).toBeUndefined();
    const { target, decisions } = await play(behind, { planner });
    expect(target).toBe(2);
    expect(decisions[0]?.reason).toContain('1 will not have caught up');
    const aggregator = new RollupAggregator({ namespace: 'ns', model: 'm', source: 'router', epoch: 'e' });
    const folded = behind.flatMap(({ signal, sentAtS }) => {
      if (signal.type === 'worker.rollup') aggregator.add(signal, 1000 * sentAtS);
      const event = aggregator.aggregate(1000 * sentAtS, 1000 * sentAtS);
      return event === undefined ? [] : [{ signal: event, sentAtS }];
    });
    expect((await play(folded, { planner })).target).toBe(2);
  });

  it('decides once for as long as the targets are the same, whether or not the workers come', async () => {
    const { decisions } = await play(tellStory(400, { rate: () => 30, workers: () => 1 }));
    expect(decisions.map(({ targets }) => targets)).toEqual([{ decode: 4 }]);
  });

  it('replaces a worker that is gone at once, without another roll-up', async () => {
    const story = tellStory(60, { rate: () => 30, workers: () => 4 });
    const { store } = await play(story);
    const outcome = await handleSignals(
      [changeAt('worker.gone', 61, 2, 99)],
      { store, group: 'g', planner: plannerOf() },
      NEVER,
    );
    expect(outcome.decision).toMatchObject({ targets: { decode: 4 }, previous: { decode: 3 } });
  });

  it('counts once what a worker tells by itself beside a process that folds it', async () => {
    const alone: SentSignal[] = [];
    const both: SentSignal[] = [];
    const aggregator = new RollupAggregator({ namespace: 'ns', model: 'm', source: 'router', epoch: 'f' });
    for (const told of tellStory(60, { rate: () => 30, workers: () => 2 })) {
      const { signal, sentAtS } = told;
      if (signal.type === 'worker.rollup') aggregator.add(signal, sentAtS * 1000);
      const isLast = signal.type === 'worker.rollup' && signal.worker_id.endsWith('1');
      const folded = isLast ? aggregator.aggregate(sentAtS * 1000, sentAtS * 1000) : undefined;
      const message = folded === undefined ? [] : [{ signal: folded, sentAtS: sentAtS + 0.1 }];
      alone.push(...message);
      both.push(...(sentAtS - BEGIN_S < 5 ? [] : [told]), ...message);
    }
    const [one, other] = await Promise.all([play(alone, { size: 1 }), play(both, { size: 1 })]);
    expect(one.target).toBeGreaterThan(2);
    expect(other.target).toBe(one.target);
    const started = async ({ store }: typeof one) =>
      (await store.ticks('g', { sinceMs: 0 }, NEVER)).map(({ figures }) => figures.requests_per_second);
    expect(await started(other)).toEqual(await started(one));
  });

  it('remembers the last of thousands that leave at once, and keeps to its size', async () => {
    const gone = Array.from({ length: 3000 }, (_, at) => changeAt('worker.gone', 61 + at / 1000, at, 99));
    const { store } = await play([...tellStory(60, { rate: () => 30, workers: () => 4 }), ...gone], { size: 500 });
    const { state = '' } = (await store.readState('g', NEVER)) ?? {};
    expect(Buffer.byteLength(state)).toBeLessThan(48 * 1024);
    expect(Object.keys(unpackState(state).changes)).toHaveLength(128);
  });

  it('wakes a model that has no worker with the first request that waits', async () => {
    const planner = plannerOf({ min_endpoint: 0 });
    const { decisions } = await play([tickAt(0, 0), heldAt(1, 0)], { planner, size: 1 });
    expect(decisions.map(({ targets }) => targets)).toEqual([{ decode: 1 }]);
    expect(decisions[0]?.figures).toMatchObject({ held: 1 });
  });

  it('starts a worker at once for a held request that is the first thing ever heard', async () => {
    const planner = plannerOf({ min_endpoint: 0 });
    const { decisions } = await play([heldAt(0, 0)], { planner });
    expect(decisions.map(({ targets }) => targets)).toEqual([{ decode: 1 }]);
    expect(decisions[0]?.decidedAtMs).toBe(1000 * BEGIN_S);
  });

  it('goes to no worker when no request came for long enough, and only then', async () => {
    const planner = plannerOf({ min_endpoint: 0, idle_to_zero_seconds: 100, start_seconds: 10 });
    const idle = tellStory(300, { rate: () => 0, workers: () => 1 }).map(({ signal, sentAtS }) => {
      const quiet = signal as PlannerEventOf<'worker.rollup'>;
      return { signal: { ...quiet, ranks: quiet.ranks.map((rank) => ({ ...rank, running: 0 })) }, sentAtS };
    });
    const { decisions } = await play(idle, { planner });
    expect(decisions.map(({ targets }) => targets)).toEqual([{ decode: 0 }]);
    expect(decisions[0]!.decidedAtMs / 1000 - BEGIN_S).toBeGreaterThanOrEqual(100);
  });

  it('holds while no process that counts requests is heard, although ticks come', async () => {
    const story = tellStory(60, { rate: () => 30, workers: () => 4 });
    const silence = Array.from({ length: 60 }, (_, at) => tickAt(65 + 10 * at, at));
    const { decisions } = await play([...story, ...silence]);
    expect(decisions.map(({ targets }) => targets.decode)).toEqual([]); // as many as are needed, and nothing after it
  });

  it('writes an advisory decision as such', async () => {
    const planner = plannerOf({ advisory: true });
    const { decisions } = await play(tellStory(30, { rate: () => 30, workers: () => 1 }), { planner });
    expect(decisions[0]).toMatchObject({ status: 'ADVISORY', isAdvisory: true });
  });

  it('acknowledges unreadable events, and goes on', async () => {
    const problems: string[] = [];
    const [first] = tellStory(0, { rate: () => 1, workers: () => 1 });
    const bodies = [
      '{',
      '{"v":2,"type":"tick"}',
      JSON.stringify({ ...first!.signal, model: 7 }),
      JSON.stringify(first!.signal),
    ];
    const messages = bodies.map((body) => ({ body, sentAtMs: BEGIN_S * 1000 }));
    const options = { store: new MemoryPlannerStore(), group: 'g', planner: plannerOf() };
    const outcome = await handleBatch(messages, { ...options, onRefused: (problem) => problems.push(problem) }, NEVER);
    expect(outcome).toMatchObject({ report: { taken: 1 } });
    expect(problems).toEqual([
      expect.stringContaining('not JSON'),
      expect.stringContaining('version 2'),
      expect.stringContaining('model'),
    ]);
  });
});

const STEP = { rate: (atS: number) => (atS < 120 ? 8 : 64), workers: (atS: number) => (atS < 200 ? 1 : 8) };

describe('signals that come as they do in a cloud', () => {
  it('decide the same in any batches', async () => {
    const story = tellStory(300, STEP);
    const whole = await play(story, { size: 1 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), async (size) => {
        const { target } = await play(story, { size });
        expect(target).toBe(whole.target);
      }),
      { numRuns: 8 },
    );
  });

  it('change nothing the second time: whole batches, or single signals in later ones', async () => {
    const story = tellStory(200, STEP);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { maxLength: 40 }), fc.integer({ min: 1, max: 10 }), async (again, size) => {
        const doubled = [...story];
        for (const at of again) {
          const which = at % story.length;
          const where = doubled.indexOf(story[which]!) + 1 + (at % 7);
          doubled.splice(where, 0, story[which]!); // anywhere later
        }
        const once = await play(story, { size: 1 });
        const twice = await play(doubled, { size: 1 });
        expect(twice.decisions).toEqual(once.decisions);
        const before = await twice.store.readState('g', NEVER);
        await play(story, { size, store: twice.store });
        expect(await twice.store.readState('g', NEVER)).toEqual(before); // not even written
      }),
      { numRuns: 12 },
    );
  });

  it('decide the same whatever the clocks of workers say', async () => {
    const right = await play(tellStory(300, STEP));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: -60, max: 60 }), { minLength: 8, maxLength: 8 }), async (skews) => {
        const wrong = await play(tellStory(300, { ...STEP, skewS: (worker) => skews[worker] ?? 0 }));
        expect(wrong.decisions).toEqual(right.decisions);
      }),
      { numRuns: 10 },
    );
  });

  it('lose no request to a message that is lost: the next one has its counts', async () => {
    const story = tellStory(300, STEP);
    const right = await play(story);
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat({ max: story.length - 20 }), { maxLength: 12 }), async (lost) => {
        const rest = story.filter((_, at) => !lost.includes(at) || at < 2);
        const { target } = await play(rest);
        expect(target).toBeGreaterThanOrEqual(right.target! - 1);
        expect(target).toBeLessThanOrEqual(right.target! + 3);
      }),
      { numRuns: 15 },
    );
  });

  it('come late or out of order, and end with what is needed all the same', async () => {
    const story = tellStory(900, STEP);
    const forgetful = { size: 50, planner: plannerOf({ rate_surge_worth: 0 }) };
    const { target: right } = await play(story, forgetful);
    const delays = fc.array(fc.nat({ max: 30 }), { minLength: story.length, maxLength: story.length });
    await fc.assert(
      fc.asyncProperty(delays, async (delayOf) => {
        const isCalm = (at: number): boolean => at > story.length / 5; // a trend forgets slowly
        const late = story
          .map((each, at) => ({ each, at: at + (isCalm(at) ? 0 : delayOf[at]!) }))
          .toSorted((one, other) => one.at - other.at)
          .map(({ each }) => each);
        const { target } = await play(late, forgetful);
        expect(Math.abs(target! - right!)).toBeLessThanOrEqual(1);
        // What came at once looks like a burst: workers are kept for the next one, for a while.
        const { target: kept } = await play(late, { size: 50 });
        expect(kept).toBeGreaterThanOrEqual(right! - 1);
        expect(kept).toBeLessThanOrEqual(2 * right!);
      }),
      { numRuns: 5 },
    );
  });

  it('count as one burst no longer than a window what began in a long silence', async () => {
    const totals = { ...NO_TRAFFIC, isl_sum: 1000, isl_count: 1, osl_sum: 100, osl_count: 1 };
    const at = (seconds: number, seq: number, started: number): SentSignal => ({
      signal: rollupOf(0, seq, { ...totals, started }, 1_800_000_000_000),
      sentAtS: BEGIN_S + seconds,
    });
    // 10 a second all the time, and ten minutes of silence in between
    const { decisions } = await play([at(0, 0, 0), at(5, 1, 50), at(10, 2, 100), at(610, 3, 6100)], { size: 1 });
    for (const { targets } of decisions) expect(targets.decode).toBeLessThanOrEqual(4);
  });
});

describe('several planners of one model', () => {
  it('at once end with the same as one alone', async () => {
    const story = tellStory(200, STEP);
    const alone = await play(story);
    const store = new MemoryPlannerStore();
    const options = { store, group: 'g', planner: plannerOf() };
    for (let at = 0; at < story.length; at += 10) {
      const batch = story.slice(at, at + 10);
      await Promise.all([1, 2].map(() => handleSignals(batch, options, NEVER)));
    }
    const decisions = await store.decisions('g', { sinceMs: 0 }, NEVER);
    expect(decisions.toReversed()).toEqual(alone.decisions);
  });

  it('give up a batch, to be handed out anew, if another planner is faster each time', async () => {
    const store = new MemoryPlannerStore();
    const losing = withCommit(store, async () => false);
    const [first] = tellStory(0, STEP);
    const options = { store: losing, group: 'g', planner: plannerOf() };
    await expect(handleSignals([first!], options, NEVER)).rejects.toThrow(PlannerConflict);
    expect(await store.readState('g', NEVER)).toBeUndefined();
  });

  it('that crash before or after any write end with the same decisions, once each', async () => {
    const story = tellStory(200, STEP);
    const right = await play(story);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('none', 'before', 'after'), { minLength: 30, maxLength: 30 }),
        async (crashes) => {
          const store = new MemoryPlannerStore();
          let calls = 0;
          const crashing = withCommit(store, async (...args) => {
            const crash = crashes[calls++ % crashes.length];
            if (crash === 'before') throw new Error('crashed before the write');
            const isDone = await store.commit(...args);
            if (crash === 'after') throw new Error('crashed after the write');
            return isDone;
          });
          const options = { store: crashing, group: 'g', planner: plannerOf() };
          for (let at = 0; at < story.length; at += 10) {
            for (let tries = 0; tries < 40; tries++) {
              const isDone = await handleSignals(story.slice(at, at + 10), options, NEVER).then(
                () => true,
                () => false,
              );
              if (isDone) break;
            }
          }
          const decisions = await store.decisions('g', { sinceMs: 0 }, NEVER);
          if (crashes.some((crash) => crash !== 'before')) expect(decisions.toReversed()).toEqual(right.decisions);
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe('the state of a model', () => {
  const pass = [0.03, 1, 512, 0, 200, 250_000, 3, 4000, 0, 0] as const;

  function folded(workers: number, seq: number): SentSignal {
    const ids = Array.from(
      { length: workers },
      (_, at) => `${(0x1234_5678_9abc + at * 7919).toString(16).padStart(16, 'f')}`,
    );
    const totals = Object.fromEntries(
      Object.keys(NO_TRAFFIC).map((key) => [key, 12_345_678 + seq]),
    ) as typeof NO_TRAFFIC;
    const pool = {
      workers: ids,
      running: workers * 100,
      waiting: 3,
      kv_use: 0.5123,
      totals,
      engine: { gpus: 8, kv_block_size: 64, max_kv_tokens: 2_000_000, max_num_seqs: 256, max_num_batched_tokens: 8192 },
      has_passes: true,
      engines: ids.map((id): [string, number, ...number[]] => [id, 0, ...pass]),
      samples: Array.from({ length: 16 }, () => [...pass]),
    };
    const signal = {
      type: 'model.rollup',
      v: 1,
      namespace: 'ns',
      model: 'm',
      source: 'resident',
      epoch: 'e',
      seq,
      at: (BEGIN_S + 5 * seq) * 1000,
      pools: { agg: pool },
    } as unknown as PlannerEventOf<'model.rollup'>;
    return { signal, sentAtS: BEGIN_S + 5 * seq };
  }

  it.each(['rate', 'sla', 'latency'])('of 1,000 workers has at most 64 KiB, with the law %s', (law) => {
    const planner = plannerOf({
      law,
      enable_load_scaling: law === 'sla',
      max_gpu_budget: 20_000,
      rate_requests_per_second: undefined,
    });
    let state = startModel(BEGIN_S);
    for (let seq = 0; seq < 80; seq++) {
      const signals = [folded(1000, seq), ...(seq % 3 === 0 ? [heldAt(5 * seq + 1, seq)] : [])];
      ({ state } = decide(unpackState(packState(state)), signals, { planner }));
    }
    const bytes = Buffer.byteLength(packState(state));
    expect(bytes).toBeLessThanOrEqual(64 * 1024);
    expect(state.ready.decode).toBe(1000);
  });

  it('of 20,000 workers fits, has each of them once, and knows who of them leaves', () => {
    const planner = plannerOf({ max_gpu_budget: -1, rate_requests_per_second: 10 });
    let state = startModel(BEGIN_S);
    const batch = (...signals: SentSignal[]): void => {
      ({ state } = decide(unpackState(packState(state)), signals, { planner }));
    };
    batch(folded(20_000, 0));
    expect(state.ready.decode).toBe(20_000);
    const { signal, sentAtS } = folded(20_000, 0);
    const id = signal.type === 'model.rollup' ? signal.pools.agg?.workers?.[4711] : undefined;
    const left = changeAt('worker.gone', 1, 0, 0);
    batch({ signal: { ...left.signal, worker_id: id } as SentSignal['signal'], sentAtS: sentAtS + 1 });
    expect(state.ready.decode).toBe(19_999);
    batch(...Array.from({ length: 100 }, (_, stranger) => changeAt('worker.gone', 2, stranger, 0)));
    expect(state.ready.decode).toBe(19_999);
    expect(Buffer.byteLength(packState(state))).toBeLessThan(STATE_BYTES_MAX);
  });

  it('of an older release is read without the failures that it kept', () => {
    const failures = [{ code: 'InsufficientInstanceCapacity', pool: 'decode', atS: BEGIN_S }];
    const state = startModel(BEGIN_S);
    expect(unpackState(JSON.stringify({ ...JSON.parse(packState(state)), failures }))).toEqual(state);
  });

  it('that was kept with the ids of its workers is read as before', () => {
    const planner = plannerOf();
    const { state } = decide(startModel(BEGIN_S), [folded(3, 0)], { planner });
    const { keys, ...pool } = state.folded.decode!;
    const { signal } = folded(3, 0);
    const ids = signal.type === 'model.rollup' ? signal.pools.agg?.workers : [];
    const before = { ...JSON.parse(packState(state)), folded: { decode: { ...pool, ids } } };
    expect(unpackState(JSON.stringify(before)).folded.decode).toEqual({ ...pool, keys });
    expect(keys).toHaveLength(3);
  });

  it('of as many workers as may tell of themselves has at most 64 KiB; more are counted and left out', () => {
    const planner = plannerOf({ max_gpu_budget: -1 });
    let state = startModel(BEGIN_S);
    let surplus = 0;
    for (let round = 0; round < 5; round++) {
      const signals = Array.from({ length: DIRECT_WORKERS_MAX + 3 }, (_, worker) => ({
        signal: rollupOf(
          worker,
          round,
          { ...NO_TRAFFIC, started: 1e6 + round, isl_sum: 123_456_789 },
          1_800_000_000_000,
        ),
        sentAtS: BEGIN_S + 5 * round,
      }));
      const decided = decide(unpackState(packState(state)), signals, { planner });
      state = decided.state;
      surplus = decided.report.surplus;
    }
    expect(surplus).toBe(3);
    expect(Buffer.byteLength(packState(state))).toBeLessThanOrEqual(64 * 1024);
  });

  it('comes back as it was, and refuses another version by name', () => {
    const { state } = decide(startModel(BEGIN_S), tellStory(60, STEP), { planner: plannerOf() });
    expect(packState(unpackState(packState(state)))).toBe(packState(state));
    expect(() => unpackState(JSON.stringify({ ...state, v: 2 }))).toThrow(/of version 2; known: 1/);
  });
});
