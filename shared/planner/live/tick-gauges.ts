import type { MetricRegistry } from '../../telemetry/index.ts';
import type { PlannerConfig } from '../config.ts';
import type { LawTick } from '../decide/tick-law.ts';
import { poolsOf } from '../laws/pools.ts';
import { wattsOf } from '../loops.ts';
import { LOAD_REASONS, POOLS, type Pool, THROUGHPUT_REASONS } from '../types.ts';

/** Shows a part of what a tick tells. */
type Show = (tick: LawTick) => void;

interface Gauge {
  set(value: number): void;
}

/** Makes a gauge without labels. */
type NewGauge = (name: string, help: string) => Gauge;

/** Returns what shows a tick: what it saw and expected, under Dynamo's names. */
export function tickGauges(registry: MetricRegistry, config: PlannerConfig): Show {
  const gauge = gaugesOf(registry);
  return all(poolGauges(gauge), observedGauges(gauge), expectedGauges(gauge, config), powerGauges(registry, config));
}

/** Returns what shows the targets, what they cost, and what the loops of a tick decided. */
export function decisionGauges(registry: MetricRegistry, config: PlannerConfig, gpusOf: (pool: Pool) => number): Show {
  const gauge = gaugesOf(registry);
  gauge('sla_target_ttft_ms', 'Target of requests.').set(config.ttftMs);
  gauge('sla_target_itl_ms', 'Target of requests.').set(config.itlMs);
  return all(gpuHours(gauge, gpusOf), loopGauges(registry));
}

function gaugesOf(registry: MetricRegistry): NewGauge {
  return (name, help) => registry.gauge(`dynamo_planner_${name}`, help).with();
}

function all(...shows: readonly Show[]): Show {
  return (tick) => {
    for (const show of shows) show(tick);
  };
}

function poolGauges(gauge: NewGauge): Show {
  const pools = POOLS.map((pool) => ({
    pool,
    now: gauge(`num_${pool}_replicas`, `Workers of the ${pool} pool that serve.`),
    wanted: gauge(`predicted_num_${pool}_replicas`, `Workers wanted in the ${pool} pool.`),
    capacity: gauge(`engine_${pool}_capacity_requests_per_second`, `What a worker of the ${pool} pool serves.`),
  }));
  return ({ counts, effect: { targets, rate, loops } }) => {
    for (const { pool, now, wanted, capacity } of pools) {
      const { ready = 0, starting = 0 } = counts[pool] ?? {};
      now.set(ready);
      wanted.set(targets?.[pool] ?? ready + starting);
      setKnown(capacity, rate?.pools[pool]?.perEngine ?? loops?.throughput?.capacities[pool]);
    }
  };
}

function gpuHours(gauge: NewGauge, gpusOf: (pool: Pool) => number): Show {
  const hours = gauge('gpu_hours', 'GPU hours since the planner began.');
  let gpuSeconds = 0;
  let tickedAtS: number | undefined;
  return ({ atS, seconds, counts }) => {
    const passedS = atS - (tickedAtS ?? atS - seconds); // of several ticks in a batch only the last one is shown
    tickedAtS = atS;
    for (const pool of POOLS) {
      const { ready = 0, starting = 0 } = counts[pool] ?? {};
      gpuSeconds += (ready + starting) * gpusOf(pool) * passedS;
    }
    hours.set(gpuSeconds / 3600);
  };
}

function observedGauges(gauge: NewGauge): Show {
  const ttft = gauge('observed_ttft_ms', 'Mean time to the first token at the workers.');
  const itl = gauge('observed_itl_ms', 'Mean time between two tokens.');
  const rate = gauge('observed_requests_per_second', 'Requests that begin.');
  const duration = gauge('observed_request_duration_seconds', 'Mean time of a request at its worker.');
  const isl = gauge('observed_input_sequence_tokens', 'Mean length of prompts.');
  const osl = gauge('observed_output_sequence_tokens', 'Mean length of answers.');
  return (tick) => {
    if (tick.started !== undefined) rate.set(tick.started / Math.max(tick.seconds, 1e-3));
    setKnown(ttft, tick.ttftMs);
    setKnown(itl, tick.itlMs);
    setKnown(duration, tick.requestSeconds);
    setKnown(isl, tick.isl);
    setKnown(osl, tick.osl);
  };
}

function expectedGauges(gauge: NewGauge, config: PlannerConfig): Show {
  const requests = gauge('predicted_requests_per_second', 'Requests that are expected to begin.');
  const isl = gauge('predicted_input_sequence_tokens', 'Expected length of prompts.');
  const osl = gauge('predicted_output_sequence_tokens', 'Expected length of answers.');
  const ttft = gauge('estimated_ttft_ms', 'Expected time to the first token at the slowest engine.');
  const itl = gauge('estimated_itl_ms', 'Expected time between two tokens at the slowest engine.');
  const intervalS = config.throughputAdjustmentIntervalSeconds;
  return ({ effect: { rate, loops } }) => {
    const forecast = rate?.pools.decode?.forecast ?? rate?.pools.prefill?.forecast;
    setKnown(requests, forecast ?? (loops?.demand && loops.demand.requests / intervalS));
    setKnown(isl, loops?.demand?.isl);
    setKnown(osl, loops?.demand?.osl);
    setKnown(ttft, loops?.load?.estimatedTtftMs);
    setKnown(itl, loops?.load?.estimatedItlMs);
  };
}

function loopGauges(registry: MetricRegistry): Show {
  const decision = (loop: string) =>
    registry.gauge(`dynamo_planner_${loop}_scaling_decision`, `1 at what the ${loop} loop decided last.`, 'decision');
  const load = decision('load');
  const throughput = decision('throughput');
  for (const reason in LOAD_REASONS) load.with(reason).set(0);
  for (const reason in THROUGHPUT_REASONS) throughput.with(reason).set(0);
  return ({ effect: { loops } }) => {
    if (loops?.load !== undefined) {
      for (const each in LOAD_REASONS) load.with(each).set(each === loops.load.reason ? 1 : 0);
    }
    if (loops?.throughput !== undefined) {
      for (const each in THROUGHPUT_REASONS) throughput.with(each).set(each === loops.throughput.reason ? 1 : 0);
    }
  };
}

/** Creates the gauges of power, if power counts and the watts of a worker are known. */
function powerGauges(registry: MetricRegistry, config: PlannerConfig): (tick: LawTick) => void {
  const { enablePowerAwareness: isOn, totalGpuPowerLimit: wattsMax } = config;
  const watts = { prefill: wattsOf('prefill', config, {}), decode: wattsOf('decode', config, {}) };
  if (!isOn || wattsMax == null || poolsOf(config).some((pool) => watts[pool] === undefined)) return () => {};
  const gauge = (name: string, help: string) => registry.gauge(`dynamo_planner_power_${name}`, help).with();
  gauge('budget_total_watts', 'Watts that all workers together may draw.').set(wattsMax);
  const projected = gauge('projected_watts', 'Watts of the decided workers.');
  const share = gauge('budget_utilization', 'Share of the budget that they draw.');
  return ({ effect, counts }) => {
    const total = poolsOf(config).reduce((sum, pool) => {
      const { ready, starting } = counts[pool] ?? { ready: 0, starting: 0 };
      return sum + (effect.targets?.[pool] ?? ready + starting) * (watts[pool] ?? 0);
    }, 0);
    projected.set(total);
    share.set(total / wattsMax);
  };
}

function setKnown(gauge: Gauge, value: number | undefined): void {
  if (value !== undefined) gauge.set(value);
}
