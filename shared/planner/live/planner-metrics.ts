import type { PlannerEventOf } from '../../protocol/index.ts';
import type { MetricRegistry } from '../../telemetry/index.ts';
import type { PlannerConfig } from '../config.ts';
import type { BatchOutcome } from '../decide/handle-batch.ts';
import type { DecisionRecord } from '../store/types.ts';
import type { Pool, Targets } from '../types.ts';
import type { Observed } from './connector.ts';
import { poolGauges } from './pool-gauges.ts';
import { decisionGauges, tickGauges } from './tick-gauges.ts';

/** Metrics of a planner, under Dynamo's names. Nothing here throws or waits. */
export interface PlannerMetrics {
  heard(type: string, wallMs: number): void;
  /** Counts an event that the planner cannot read. */
  refused(): void;
  /** Counts a tick while no worker or frontend is heard. */
  unheard(): void;
  /** Notes that a tick begins `lagSeconds` after it was due. */
  begins(lagSeconds: number, wallMs: number): void;
  /** Notes the fleet as its environment lists it. */
  observed(fleet: Observed): void;
  ticked(outcome: BatchOutcome, seconds: number): void;
  /** Counts a failed tick. `isLate`: it took too long. */
  failed(isLate: boolean): void;
  /**
   * Shows how many workers each pool of the model should have.
   * @param targets numbers of the newest decision; undefined = there is none yet
   */
  wants(model: string, targets: Targets | undefined): void;
  /** Notes the outcome of a decision. */
  acted(decision: DecisionRecord, wallMs: number): void;
  /** Shows the present work of a worker's ranks, as the worker reports it. */
  worker(rollup: PlannerEventOf<'worker.rollup'>): void;
  /** It has left. */
  gone(workerId: string): void;
}

const EVENT_TYPES = ['worker.rollup', 'model.rollup', 'request.held'] as const;
/** As Dynamo has them. */
const TICK_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30];
/** Bounds of the histogram, up to the time after which a decision is given up. */
const APPLY_SECONDS = [1, 5, 15, 30, 60, 120, 300, 600, 1800];

/** Returns the metrics of a planner. @param namespace where its fleet is */
export function createPlannerMetrics(
  registry: MetricRegistry,
  config: PlannerConfig,
  gpusOf: (pool: Pool) => number,
  namespace: string,
): PlannerMetrics {
  const showTick = tickGauges(registry, config);
  const engines = engineGauges(registry);
  const showDecision = decisionGauges(registry, config, gpusOf);
  const pools = poolGauges(registry, config, namespace);
  const passing = timeliness(registry);
  const counter = (name: string, help: string) => registry.counter(`stator_planner_${name}_total`, help).with();
  const held = registry.gauge('stator_planner_held_requests', 'Requests that wait for a worker.').with();
  const capacity = registry
    .gauge('stator_planner_capacity_seconds', 'Seconds from the order of a machine until it exists: 90th percentile.')
    .with();
  const decisions = counter('decisions', 'Decisions.');
  const refused = counter('refused_events', 'Events that the planner cannot read.');
  const late = counter('late_events', 'Roll-ups that came too late.');
  const conflicts = counter('conflicts', 'Writes for which another planner was faster.');
  const events = registry.counter('stator_planner_events_total', 'Events that were heard.', 'type');
  for (const type of EVENT_TYPES) events.with(type);
  return {
    begins: passing.begins,
    failed: passing.failed,
    acted: passing.acted,
    wants: pools.wants,
    unheard: passing.unheard,
    heard: (type, wallMs) => {
      events.with(type).add();
      passing.heard(wallMs);
    },
    observed({ capacitySeconds }) {
      if (capacitySeconds !== undefined) capacity.set(capacitySeconds);
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
      held.set(tick.held);
      pools.ticked(tick);
      showTick(tick);
      showDecision(tick);
    },
  };
}

/** Creates the metrics that say whether it ticks in time, and whether its decisions are carried out. */
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
    .histogram(
      'stator_planner_decision_applied_seconds',
      'Seconds from a decision until the fleet matches it.',
      APPLY_SECONDS,
    )
    .with();
  const lost = registry.counter(
    'stator_planner_unapplied_decisions_total',
    'Decisions that were not carried out.',
    'status',
  );
  const unapplied = {
    TIMED_OUT: lost.with('timed_out'),
    STALLED: lost.with('stalled'),
    REJECTED_BUDGET: lost.with('rejected_budget'),
  };
  const stalled = gauge('stator_planner_stalled', '1 while capacity is missing and every option has failed.');
  const again = counter(
    'stator_planner_reapplied_decisions_total',
    'Times that a decision was applied again, because the fleet had become something else.',
  );
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
    acted: ({ status, decidedAtMs, reapplied }: DecisionRecord, wallMs: number): void => {
      stalled.set(status === 'STALLED' ? 1 : 0);
      if (status === 'APPLIED' && reapplied === undefined) applied.observe((wallMs - decidedAtMs) / 1000);
      if (status === 'APPLYING' && reapplied !== undefined) again.add();
      if (status === 'TIMED_OUT' || status === 'STALLED' || status === 'REJECTED_BUDGET') unapplied[status].add();
    },
  };
}

/** Workers whose ranks have series of their own. */
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
