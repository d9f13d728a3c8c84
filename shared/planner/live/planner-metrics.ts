import type { PlannerEventOf } from '../../protocol/index.ts';
import type { MetricRegistry } from '../../telemetry/index.ts';
import type { PlannerConfig } from '../config.ts';
import type { BatchOutcome } from '../host/handle-batch.ts';
import type { LawTick } from '../host/tick-law.ts';
import { poolsOf } from '../laws/pools.ts';
import { wattsOf } from '../loops.ts';
import type { DecisionRecord } from '../store/types.ts';
import { LOAD_REASONS, type Pool, THROUGHPUT_REASONS } from '../types.ts';

/** What a planner shows of itself, under Dynamo's names. Nothing here throws or waits. */
export interface PlannerMetrics {
  heard(type: string, wallMs: number): void;
  /** An event that nobody can read. */
  refused(): void;
  /** A tick begins while nobody is heard. */
  unheard(): void;
  /** A tick begins, so many seconds after it was due. */
  begins(lagSeconds: number, wallMs: number): void;
  ticked(outcome: BatchOutcome, seconds: number): void;
  /** A tick that came to nothing; `isLate`: as it took too long. */
  failed(isLate: boolean): void;
  /** What has become of a decision. */
  acted(decision: DecisionRecord, wallMs: number): void;
  /** What the ranks of a worker do now, as it says. */
  worker(rollup: PlannerEventOf<'worker.rollup'>): void;
  /** It has left. */
  gone(workerId: string): void;
}

const EVENT_TYPES = ['worker.rollup', 'model.rollup', 'request.held'] as const;
/** As Dynamo has them. */
const TICK_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30];
/** Up to the time after which a decision is given up. */
const APPLY_SECONDS = [1, 5, 15, 30, 60, 120, 300, 600, 1800];

