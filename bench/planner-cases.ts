import type { FleetCase, WorkloadName } from './planner-fleet.ts';

const MEASURED = { rate_requests_per_second: 15 };
const BOTH = { law: 'sla', enable_load_scaling: true, enable_throughput_scaling: true };
/** Which passes are remembered of equally rare ones, and which of two idle workers is chosen, decides much of `sla`. */
const SLA_SEED = 2;

/** Dynamo's own laws, with what can be set of them swept. */
export const DYNAMO: readonly FleetCase[] = [
  { name: 'throughput', settings: { law: 'throughput' } },
  { name: 'latency', settings: { law: 'latency' } },
  ...[5, 10, 15, 20, 30, 50].map((up) => ({
    name: `load, up ${up} %`,
    settings: { law: 'load', decode_scale_up_kv_rate: up, decode_scale_down_kv_rate: up / 4 },
  })),
  {
    name: 'sla, load loop',
    settings: { law: 'sla', enable_load_scaling: true, enable_throughput_scaling: false },
    seed: SLA_SEED,
  },
  ...[30, 60, 180].flatMap((seconds) =>
    ['constant', 'kalman'].map((predictor) => ({
      name: `sla, throughput loop, ${predictor}, ${seconds} s`,
      settings: { law: 'sla', load_predictor: predictor, throughput_adjustment_interval_seconds: seconds },
      seed: SLA_SEED,
    })),
  ),
  ...['constant', 'kalman'].map((predictor) => ({
    name: `sla, both loops, ${predictor}`,
    settings: { ...BOTH, load_predictor: predictor },
    seed: SLA_SEED,
  })),
];

/** Settings that save cost: they expect no bursts. */
const SAVING = { ...MEASURED, rate_deviations: 0, rate_surge_worth: 0 };
const ECONOMY = { ...SAVING, rate_target_load: 1.15, rate_window_seconds: 30, rate_down_window_seconds: 60 };
/** Nothing in reserve, and nothing kept for longer than half a minute. */
const TIGHT = { ...MEASURED, rate_target_load: 1, rate_deviations: 0, rate_down_window_seconds: 30 };
/** Grows only for what has lasted longer than a start; with less than 1 there is a reserve, always. */
const PATIENT = {
  ...SAVING,
  rate_target_load: 1,
  rate_window_seconds: 120,
  rate_down_window_seconds: 60,
  rate_up_window_seconds: 240,
};
/** As many requests as workers bear, a little later. */
const FRUGAL = {
  ...SAVING,
  rate_target_load: 1.2,
  rate_window_seconds: 30,
  rate_down_window_seconds: 180,
  rate_up_window_seconds: 120,
};
/** Runs after no jump, and has what bursts were seen to need when they are due. */
const EXPECTANT = { ...TIGHT, rate_up_window_seconds: 240 };
const FOUR_AT_MOST = { max_gpu_budget: 4 };

/** The law that ships, with its settings. */
export const RATE: readonly FleetCase[] = [
  { name: 'rate', settings: MEASURED },
  { name: 'rate, planned with 0.7', settings: { ...MEASURED, rate_target_load: 0.7 } },
  { name: 'rate, planned with 0.95', settings: { ...MEASURED, rate_target_load: 0.95 } },
  { name: 'rate, without memory', settings: { ...MEASURED, rate_surge_worth: 0 } },
  { name: 'rate, tight', settings: TIGHT },
  { name: 'rate, patient', settings: PATIENT },
  ...[1.2, 0.7, 0.5, 0.4, 0.3].map((load) => ({
    name: `rate, patient, planned with ${load}`,
    settings: { ...PATIENT, rate_target_load: load },
  })),
  ...[1.3, 1.2, 1, 0.7, 0.5].flatMap((load) =>
    [900, 0].map((seconds) => ({
      name: `rate, expectant with ${load}, kept for ${seconds} s`,
      settings: { ...EXPECTANT, rate_target_load: load, rate_surge_hold_seconds: seconds },
    })),
  ),
  ...[2, 1.5].flatMap((worth) =>
    [900, 0].map((seconds) => ({
      name: `rate, expectant, worth ${worth}, kept for ${seconds} s`,
      settings: { ...EXPECTANT, rate_surge_worth: worth, rate_surge_hold_seconds: seconds },
    })),
  ),
  {
    name: 'rate, expectant with 1.2, worth 1.5, kept for 0 s',
    settings: { ...EXPECTANT, rate_target_load: 1.2, rate_surge_worth: 1.5, rate_surge_hold_seconds: 0 },
  },
  { name: 'rate, economy', settings: ECONOMY },
  { name: 'rate, economy, 4 GPUs', settings: { ...ECONOMY, ...FOUR_AT_MOST } },
  { name: 'rate, frugal', settings: FRUGAL },
  { name: 'rate, frugal, 4 GPUs', settings: { ...FRUGAL, ...FOUR_AT_MOST, rate_down_window_seconds: 30 } },
];

