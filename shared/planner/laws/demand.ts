import type { PlannerConfig } from '../config.ts';
import { NO_SEASON, observeSeason, type SeasonalState, seasonalRate } from './seasons.ts';
import { isJump, isPassing, NO_SURGES, observeSurge, type SurgeState, surgeRate } from './surges.ts';

/** Memory of the requests that began: plain values; the windows bound the lists. */
export interface DemandState {
  readonly lastAtS: number;
  /** Requests that began within the last window, a bin a tick. */
  readonly bins: readonly { readonly atS: number; readonly seconds: number; readonly count: number }[];
  readonly bucket: { readonly fromS: number; readonly count: number };
  /** Requests a second, and their growth per bucket; undefined before the first bucket is full. */
  readonly trend?: { readonly level: number; readonly slope: number } | undefined;
  /** Lowest rates that counted over the up window, the lowest first. */
  readonly rates?: readonly { readonly atS: number; readonly rate: number }[];
  /** Only with `rate_seasonal`. */
  readonly season: SeasonalState;
  /** Only with `rate_surge_worth`. */
  readonly surges?: SurgeState | undefined;
}

/** Requests a second for which a fleet is sized. */
export interface Demand {
  /** The rate that counts: the larger of the two below, once it has lasted for the up window. */
  readonly rate: number;
  /** Rate of the requests that begin now. */
  readonly arrivals: number;
  /** Rate that is expected by the time that a new worker serves. */
  readonly forecast: number;
  /** Rate that the next burst may bring; 0 while no burst is awaited. */
  readonly surge: number;
  /** The present burst will be over before a new worker serves, and does not count. */
  readonly isPassing: boolean;
}

const BUCKET_S = 30;
const LEVEL_SHARE = 0.5;
const TREND_SHARE = 0.1;
/** Most bins of a window, however short the ticks are. */
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

/**
 * Counts the requests that began since the last tick, and returns the demand that follows. The two belong together,
 * because the state remembers the rate that counts.
 */
export function observeDemand(
  before: DemandState,
  { nowS, started, startSeconds }: { readonly nowS: number; readonly started: number; readonly startSeconds: number },
  config: PlannerConfig,
): { readonly state: DemandState; readonly demand: Demand } {
  const counted = count(before, nowS, started, startSeconds, config);
  const demand = demandOf(counted, nowS, startSeconds, config);
  const fromS = nowS - config.rateUpWindowSeconds;
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
  const fromS = nowS - config.rateWindowSeconds;
  const bins = [...before.bins, { atS: nowS, seconds, count: started }]
    .filter(({ atS }) => atS > fromS + 1e-9)
    .slice(-BINS_MAX);
  let { bucket, trend, surges = NO_SURGES } = before;
  bucket = { fromS: bucket.fromS, count: bucket.count + started };
  if (nowS - bucket.fromS >= BUCKET_S - 1e-9) {
    trend = follow(trend, bucket.count / (nowS - bucket.fromS));
    bucket = { fromS: nowS, count: 0 };
  }
  if (config.rateSurgeWorth > 0) {
    const rate = ratePerSecond(bins, 0);
    surges = observeSurge(surges, { nowS, seconds, rate, startSeconds, worth: config.rateSurgeWorth });
  }
  const season = config.rateSeasonal ? observeSeason(before.season, nowS, seconds, started) : before.season;
  return { ...before, lastAtS: nowS, bins, bucket, trend, surges, season };
}

/**
 * Follows the trend. A jump begins the level anew: smoothing would take minutes to reach it, and the slope would
 * overshoot.
 */
function follow(trend: DemandState['trend'], rate: number): NonNullable<DemandState['trend']> {
  if (trend === undefined) return { level: rate, slope: 0 };
  const expected = trend.level + trend.slope;
  if (isJump(rate, expected) || rate < 0.5 * expected) return { level: rate, slope: 0 };
  const level = LEVEL_SHARE * rate + (1 - LEVEL_SHARE) * expected;
  return { level, slope: TREND_SHARE * (level - trend.level) + (1 - TREND_SHARE) * trend.slope };
}

function demandOf(
  { surges = NO_SURGES, ...state }: DemandState,
  nowS: number,
  startSeconds: number,
  config: PlannerConfig,
): Demand {
  const remembers = config.rateSurgeWorth > 0;
  const arrivals = ratePerSecond(state.bins, config.rateDeviations);
  const usual = config.rateSeasonal ? seasonalRate(state.season, nowS + startSeconds) : 0;
  const passes = remembers && isPassing(surges, nowS, startSeconds);
  // The trend has jumped with the burst that passes.
  const forecast = Math.max(passes ? 0 : forecastOf(state, startSeconds), usual);
  const surge = remembers ? surgeRate(surges, nowS, startSeconds, config) : 0;
  const rate = Math.max(passes ? (surges.usual ?? 0) : arrivals, forecast);
  return { rate, arrivals, forecast, surge, isPassing: passes };
}

/** Returns the requests a second, raised by a number of deviations of a Poisson count. */
function ratePerSecond(bins: DemandState['bins'], deviations: number): number {
  const seconds = bins.reduce((total, bin) => total + bin.seconds, 0);
  const started = bins.reduce((total, bin) => total + bin.count, 0);
  return seconds > 0 ? (started + deviations * Math.sqrt(started)) / seconds : 0;
}

function forecastOf({ trend }: DemandState, startSeconds: number): number {
  if (trend === undefined) return 0;
  return Math.max(0, trend.level + (trend.slope * (startSeconds + BUCKET_S)) / BUCKET_S);
}