export function createPlannerMetrics(
  registry: MetricRegistry,
  config: PlannerConfig,
  gpusOf: (pool: Pool) => number,
): PlannerMetrics {
  const gauge = (name: string, help: string) => registry.gauge(`dynamo_planner_${name}`, help).with();
  const replicas = (pool: Pool) => ({
    now: gauge(`num_${pool}_replicas`, `Workers of the ${pool} pool that serve.`),
    wanted: gauge(`predicted_num_${pool}_replicas`, `Workers that the ${pool} pool is to have.`),
    capacity: gauge(`engine_${pool}_capacity_requests_per_second`, `What a worker of the ${pool} pool serves.`),
  });
  const pools = { prefill: replicas('prefill'), decode: replicas('decode') };
  const observed = {
    ttft: gauge('observed_ttft_ms', 'Mean time to the first token at the workers.'),
    itl: gauge('observed_itl_ms', 'Mean time between two tokens.'),
    rate: gauge('observed_requests_per_second', 'Requests that begin.'),
    duration: gauge('observed_request_duration_seconds', 'Mean time of a request at its worker.'),
    isl: gauge('observed_input_sequence_tokens', 'Mean length of prompts.'),
    osl: gauge('observed_output_sequence_tokens', 'Mean length of answers.'),
  };
  const predicted = {
    rate: gauge('predicted_requests_per_second', 'Requests that are expected to begin.'),
    isl: gauge('predicted_input_sequence_tokens', 'Expected length of prompts.'),
    osl: gauge('predicted_output_sequence_tokens', 'Expected length of answers.'),
  };
  const estimated = {
    ttft: gauge('estimated_ttft_ms', 'Time to the first token that is expected of the slowest engine.'),
    itl: gauge('estimated_itl_ms', 'Time between two tokens that is expected of the slowest engine.'),
  };
  const showPower = powerGauges(registry, config);
  const engines = engineGauges(registry);
  gauge('sla_target_ttft_ms', 'What requests are to hold.').set(config.ttftMs);
  gauge('sla_target_itl_ms', 'What requests are to hold.').set(config.itlMs);
  const gpuHours = gauge('gpu_hours', 'GPU hours since the planner began.');
  const load = registry.gauge(
    'dynamo_planner_load_scaling_decision',
    '1 at what the load loop decided last.',
    'decision',
  );
  const throughput = registry.gauge(
    'dynamo_planner_throughput_scaling_decision',
    '1 at what the throughput loop decided last.',
    'decision',
  );
  for (const reason in LOAD_REASONS) load.with(reason).set(0);
  for (const reason in THROUGHPUT_REASONS) throughput.with(reason).set(0);
  const passing = timeliness(registry);
  const held = registry.gauge('stator_planner_held_requests', 'Requests that wait for a worker.').with();
  const decisions = registry.counter('stator_planner_decisions_total', 'Decisions.').with();
  const refused = registry.counter('stator_planner_refused_events_total', 'Events that nobody can read.').with();
  const late = registry.counter('stator_planner_late_events_total', 'Roll-ups that came too late.').with();
  const conflicts = registry
    .counter('stator_planner_conflicts_total', 'Writes that another planner forestalled.')
    .with();
  const events = registry.counter('stator_planner_events_total', 'Events that were heard.', 'type');
  for (const type of EVENT_TYPES) events.with(type);
  let gpuSeconds = 0;
  let tickedAtS: number | undefined;
  return {
    begins: passing.begins,
    failed: passing.failed,
    acted: passing.acted,
    unheard: passing.unheard,
    heard: (type, wallMs) => {
      events.with(type).add();
      passing.heard(wallMs);
    },
    refused: () => refused.add(),
    worker: engines.worker,
    gone: engines.gone,
    ticked({ tick, report, record, conflicts: lost }, tookSeconds) {
      passing.took(tookSeconds);
      conflicts.add(lost);
      late.add(report.late);
      if (record !== undefined) decisions.add();
      if (tick === undefined) return;
      const seconds = tick.atS - (tickedAtS ?? tick.atS - tick.seconds); // of several ticks in a batch the last one is shown
      tickedAtS = tick.atS;
      for (const [name, series] of Object.entries(pools) as [Pool, (typeof pools)[Pool]][]) {
        const { ready = 0, starting = 0 } = tick.counts[name] ?? {};
        series.now.set(ready);
        series.wanted.set(tick.effect.targets?.[name] ?? ready + starting);
        const { rate, loops } = tick.effect;
        setKnown(series.capacity, rate?.pools[name]?.perEngine ?? loops?.throughput?.capacities[name]);
        gpuSeconds += (ready + starting) * gpusOf(name) * seconds;
      }
      gpuHours.set(gpuSeconds / 3600);
      held.set(tick.held);
      if (tick.started !== undefined) observed.rate.set(tick.started / Math.max(tick.seconds, 1e-3));
      setKnown(observed.ttft, tick.ttftMs);
      setKnown(observed.itl, tick.itlMs);
      setKnown(observed.duration, tick.requestSeconds);
      setKnown(observed.isl, tick.isl);
      setKnown(observed.osl, tick.osl);
      const { rate, loops } = tick.effect;
      const intervalS = config.throughputAdjustmentIntervalSeconds;
      setKnown(estimated.ttft, loops?.load?.estimatedTtftMs);
      setKnown(estimated.itl, loops?.load?.estimatedItlMs);
      showPower(tick);
      const forecast = rate?.pools.decode?.forecast ?? rate?.pools.prefill?.forecast;
      setKnown(predicted.rate, forecast ?? (loops?.demand && loops.demand.requests / intervalS));
      setKnown(predicted.isl, loops?.demand?.isl);
      setKnown(predicted.osl, loops?.demand?.osl);
      if (loops?.load !== undefined)
        for (const each in LOAD_REASONS) load.with(each).set(each === loops.load.reason ? 1 : 0);
      if (loops?.throughput !== undefined) {
        for (const each in THROUGHPUT_REASONS) throughput.with(each).set(each === loops.throughput.reason ? 1 : 0);
      }
    },
  };
}

