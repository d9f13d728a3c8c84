import type { PlannerConfig } from '../config.ts';

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
const JUMP_SHARE = 1.6;
const JUMP_RATE = 2;
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

/** Returns whether a rate is so far above what was expected that it is no longer noise. */
function isJump(rate: number, expected: number): boolean {
  return rate > JUMP_SHARE * expected + JUMP_RATE;
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

/** Counts and times; the list is bounded by `SURGES_KEPT`. */
interface SurgeState {
  /** Requests a second between surges, as they were over the last minute. */
  readonly usual?: number | undefined;
  /** Start of the present burst. */
  readonly sinceS?: number | undefined;
  /** Peak of the present burst, in requests a second. */
  readonly peak: number;
  /** Bursts that were over within two starts, oldest first. */
  readonly past: readonly Surge[];
  /** The present plan for the next burst, made when the last one was over. */
  readonly wait?: Wait | undefined;
}

interface Surge {
  readonly fromS: number;
  readonly toS: number;
  /** Peak in requests a second. */
  readonly rate: number;
}

const NO_SURGES: SurgeState = { peak: 0, past: [] };

const SURGES_KEPT = 8;
const USUAL_S = 60;
/** Share by which gaps, lengths and heights may differ from earlier ones. */
const MARGIN = 0.1;

/**
 * Input of a tick: requests a second over a window, seconds since the last tick, and the worth of a request in time.
 */
interface SurgeTick {
  readonly nowS: number;
  readonly seconds: number;
  readonly rate: number;
  readonly startSeconds: number;
  readonly worth: number;
}

/** Follows the rate, and separates a surge that passes within two starts from a rate that stays. */
function observeSurge(before: SurgeState, { nowS, seconds, rate, startSeconds, worth }: SurgeTick): SurgeState {
  const { usual = rate, sinceS, peak, past, wait } = before;
  if (sinceS === undefined) {
    if (isJump(rate, usual)) return { usual, sinceS: nowS, peak: rate, past, wait };
    return { ...before, usual: usual + Math.min(1, seconds / USUAL_S) * (rate - usual) };
  }
  if (nowS - sinceS >= 2 * startSeconds) return { usual: rate, peak: 0, past, wait };
  if (rate >= (usual + peak) / 2) return { ...before, peak: Math.max(peak, rate) };
  const known = [...past, { fromS: sinceS, toS: nowS, rate: peak }].slice(-SURGES_KEPT);
  const settled = known.length > 1 ? bestWait(known, usual, startSeconds, worth) : undefined;
  return { usual, peak: 0, past: known, wait: settled };
}

/**
 * Returns the requests a second that the next surge may bring, while workers should wait for it or it is there;
 * otherwise 0.
 */
function surgeRate(surges: SurgeState, nowS: number, startSeconds: number, config: PlannerConfig): number {
  const { past, sinceS, wait } = surges;
  const last = past.at(-1);
  if (last === undefined) return 0;
  const cameS = sinceS ?? nowS;
  if (past.length === 1) return cameS < last.toS + config.rateSurgeHoldSeconds ? last.rate : 0;
  // A state that an earlier release stored has bursts and no plan.
  const { rate, fromS, toS } = wait ?? bestWait(past, surges.usual ?? 0, startSeconds, config.rateSurgeWorth);
  const gapS = cameS - last.fromS;
  // A worker that started too late for the present surge is no longer useful.
  const lateS = sinceS === undefined ? 0 : fromS + startSeconds - gapS;
  return gapS >= fromS && gapS < toS && lateS < lengthOf(past) ? rate : 0;
}

/**
 * Plan for the next surge: its height in requests a second, and the wait after the start of the last one; `gain` is its
 * worth.
 */
interface Wait {
  readonly gain: number;
  readonly rate: number;
  readonly fromS: number;
  readonly toS: number;
}

/**
 * Returns the plan with the most worth: a height, and the gaps at which the wait begins and ends. Its worth is `worth`
 * for each request in time, less the requests that the workers could have served while they waited. Any height may
 * follow any gap.
 */
function bestWait(past: SurgeState['past'], usual: number, startSeconds: number, worth: number): Wait {
  const gaps = nextOf(past.slice(1).map(({ fromS }, at) => fromS - past[at]!.fromS));
  const heights = nextOf(past.map(({ rate }) => rate));
  const lengthS = lengthOf(past);
  const edges = edgesOf(gaps);
  const waits = edges.flatMap(([shortest]) =>
    edges
      .filter(([, longest]) => longest > shortest)
      .map(([, longest]) => {
        const fromS = Math.max(0, shortest - startSeconds);
        const met = shareBelow(gaps, longest) - shareBelow(gaps, shortest);
        return { fromS, toS: longest, met, waitS: meanUpTo(gaps, longest) - meanUpTo(gaps, fromS) };
      }),
  );
  let best: Wait = { gain: 0, rate: 0, fromS: 0, toS: 0 };
  for (const rate of [...heights.seen, heights.high]) {
    // If a surge finds too few workers, its own requests are late, and so are all others until more workers have
    // started.
    const served = shareBelow(heights, (1 + MARGIN) * rate);
    const inTime = meanBelow(heights, (1 + MARGIN) * rate) * lengthS + served * usual * startSeconds;
    for (const { fromS, toS, met, waitS } of waits) {
      const gain = worth * met * inTime - waitS * (rate - usual);
      if (gain > 0 && gain >= best.gain) best = { gain, rate, fromS, toS }; // of two equal plans, the longer one
    }
  }
  return best;
}

/**
 * Distribution of the next value: each earlier value is as likely as a new one, which may lie anywhere from `low` to
 * `high`.
 */
interface Next {
  readonly seen: readonly number[];
  readonly low: number;
  readonly high: number;
}

/**
 * Returns the distribution of the next value. A new value lies at most as far outside the earlier ones as they lie
 * apart on average.
 */
function nextOf(seen: readonly number[]): Next {
  const [least, most] = [Math.min(...seen), Math.max(...seen)];
  const apart = seen.length > 1 ? (most - least) / (seen.length - 1) : 0;
  return { seen, low: Math.max(0, least - apart), high: most + apart };
}

/**
 * Returns the gaps at which a wait may begin and end: each earlier one, or the lowest and the highest. A few similar
 * gaps are weak evidence, and a longer wait costs nothing if the surge comes: the fewer gaps are known, the later the
 * last end is.
 */
function edgesOf({ seen, low, high }: Next): readonly (readonly [number, number])[] {
  const latest = seen.length > 1 ? Math.max(high, (1 + 1 / (seen.length + 1)) * Math.max(...seen)) : high;
  return [...seen.map((each) => [each, each] as const), [low, latest] as const].map(
    ([from, to]) => [(1 - MARGIN) * from, (1 + MARGIN) * to] as const,
  );
}

/** Returns how likely a new value is at most the bound. */
function newBelow({ low, high }: Next, bound: number): number {
  if (bound >= high) return 1;
  return bound <= low ? 0 : (bound - low) / (high - low);
}

/** Returns how likely the next value is at most the bound. */
function shareBelow(next: Next, bound: number): number {
  const { seen } = next;
  return (seen.filter((each) => each <= bound).length + newBelow(next, bound)) / (seen.length + 1);
}

/** Returns the mean of the next value, with values above the bound cut to it. */
function meanUpTo(next: Next, bound: number): number {
  const { seen, low, high } = next;
  const below = newBelow(next, bound);
  const meanOfNew = (below * (low + Math.min(bound, high))) / 2 + (1 - below) * bound;
  return (sumOf(seen.map((each) => Math.min(each, bound))) + meanOfNew) / (seen.length + 1);
}

/** Returns the part of the mean that values of at most the bound contribute. */
function meanBelow(next: Next, bound: number): number {
  return meanUpTo(next, bound) - bound * (1 - shareBelow(next, bound));
}

function lengthOf(past: SurgeState['past']): number {
  return sumOf(past.map(({ fromS, toS }) => toS - fromS)) / past.length;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Returns whether the present surge will be over before a new worker serves, as earlier ones were. */
function isPassing({ sinceS, past }: SurgeState, nowS: number, startSeconds: number): boolean {
  if (sinceS === undefined || past.length === 0) return false;
  const longestS = Math.max(...past.map(({ fromS, toS }) => toS - fromS));
  return longestS < startSeconds && nowS - sinceS <= longestS * (1 + MARGIN);
}

/** Part of a day that is remembered as one rate. */
const SLOT_S = 600;
const DAY_S = 86_400;
const SLOTS = DAY_S / SLOT_S;
const DAYS_KEPT = 7;
const DAYS_MIN = 3;
const SHARE = 0.75;

/** Rates at the same times of the last days: plain values, at most a week. Times in seconds since any midnight. */
interface SeasonalState {
  /** Rates by slot, oldest first; null for a slot without observations. */
  readonly days: readonly { readonly day: number; readonly rates: readonly (number | null)[] }[];
  /** The slot that fills now. */
  readonly slot: number;
  readonly count: number;
  readonly seconds: number;
}

const NO_SEASON: SeasonalState = { days: [], slot: -1, count: 0, seconds: 0 };

/** Counts requests that began within the seconds before `nowS`. */
function observeSeason(before: SeasonalState, nowS: number, seconds: number, count: number): SeasonalState {
  const slot = Math.floor(nowS / SLOT_S);
  if (slot === before.slot) return { ...before, count: before.count + count, seconds: before.seconds + seconds };
  // Half a slot says enough of it.
  const days = before.seconds >= SLOT_S / 2 ? kept(before) : before.days;
  return { days, slot, count, seconds: Math.min(seconds, SLOT_S) };
}

function kept({ days, slot, count, seconds }: SeasonalState): SeasonalState['days'] {
  const day = Math.floor(slot / SLOTS);
  const known = days.find((each) => each.day === day);
  const rates = known === undefined ? new Array<number | null>(SLOTS).fill(null) : [...known.rates];
  rates[slot % SLOTS] = Math.round((1000 * count) / seconds) / 1000;
  return [...days.filter((each) => each.day !== day), { day, rates }].slice(-DAYS_KEPT);
}

/**
 * Returns the requests a second that three days of four did not exceed at this time of the day; 0 before three days are
 * known.
 */
function seasonalRate({ days }: SeasonalState, atS: number): number {
  const today = Math.floor(atS / DAY_S);
  const slot = Math.floor(atS / SLOT_S) % SLOTS;
  const rates = days
    .filter(({ day }) => day < today && day >= today - DAYS_KEPT)
    .flatMap(({ rates: all }) => all[slot] ?? [])
    .toSorted((one, other) => one - other);
  return rates.length < DAYS_MIN ? 0 : rates[Math.ceil(SHARE * rates.length) - 1]!;
}