/** The same with what a fleet meets. */
export const FATES: readonly FleetCase[] = [
  { name: 'rate, 4 spares in 45 s', settings: MEASURED, fleet: { warmWorkers: 4, warmStartMs: 45_000 } },
  { name: 'rate, 1 start in 5 fails', settings: MEASURED, fleet: { startFailures: 0.2 } },
  { name: 'rate, spot: a notice in 2 h', settings: MEASURED, fleet: { interruptionsPerHour: 0.5 } },
  {
    name: 'rate, spot, planned with 0.7',
    settings: { ...MEASURED, rate_target_load: 0.7 },
    fleet: { interruptionsPerHour: 0.5 },
  },
];

export const FORESIGHT: FleetCase = { name: 'foresight' };

const SLEEPS = { min_endpoint: 0, idle_to_zero_seconds: 300 };

/** A quarter of an hour of requests, half an hour of none, and again. */
export const NIGHT: readonly FleetCase[] = [
  { name: 'rate, one stays', settings: MEASURED },
  { name: 'rate, to zero', settings: { ...MEASURED, ...SLEEPS } },
  {
    name: 'rate, to zero, a spare in 45 s',
    settings: { ...MEASURED, ...SLEEPS },
    fleet: { warmWorkers: 1, warmStartMs: 45_000, plannedStartMs: 45_000 },
  },
  { name: 'latency, one stays', settings: { law: 'latency' } },
];

const TWO_POOLS = { rate_prefill_requests_per_second: 22, rate_decode_requests_per_second: 40 };

/** Prompts computed apart, on the wave. */
export const APART: readonly FleetCase[] = [
  { name: 'rate', settings: TWO_POOLS },
  { name: 'throughput', settings: { law: 'throughput' } },
  { name: 'latency', settings: { law: 'latency' } },
  { name: 'sla, load loop', settings: { law: 'sla', enable_load_scaling: true, enable_throughput_scaling: false } },
  { name: 'sla, both loops, constant', settings: { ...BOTH, load_predictor: 'constant' } },
];

/**
 * Attainment and GPU hours of Dynamo 1.6.1's planner in its own replay of the same requests; of `sla` one draw each.
 */
export const REPLAYED: Readonly<Partial<Record<WorkloadName, Readonly<Record<string, readonly [number, number]>>>>> = {
  step: {
    throughput: [0.234, 1.98],
    latency: [0.406, 2.11],
    'sla, load loop': [0.357, 2.22],
    'sla, throughput loop, kalman, 180 s': [0.545, 2.8],
    'sla, both loops, constant': [0.511, 2.58],
    foresight: [1, 2.55],
  },
  diurnal: {
    latency: [0.863, 3.06],
    'sla, throughput loop, kalman, 180 s': [0.844, 3.0],
    'sla, both loops, constant': [0.761, 3.04],
    foresight: [1, 3.28],
  },
  burst: { latency: [0.528, 2.14], 'sla, both loops, constant': [0.554, 2.25] },
};
