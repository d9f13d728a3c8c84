import type { PoolRole } from '../../router/index.ts';
import type { Simulation } from '../simulate.ts';
import { meetsTargets } from '../summary.ts';

const CDF_POINTS = 201;
const TIME_BINS = 120;
const SCALING_BINS = 240;

/** A simulation as lines to draw. */
export interface Curves {
  /** TTFT at even shares of the requests, from the fastest to the slowest. */
  readonly ttftMs: readonly number[];
  readonly e2eMs: readonly number[];
  /** Width of an entry of the next three. */
  readonly binMs: number;
  /** Mean TTFT of the requests that arrived in each bin; null where none did. */
  readonly ttftByTimeMs: readonly (number | null)[];
  /** Requests under way at the end of each bin. */
  readonly underWay: readonly number[];
  /** Share of the prompt tokens that arrived in each bin that was found cached; null where none arrived. */
  readonly hitRate: readonly (number | null)[];
  readonly ranks: readonly RankUse[];
  /** Only where workers come and go. */
  readonly scaling?: readonly ScalingMoment[];
}

/** A stretch of time of a fleet whose workers come and go. */
export interface ScalingMoment {
  /** Its end. */
  readonly atMs: number;
  /** Requests a second. */
  readonly arrivals: number;
  readonly ready: number;
  /** Serving, starting and draining ones. */
  readonly paid: number;
  /** Share of its requests that met their targets; null where none arrived. */
  readonly met: number | null;
}

export interface RankUse {
  readonly role: PoolRole;
  /** Its number among those of its role. */
  readonly worker: number;
  readonly dpRank: number;
  readonly requests: number;
  readonly promptTokens: number;
  /** Share of the time spent in passes. */
  readonly busyShare: number;
}

/** Draws a simulation. */
export function curvesOf(simulation: Simulation): Curves {
  const { ranks, durationMs } = simulation;
  return {
    ttftMs: quantiles(simulation.ttftMs),
    e2eMs: quantiles(simulation.e2eMs),
    ...timelines(simulation),
    ranks: ranks.map(({ role, worker, dpRank, requests, promptTokens, busyMs }) => ({
      role,
      worker,
      dpRank,
      requests,
      promptTokens,
      busyShare: durationMs > 0 ? busyMs / durationMs : 0,
    })),
    ...scalingCurve(simulation),
  };
}

/** In bins of at least three ticks: single ones would be noise. */
function scalingCurve(simulation: Simulation): Pick<Curves, 'scaling'> {
  const { scaling, durationMs } = simulation;
  const points = scaling?.points ?? [];
  if (points.length === 0) return {};
  const stride = Math.max(3, Math.ceil(points.length / SCALING_BINS));
  const binMs = (points[1]?.atMs ?? durationMs) - (points[0]?.atMs ?? 0) || durationMs;
  const bins = Math.ceil(points.length / stride) + 1;
  const arrived = new Float64Array(bins);
  const met = new Float64Array(bins);
  simulation.arrivedMs.forEach((arrivedMs, request) => {
    const bin = Math.min(bins - 1, Math.floor(arrivedMs / (binMs * stride)));
    arrived[bin]!++;
    if (meetsTargets(simulation, request)) met[bin]!++;
  });
  return {
    scaling: points
      .filter((_, at) => at % stride === stride - 1)
      .map(({ atMs, ready, starting, draining }, bin) => ({
        atMs,
        arrivals: arrived[bin]! / ((binMs * stride) / 1000),
        ready,
        paid: ready + starting + draining,
        met: arrived[bin] === 0 ? null : met[bin]! / arrived[bin]!,
      })),
  };
}

function quantiles(values: Float64Array): readonly number[] {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort();
  if (sorted.length === 0) return [];
  return Array.from(
    { length: CDF_POINTS },
    (_, at) => sorted[Math.round((at / (CDF_POINTS - 1)) * (sorted.length - 1))]!,
  );
}

function timelines(simulation: Simulation): Pick<Curves, 'binMs' | 'ttftByTimeMs' | 'underWay' | 'hitRate'> {
  const binMs = Math.max(1, simulation.durationMs / TIME_BINS);
  const { inputTokens } = simulation.options.workload;
  const requests = new Float64Array(TIME_BINS);
  const ttftMs = new Float64Array(TIME_BINS);
  const promptTokens = new Float64Array(TIME_BINS);
  const cachedTokens = new Float64Array(TIME_BINS);
  const change = new Float64Array(TIME_BINS + 1);
  const binOf = (timeMs: number): number => Math.min(TIME_BINS - 1, Math.floor(timeMs / binMs));
  simulation.ttftMs.forEach((value, request) => {
    if (Number.isNaN(value)) return;
    const arrivedMs = simulation.arrivedMs[request]!;
    const bin = binOf(arrivedMs);
    requests[bin]!++;
    ttftMs[bin]! += value;
    promptTokens[bin]! += inputTokens[request]!;
    cachedTokens[bin]! += simulation.cachedTokens[request]!;
    change[bin]!++;
    change[binOf(arrivedMs + simulation.e2eMs[request]!)]!--;
  });
  let underWay = 0;
  return {
    binMs,
    ttftByTimeMs: Array.from(requests, (count, bin) => (count === 0 ? null : ttftMs[bin]! / count)),
    underWay: Array.from(requests, (_, bin) => {
      underWay += change[bin]!;
      return underWay;
    }),
    hitRate: Array.from(promptTokens, (tokens, bin) => (tokens === 0 ? null : cachedTokens[bin]! / tokens)),
  };
}