/** Whether it ticks and decides in time, and whether what it decides comes about. */
function timeliness(registry: MetricRegistry) {
  const duration = registry
    .histogram('dynamo_planner_tick_duration_seconds', 'How long ticks took.', TICK_SECONDS)
    .with();
  const gauge = (name: string, help: string) => registry.gauge(name, help).with();
  const counter = (name: string, help: string) => registry.counter(name, help).with();
  const lag = gauge('dynamo_planner_tick_lag_seconds', 'Seconds that the last tick began after it was due.');
  const age = gauge('stator_planner_event_age_seconds', 'Time since the newest event, as the last tick began.');
  const failures = counter('stator_planner_failed_looks_total', 'Ticks that failed.');
  const unheard = counter('stator_planner_unheard_looks_total', 'Ticks while no worker or frontend was heard.');
  const timeouts = counter('dynamo_planner_tick_timeout_total', 'Ticks that failed because they took too long.');
  const applied = registry
    .histogram('stator_planner_decision_applied_seconds', 'From decisions until the fleet was so.', APPLY_SECONDS)
    .with();
  const lost = registry.counter(
    'stator_planner_unapplied_decisions_total',
    'Decisions that were not carried out.',
    'status',
  );
  const unapplied = { TIMED_OUT: lost.with('timed_out'), REJECTED_BUDGET: lost.with('rejected_budget') };
  let heardAtMs: number | undefined;
  return {
    heard: (wallMs: number): void => {
      heardAtMs = wallMs;
    },
    begins: (lagSeconds: number, wallMs: number): void => {
      lag.set(lagSeconds);
      if (heardAtMs !== undefined) age.set((wallMs - heardAtMs) / 1000);
    },
    unheard: (): void => unheard.add(),
    took: (seconds: number): void => duration.observe(seconds),
    failed: (isLate: boolean): void => {
      failures.add();
      if (isLate) timeouts.add();
    },
    acted: ({ status, decidedAtMs }: DecisionRecord, wallMs: number): void => {
      if (status === 'APPLIED') applied.observe((wallMs - decidedAtMs) / 1000);
      else if (status === 'TIMED_OUT' || status === 'REJECTED_BUDGET') unapplied[status].add();
    },
  };
}

/** Only where power counts, and somebody says what a worker draws. */
function powerGauges(registry: MetricRegistry, config: PlannerConfig): (tick: LawTick) => void {
  const { enablePowerAwareness: isOn, totalGpuPowerLimit: wattsMax } = config;
  const watts = { prefill: wattsOf('prefill', config, {}), decode: wattsOf('decode', config, {}) };
  if (!isOn || wattsMax == null || poolsOf(config).some((pool) => watts[pool] === undefined)) return () => {};
  const gauge = (name: string, help: string) => registry.gauge(`dynamo_planner_power_${name}`, help).with();
  gauge('budget_total_watts', 'Watts that all workers together may draw.').set(wattsMax);
  const projected = gauge('projected_watts', 'Watts of the workers that are decided.');
  const share = gauge('budget_utilization', 'Share of the budget that those are.');
  return ({ effect, counts }) => {
    const total = poolsOf(config).reduce((sum, pool) => {
      const { ready, starting } = counts[pool] ?? { ready: 0, starting: 0 };
      return sum + (effect.targets?.[pool] ?? ready + starting) * (watts[pool] ?? 0);
    }, 0);
    projected.set(total);
    share.set(total / wattsMax);
  };
}

/** Workers whose ranks are shown one by one. */
const WORKERS_MAX = 256;

function engineGauges(registry: MetricRegistry): Pick<PlannerMetrics, 'worker' | 'gone'> {
  const labels = ['worker_id', 'dp_rank'];
  const gauge = (name: string, help: string) => registry.gauge(`dynamo_planner_engine_${name}`, help, ...labels);
  const shown = [
    [gauge('queued_prefill_tokens', 'Prompt tokens that wait at an engine.'), QUEUED_PREFILL_TOKENS],
    [gauge('queued_decode_kv_tokens', 'Context of requests that an engine has put off.'), QUEUED_DECODE_KV_TOKENS],
    [gauge('inflight_decode_kv_tokens', 'Context of requests that an engine decodes.'), DECODE_KV_TOKENS],
  ] as const;
  const known = new Set<string>();
  return {
    worker: ({ worker_id: id, ranks }) => {
      if (!known.has(id) && known.size >= WORKERS_MAX) return;
      known.add(id);
      for (const { dp_rank, last } of ranks) {
        for (const [series, at] of shown) if (last !== undefined) series.with(id, String(dp_rank)).set(last[at]);
      }
    },
    gone: (id) => {
      known.delete(id);
      for (const [series] of shown) series.removeWhere('worker_id', id);
    },
  };
}

/** Places in the row of a pass. */
const DECODE_KV_TOKENS = 5;
const QUEUED_PREFILL_TOKENS = 7;
const QUEUED_DECODE_KV_TOKENS = 9;

function setKnown(series: { set(value: number): void }, value: number | undefined): void {
  if (value !== undefined) series.set(value);
}
