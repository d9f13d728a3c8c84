import { afterEach, describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import type { SentSignal } from '../../../../shared/planner/decide/apply-signal.ts';
import type { BatchOutcome } from '../../../../shared/planner/decide/handle-batch.ts';
import { handleSignals } from '../../../../shared/planner/decide/handle-batch.ts';
import { createPlannerMetrics, type FleetPlanner } from '../../../../shared/planner/index.ts';
import { MemoryPlannerStore } from '../../../../shared/planner/store/memory-store.ts';
import { THROUGHPUT_REASONS } from '../../../../shared/planner/types.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';
import { MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { lintMetrics } from '../../../support/lint-metrics.ts';
import { type FleetPlannerBedOptions, fleetPlannerBed } from '../../../support/planner/fleet-planner-bed.ts';
import { BEGIN_S, heldAt, rollupOf, tellStory } from '../../../support/planner/fleet-signals.ts';

const NEVER = new AbortController().signal;

/** A planner that is told `signals` in batches of ten, and what it shows afterwards. */
async function shown(signals: readonly SentSignal[], raw: Readonly<Record<string, unknown>> = {}) {
  const config = parsePlannerConfig({ mode: 'agg', rate_requests_per_second: 10, max_gpu_budget: 32, ...raw });
  const registry = new MetricRegistry();
  const metrics = createPlannerMetrics(registry, config, () => 2, 'ns');
  const planner = { config, engines: { prefill: { gpus: 2 }, decode: { gpus: 2 } } };
  const store = new MemoryPlannerStore();
  let outcome: BatchOutcome | undefined;
  for (let at = 0; at < signals.length; at += 10) {
    const batch = signals.slice(at, at + 10);
    for (const { signal } of batch) {
      metrics.heard(signal.type, 0);
      if (signal.type === 'worker.rollup') metrics.worker(signal);
    }
    outcome = await handleSignals(batch, { store, group: 'g', planner }, NEVER);
    metrics.ticked(outcome, 0.002);
  }
  const [decision] = await store.decisions('g', { sinceMs: 0 }, NEVER);
  const text = await registry.render();
  const value = (line: string): number => {
    const found = text.split('\n').find((each) => each.startsWith(`${line} `));
    if (found === undefined) throw new Error(`no ${line} in\n${text}`);
    return Number(found.slice(line.length + 1));
  };
  return { text, value, decision, metrics, registry, outcome: outcome as BatchOutcome };
}

describe('what a planner shows of itself', () => {
  it('follows what it sees and decides, under the names of Dynamo', async () => {
    const { value, decision } = await shown(tellStory(60, { rate: () => 30, workers: () => 2 }), { advisory: true });
    expect(value('dynamo_planner_num_decode_replicas')).toBe(2);
    expect(value('dynamo_planner_predicted_num_decode_replicas')).toBe(decision?.targets.decode);
    expect(value('dynamo_planner_observed_requests_per_second')).toBeCloseTo(30, 0);
    expect(value('dynamo_planner_predicted_requests_per_second')).toBeGreaterThan(25);
    expect(value('dynamo_planner_engine_decode_capacity_requests_per_second')).toBe(10);
    expect(value('dynamo_planner_observed_itl_ms')).toBeCloseTo(20, 6);
    expect(value('dynamo_planner_observed_ttft_ms')).toBeCloseTo(200, 6);
    expect(value('dynamo_planner_observed_input_sequence_tokens')).toBe(1000);
    expect(value('dynamo_planner_observed_output_sequence_tokens')).toBe(100);
    expect(value('dynamo_planner_sla_target_itl_ms')).toBe(50);
    // Two workers of two GPUs, and what was decided after the first tick, for most of a minute.
    expect(value('dynamo_planner_gpu_hours')).toBeGreaterThan((2 * 2 * 40) / 3600);
    expect(value('stator_planner_decisions_total')).toBeGreaterThan(0);
    expect(value('stator_planner_events_total{type="worker.rollup"}')).toBe(26);
  });

  it('has the requests that wait, and the events that came too late', async () => {
    const signals = [...tellStory(20, { rate: () => 5, workers: () => 1 }), heldAt(21, 0, 7)];
    const { value } = await shown(signals);
    expect(value('stator_planner_held_requests')).toBe(7);
    const late = { signal: rollupOf(5, 0, NO_TRAFFIC, 1000 * BEGIN_S), sentAtS: BEGIN_S };
    const again = await shown([...signals, late]);
    expect(again.value('stator_planner_late_events_total')).toBe(1);
  });

  it('says which reason the loops gave last, and no other', async () => {
    const { text } = await shown(tellStory(60, { rate: () => 30, workers: () => 2 }), { law: 'throughput' });
    const ones = text.split('\n').filter((line) => /_scaling_decision\{.*\} 1$/.test(line));
    expect(ones).toHaveLength(1);
    expect(ones[0]).toMatch(/^dynamo_planner_load_scaling_decision\{decision="\w+"\} 1$/);
  });

  it('has both pools, what the loops expect of them, and what others forestalled', async () => {
    const { metrics, registry, value, outcome } = await shown(tellStory(20, { rate: () => 5, workers: () => 1 }));
    const { tick } = outcome;
    if (tick === undefined) throw new Error('there was no tick');
    const reason = Object.keys(THROUGHPUT_REASONS)[0] as keyof typeof THROUGHPUT_REASONS;
    const loops = {
      load: { reason: undefined, reasons: {}, estimatedTtftMs: 150, estimatedItlMs: 15 },
      throughput: { reason, reasons: {}, capacities: { prefill: 3, decode: 4 } },
      demand: { requests: 60, isl: 800, osl: 80 },
    };
    const counts = { prefill: { ready: 2, starting: 1 }, decode: { ready: 1, starting: 0 } };
    const effect = { ...tick.effect, targets: { prefill: 4, decode: 1 }, rate: undefined, loops };
    metrics.ticked({ ...outcome, conflicts: 3, tick: { ...tick, counts, effect } } as typeof outcome, 0.002);
    metrics.refused();
    const text = await registry.render();
    const now = (name: string): number => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
    expect(value('dynamo_planner_num_prefill_replicas')).toBe(0); // before
    expect(now('dynamo_planner_num_prefill_replicas')).toBe(2);
    expect(now('dynamo_planner_predicted_num_prefill_replicas')).toBe(4);
    expect(now('dynamo_planner_engine_prefill_capacity_requests_per_second')).toBe(3);
    expect(now('dynamo_planner_estimated_ttft_ms')).toBe(150);
    expect(now('dynamo_planner_estimated_itl_ms')).toBe(15);
    expect(now('dynamo_planner_predicted_input_sequence_tokens')).toBe(800);
    expect(now('dynamo_planner_predicted_output_sequence_tokens')).toBe(80);
    expect(text).toContain(`dynamo_planner_throughput_scaling_decision{decision="${reason}"} 1\n`);
    expect(now('stator_planner_conflicts_total')).toBe(3);
    expect(now('stator_planner_refused_events_total')).toBe(1);
  });

  it('has the power that is decided, where power counts', async () => {
    const config = {
      mode: 'decode',
      enable_power_awareness: true,
      total_gpu_power_limit: 10_000,
      decode_engine_watts: 700,
    };
    const { value, decision } = await shown(tellStory(60, { rate: () => 30, workers: () => 2 }), config);
    const target = decision?.targets.decode ?? 0;
    expect(target).toBeGreaterThan(2);
    expect(value('dynamo_planner_power_budget_total_watts')).toBe(10_000);
    expect(value('dynamo_planner_power_projected_watts')).toBe(700 * target);
    expect(value('dynamo_planner_power_budget_utilization')).toBeCloseTo(0.07 * target, 9);
    expect((await shown([])).text).not.toContain('_watts');
  });

  it('counts decisions that a budget has no room for, apart from those that ran out of time', async () => {
    const { metrics, registry, decision } = await shown(tellStory(60, { rate: () => 30, workers: () => 2 }));
    metrics.acted({ ...decision!, status: 'REJECTED_BUDGET' }, 0);
    const text = await registry.render();
    expect(text).toContain('stator_planner_unapplied_decisions_total{status="rejected_budget"} 1\n');
    expect(text).toContain('stator_planner_unapplied_decisions_total{status="timed_out"} 0\n');
  });

  it('says while capacity is missing, and how often a decision was applied again', async () => {
    const { metrics, registry, decision } = await shown(tellStory(60, { rate: () => 30, workers: () => 2 }));
    const value = async (name: string): Promise<string | undefined> =>
      new RegExp(`^${name} (.*)$`, 'm').exec(await registry.render())?.[1];
    metrics.acted({ ...decision!, status: 'STALLED' }, 0);
    expect(await value('stator_planner_stalled')).toBe('1');
    expect(await value('stator_planner_unapplied_decisions_total{status="stalled"}')).toBe('1');
    metrics.acted({ ...decision!, status: 'APPLIED' }, 0);
    expect(await value('stator_planner_stalled')).toBe('0');
    metrics.acted({ ...decision!, status: 'APPLYING', reapplied: 1 }, 0);
    metrics.acted({ ...decision!, status: 'APPLIED', reapplied: 1 }, 0);
    expect(await value('stator_planner_reapplied_decisions_total')).toBe('1');
    expect(await value('stator_planner_decision_applied_seconds_count')).toBe('1');
  });

  it('says how long machines take to exist, and keeps it while nothing is known', async () => {
    const { metrics, registry } = await shown([]);
    metrics.observed({ capacitySeconds: 41 });
    metrics.observed({});
    expect(await registry.render()).toContain('stator_planner_capacity_seconds 41\n');
  });

  it('has the load of each rank while its worker is there', async () => {
    const rollup = rollupOf(3, 0, NO_TRAFFIC, 1_800_000_000_000);
    const { metrics, registry } = await shown([]);
    const rank = { ...rollup.ranks[0]!, dp_rank: 1, last: [0.02, 1, 900, 0, 4, 5000, 2, 1700, 1, 300] };
    metrics.worker({ ...rollup, ranks: [rank as (typeof rollup.ranks)[0]] });
    const labels = `{worker_id="${rollup.worker_id}",dp_rank="1"}`;
    const text = await registry.render();
    expect(text).toContain(`dynamo_planner_engine_queued_prefill_tokens${labels} 1700`);
    expect(text).toContain(`dynamo_planner_engine_queued_decode_kv_tokens${labels} 300`);
    expect(text).toContain(`dynamo_planner_engine_inflight_decode_kv_tokens${labels} 5000`);
    metrics.gone(rollup.worker_id);
    expect(await registry.render()).not.toContain(rollup.worker_id);
  });

  it('is text that every reader of metrics takes', async () => {
    const story = tellStory(60, { rate: () => 30, workers: () => 2 });
    const config = { mode: 'disagg', enable_power_awareness: true, total_gpu_power_limit: 9000 };
    const watts = { prefill_engine_watts: 700, decode_engine_watts: 500 };
    const { text, registry } = await shown(story, { ...config, ...watts });
    // Dynamo's names have abbreviated units and hours, which stay as its dashboards read them.
    const byDynamo = /^dynamo_planner_(?:observed|estimated|sla_target)_(?:ttft|itl)_ms|^dynamo_planner_gpu_hours/;
    expect(lintMetrics(text).filter((finding) => !byDynamo.test(finding))).toEqual([]);
    expect(registry.contentType).toMatch(/^text\/plain/);
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
    await expect(text).toMatchFileSnapshot('../../../fixtures/telemetry/planner.prom');
  });
});

describe('what a planner shows of its own time', () => {
  const open: FleetPlanner[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((planner) => planner.close()));
  });

  function bedOf(parts: FleetPlannerBedOptions = {}) {
    const registry = new MetricRegistry();
    const config = parsePlannerConfig({ mode: 'agg', max_gpu_budget: 32 });
    const metrics = createPlannerMetrics(registry, config, () => 1, 'ns');
    const bed = fleetPlannerBed({ ...parts, metrics });
    open.push(bed.planner);
    const value = async (line: string): Promise<number | undefined> => {
      const found = (await registry.render()).split('\n').find((each) => each.startsWith(`${line} `));
      return found === undefined ? undefined : Number(found.slice(line.length + 1));
    };
    return { ...bed, value };
  }

  it('is how long ticks take, how late they begin, and how old the newest event is then', async () => {
    const { planner, pass, value } = bedOf({ config: { tick_seconds: 5 } });
    void planner.run();
    planner.hear(heldAt(0, 0).signal);
    await pass(100);
    expect(await value('dynamo_planner_tick_duration_seconds_count')).toBeGreaterThan(0);
    expect(await value('dynamo_planner_tick_lag_seconds')).toBe(0);
    for (let at = 0; at < 11; at++) await pass(1000);
    expect(await value('stator_planner_event_age_seconds')).toBeCloseTo(10, 6); // two ticks, and nothing heard since
    planner.hear(rollupOf(0, 0, NO_TRAFFIC, 1000 * BEGIN_S));
    for (let at = 0; at < 4; at++) await pass(1000);
    expect(await value('stator_planner_event_age_seconds')).toBeCloseTo(4, 0);
    expect(await value('dynamo_planner_tick_lag_seconds')).toBe(0);
  });

  it('counts ticks that took too long, and how late the next one began', async () => {
    let isStuck = true;
    const readTraffic = () => (isStuck ? new Promise<undefined>(() => {}) : Promise.resolve(undefined));
    const { planner, pass, value } = bedOf({ readTraffic, config: { tick_seconds: 5 } });
    planner.hear(rollupOf(0, 0, NO_TRAFFIC, 1000 * BEGIN_S));
    void planner.run();
    for (let at = 0; at < 12; at++) await pass(1000);
    expect(await value('dynamo_planner_tick_timeout_total')).toBe(1);
    expect(await value('stator_planner_failed_looks_total')).toBe(1);
    isStuck = false;
    for (let at = 0; at < 4; at++) await pass(1000);
    expect(await value('dynamo_planner_tick_lag_seconds')).toBeCloseTo(10, 6);
    expect(await value('dynamo_planner_tick_timeout_total')).toBe(1);
  });

  it('names the workers that a model should have, and has none while it needs none', async () => {
    const { planner, pass, workers, value } = bedOf({ model: 'm', config: { tick_seconds: 5, start_at_zero: true } });
    const pool = 'dynamo_namespace="ns",model="m",pool="decode"';
    const shown = async () => ({
      wanted: await value(`stator_planner_target_replicas{${pool}}`),
      ready: await value(`stator_planner_replicas{${pool},state="ready"}`),
      starting: await value(`stator_planner_replicas{${pool},state="starting"}`),
    });
    expect((await shown()).wanted).toBeUndefined(); // a scaler would take a 0 for a decision
    void planner.run();
    await pass(30_000);
    expect(await shown()).toEqual({ wanted: 0, ready: 0, starting: 0 });
    planner.hear(heldAt(0, 0).signal);
    await pass(5000);
    expect(await shown()).toEqual({ wanted: 1, ready: 0, starting: 0 });
    workers.starting = 1;
    await pass(20_000);
    expect(await shown()).toEqual({ wanted: 1, ready: 0, starting: 1 });
  });

  it('names what it would want if it only advises, and starts nothing', async () => {
    const config = { tick_seconds: 5, start_at_zero: true, advisory: true };
    const { planner, pass, scaled, value } = bedOf({ model: 'm', config });
    void planner.run();
    planner.hear(heldAt(0, 0).signal);
    await pass(5000);
    const line = 'stator_planner_target_replicas{dynamo_namespace="ns",model="m",pool="decode"}';
    expect(await value(line)).toBe(1);
    expect(scaled).toEqual([]);
  });

  it('names the workers that are there until something is decided', async () => {
    const { planner, pass, workers, value } = bedOf({ model: 'm', config: { tick_seconds: 5, min_endpoint: 3 } });
    Object.assign(workers, { ready: 2, starting: 1 });
    void planner.run();
    await pass(30_000);
    const line = 'stator_planner_target_replicas{dynamo_namespace="ns",model="m",pool="decode"}';
    expect(await value('stator_planner_decisions_total')).toBe(0);
    expect(await value(line)).toBe(3);
  });

  it('has how long decisions take to come about, and those that do not', async () => {
    const { planner, pass, workers, value } = bedOf({ config: { tick_seconds: 5 } });
    void planner.run();
    let told = 0;
    const wait = async (seconds: number): Promise<void> => {
      for (let at = 0; at < seconds; at += 5) {
        planner.hear(heldAt(0, told++).signal);
        await pass(5000);
      }
    };
    await wait(5);
    workers.starting = 1;
    await wait(25);
    expect(await value('stator_planner_decision_applied_seconds_count')).toBe(0);
    Object.assign(workers, { ready: 1, starting: 0 });
    await wait(5);
    expect(await value('stator_planner_decision_applied_seconds_count')).toBe(1);
    expect(await value('stator_planner_decision_applied_seconds_sum')).toBeCloseTo(30, 0);
    expect(await value('stator_planner_unapplied_decisions_total{status="timed_out"}')).toBe(0);
    workers.ready = 0; // it is lost,
    await wait(20);
    workers.starting = 1; // and the next one never comes
    await wait(1815);
    expect(await value('stator_planner_unapplied_decisions_total{status="timed_out"}')).toBe(1);
    expect(await value('stator_planner_decision_applied_seconds_count')).toBe(1);
  });
});
