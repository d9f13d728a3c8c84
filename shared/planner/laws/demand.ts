import type { PlannerConfig } from '../config.ts';
import { NO_SEASON, observeSeason, type SeasonalState, seasonalRate } from './seasonal.ts';
import { isPassing, NO_SURGES, observeSurge, type SurgeState, surgeRate } from './surges.ts';

/** What is remembered of the requests that began: plain values; the lists are bounded by their windows. */
export interface DemandState {
  readonly lastAtS: number;
  /** What began, a bin a tick, over the last window. */
  readonly bins: readonly { readonly atS: number; readonly seconds: number; readonly count: number }[];
  readonly bucket: { readonly fromS: number; readonly count: number };
  /** Requests a second, and by how much more every bucket; undefined before the first bucket is full. */
  readonly trend?: { readonly level: number; readonly slope: number } | undefined;
  /** The least that counted over the up window, the least first. */
  readonly rates?: readonly { readonly atS: number; readonly rate: number }[];
  /** Only with `rate_seasonal`. */
  readonly season: SeasonalState;
  /** Only with `rate_surge_hold_seconds`. */
  readonly surges?: SurgeState | undefined;
}

/** Requests a second that a fleet is to be sized for. */
export interface Demand {
  /** What counts: the larger of the two below, once it has lasted as long as it must. */
  readonly rate: number;
  /** What begins now. */
  readonly arrivals: number;
  /** What is expected by the time that a new worker serves. */
  readonly forecast: number;
  /** What the next burst may bring; 0 while none is awaited. */
  readonly surge: number;
  /** What begins now will be over before a new worker serves, and does not count. */
  readonly isPassing: boolean;
}

const BUCKET_S = 30;
const LEVEL_SHARE = 0.5;
const TREND_SHARE = 0.1;
/** Bins that a window keeps at most, however short the ticks. */
const BINS_MAX = 240;
const RATES_MAX = 2048;

export function startDemand(nowS: number): DemandState {
  return {
    lastAtS: nowS,
    bins: [],
    bucket: { fromS: nowS, count: 0 },
    season: NO_SEASON,
  };
}

/** Counts what began since the last tick, and says what it means: the two belong together, as what counts is remembered. */
export function observeDemand(
  before: DemandState,
  { nowS, started, startSeconds }: { readonly nowS: number; readonly started: number; readonly startSeconds: number },
  config: PlannerConfig,
): { readonly state: DemandState; readonly demand: Demand } {
  const counted = count(before, nowS, started, startSeconds, config);
  const demand = demandOf(counted, nowS, startSeconds, config);
  const fromS = nowS - config.rate_up_window_seconds;
  const rates = [
    ...(before.rates ?? []).filter(({ atS, rate }) => atS > fromS + 1e-9 && rate < demand.rate),
    { atS: nowS, rate: demand.rate },
  ].slice(-RATES_MAX);
  return { state: { ...counted, rates }, demand: { ...demand, rate: rates[0]!.rate } };
}

function count(
  before: DemandState,
  nowS: number,
  started: number,
  startSeconds: number,
  config: PlannerConfig,
): DemandState {
  const seconds = nowS - before.lastAtS;
  const fromS = nowS - config.rate_window_seconds;
  const bins = [...before.bins, { atS: nowS, seconds, count: started }]
    .filter(({ atS }) => atS > fromS + 1e-9)
    .slice(-BINS_MAX);
  let { bucket, trend, surges = NO_SURGES } = before;
  bucket = { fromS: bucket.fromS, count: bucket.count + started };
  if (nowS - bucket.fromS >= BUCKET_S - 1e-9) {
    trend = follow(trend, bucket.count / (nowS - bucket.fromS));
    bucket = { fromS: nowS, count: 0 };
  }
  if (config.rate_surge_hold_seconds > 0) {
    surges = observeSurge(surges, { nowS, seconds, rate: ratePerSecond(bins, 0), startSeconds });
  }
  const season = config.rate_seasonal ? observeSeason(before.season, nowS, seconds, started) : before.season;
  return { ...before, lastAtS: nowS, bins, bucket, trend, surges, season };
}

/** A jump that is no trend begins the level anew: smoothing would take minutes to believe it, and the slope would overshoot. */
function follow(trend: DemandState['trend'], rate: number): NonNullable<DemandState['trend']> {
  if (trend === undefined) return { level: rate, slope: 0 };
  const expected = trend.level + trend.slope;
  if (rate > 1.6 * expected + 2 || rate < 0.5 * expected) return { level: rate, slope: 0 };
  const level = LEVEL_SHARE * rate + (1 - LEVEL_SHARE) * expected;
  return { level, slope: TREND_SHARE * (level - trend.level) + (1 - TREND_SHARE) * trend.slope };
}

function demandOf(
  { surges = NO_SURGES, ...state }: DemandState,
  nowS: number,
  startSeconds: number,
  config: PlannerConfig,
): Demand {
  const holdS = config.rate_surge_hold_seconds;
  const arrivals = ratePerSecond(state.bins, config.rate_deviations);
  const usual = config.rate_seasonal ? seasonalRate(state.season, nowS + startSeconds) : 0;
  const passes = holdS > 0 && isPassing(surges, nowS, startSeconds);
  // The trend has jumped with what passes.
  const forecast = Math.max(passes ? 0 : forecastOf(state, startSeconds), usual);
  const surge = holdS > 0 ? surgeRate(surges, nowS, startSeconds, holdS) : 0;
  const rate = Math.max(passes ? (surges.usual ?? 0) : arrivals, forecast);
  return { rate, arrivals, forecast, surge, isPassing: passes };
}

/** Requests a second, and so many deviations of a Poisson count above it. */
function ratePerSecond(bins: DemandState['bins'], deviations: number): number {
  const seconds = bins.reduce((total, bin) => total + bin.seconds, 0);
  const started = bins.reduce((total, bin) => total + bin.count, 0);
  return seconds > 0 ? (started + deviations * Math.sqrt(started)) / seconds : 0;
}

function forecastOf({ trend }: DemandState, startSeconds: number): number {
  if (trend === undefined) return 0;
  return Math.max(0, trend.level + (trend.slope * (startSeconds + BUCKET_S)) / BUCKET_S);
}
