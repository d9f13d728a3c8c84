import type { PlannerConfig } from '../config.ts';

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
  /** Only with `rate_surge_worth`. */
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
const JUMP_SHARE = 1.6;
const JUMP_RATE = 2;
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

/** A jump that is no trend begins the level anew: smoothing would take minutes to believe it, and the slope would overshoot. */
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
  // The trend has jumped with what passes.
  const forecast = Math.max(passes ? 0 : forecastOf(state, startSeconds), usual);
  const surge = remembers ? surgeRate(surges, nowS, startSeconds, config) : 0;
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

/** Counts and times; the list is bounded by `SURGES_KEPT`. */
interface SurgeState {
  /** Requests a second between surges, as they were over the last minute. */
  readonly usual?: number | undefined;
  /** When what goes on now began. */
  readonly sinceS?: number | undefined;
  /** The most of it, in requests a second. */
  readonly peak: number;
  /** Those that were over before two starts, oldest first. */
  readonly past: readonly Surge[];
  /** For what is waited now, as it was settled when the last of them was over. */
  readonly wait?: Wait | undefined;
}

interface Surge {
  readonly fromS: number;
  readonly toS: number;
  /** Requests a second, the most of it. */
  readonly rate: number;
}

const NO_SURGES: SurgeState = { peak: 0, past: [] };

const SURGES_KEPT = 8;
const USUAL_S = 60;
/** By which share gaps, lengths and heights may differ from those that were seen. */
const MARGIN = 0.1;

/** What a tick tells of surges: requests a second over a window, seconds since the last look, what a request in time is worth. */
interface SurgeTick {
  readonly nowS: number;
  readonly seconds: number;
  readonly rate: number;
  readonly startSeconds: number;
  readonly worth: number;
}

/** Tells what comes and goes within two starts from what stays. */
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

/** Requests a second that the next surge may bring, while it is worth having workers wait for it or it is there; else 0. */
function surgeRate(surges: SurgeState, nowS: number, startSeconds: number, config: PlannerConfig): number {
  const { past, sinceS, wait } = surges;
  const last = past.at(-1);
  if (last === undefined) return 0;
  const cameS = sinceS ?? nowS;
  if (past.length === 1) return cameS < last.toS + config.rateSurgeHoldSeconds ? last.rate : 0;
  // A state that was kept by an earlier release has bursts and no plan.
  const { rate, fromS, toS } = wait ?? bestWait(past, surges.usual ?? 0, startSeconds, config.rateSurgeWorth);
  const gapS = cameS - last.fromS;
  // Workers that began to wait too late for the surge that has come are not awaited any more.
  const lateS = sinceS === undefined ? 0 : fromS + startSeconds - gapS;
  return gapS >= fromS && gapS < toS && lateS < lengthOf(past) ? rate : 0;
}

/** How many requests a second are waited for, and when after the start of the last surge; `gain` is what it is worth. */
interface Wait {
  readonly gain: number;
  readonly rate: number;
  readonly fromS: number;
  readonly toS: number;
}

/**
 * The height to wait for, and from which gap to which, that is worth most: `worth` for each request in time, less the requests that
 * the workers could have served while they waited. Any height may follow any gap.
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
    // A surge that finds too few makes late what comes with it, and what comes until others have started.
    const served = shareBelow(heights, (1 + MARGIN) * rate);
    const inTime = meanBelow(heights, (1 + MARGIN) * rate) * lengthS + served * usual * startSeconds;
    for (const { fromS, toS, met, waitS } of waits) {
      const gain = worth * met * inTime - waitS * (rate - usual);
      if (gain > 0 && gain >= best.gain) best = { gain, rate, fromS, toS }; // of two that are worth the same the longer one
    }
  }
  return best;
}

/** What comes next: each that was seen is as likely as something new, which may be anything from the lowest to the highest. */
interface Next {
  readonly seen: readonly number[];
  readonly low: number;
  readonly high: number;
}

/** What is new is as far from those that were seen, at most, as they lie apart on average. */
function nextOf(seen: readonly number[]): Next {
  const [least, most] = [Math.min(...seen), Math.max(...seen)];
  const apart = seen.length > 1 ? (most - least) / (seen.length - 1) : 0;
  return { seen, low: Math.max(0, least - apart), high: most + apart };
}

/**
 * Where a wait may begin and end: at each that was seen, or at the lowest and the highest. Few gaps that happen to be alike say little
 * of how long one may be, and to wait on costs nothing where the surge comes: the last end is later the fewer there were.
 */
function edgesOf({ seen, low, high }: Next): readonly (readonly [number, number])[] {
  const latest = seen.length > 1 ? Math.max(high, (1 + 1 / (seen.length + 1)) * Math.max(...seen)) : high;
  return [...seen.map((each) => [each, each] as const), [low, latest] as const].map(
    ([from, to]) => [(1 - MARGIN) * from, (1 + MARGIN) * to] as const,
  );
}

/** How likely what is new is at most the bound. */
function newBelow({ low, high }: Next, bound: number): number {
  if (bound >= high) return 1;
  return bound <= low ? 0 : (bound - low) / (high - low);
}

/** How likely what comes next is at most the bound. */
function shareBelow(next: Next, bound: number): number {
  const { seen } = next;
  return (seen.filter((each) => each <= bound).length + newBelow(next, bound)) / (seen.length + 1);
}

/** The mean of what comes next, where all that is above the bound counts as the bound. */
function meanUpTo(next: Next, bound: number): number {
  const { seen, low, high } = next;
  const below = newBelow(next, bound);
  const meanOfNew = (below * (low + Math.min(bound, high))) / 2 + (1 - below) * bound;
  return (sumOf(seen.map((each) => Math.min(each, bound))) + meanOfNew) / (seen.length + 1);
}

/** The part of the mean that comes of what is at most the bound. */
function meanBelow(next: Next, bound: number): number {
  return meanUpTo(next, bound) - bound * (1 - shareBelow(next, bound));
}

function lengthOf(past: SurgeState['past']): number {
  return sumOf(past.map(({ fromS, toS }) => toS - fromS)) / past.length;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Whether what goes on will be over, as others were, before a new worker serves. */
function isPassing({ sinceS, past }: SurgeState, nowS: number, startSeconds: number): boolean {
  if (sinceS === undefined || past.length === 0) return false;
  const longestS = Math.max(...past.map(({ fromS, toS }) => toS - fromS));
  return longestS < startSeconds && nowS - sinceS <= longestS * (1 + MARGIN);
}

/** A stretch of a day that is remembered as one rate. */
const SLOT_S = 600;
const DAY_S = 86_400;
const SLOTS = DAY_S / SLOT_S;
const DAYS_KEPT = 7;
const DAYS_MIN = 3;
const SHARE = 0.75;

/** Rates at the same times of the last days: plain values, at most a week. Times in seconds since any midnight. */
interface SeasonalState {
  /** Oldest first; a rate a slot, null where it was not seen. */
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

/** Requests a second that three days of four had at most at this time of the day; 0 before three days know it. */
function seasonalRate({ days }: SeasonalState, atS: number): number {
  const today = Math.floor(atS / DAY_S);
  const slot = Math.floor(atS / SLOT_S) % SLOTS;
  const rates = days
    .filter(({ day }) => day < today && day >= today - DAYS_KEPT)
    .flatMap(({ rates: all }) => all[slot] ?? [])
    .toSorted((one, other) => one - other);
  return rates.length < DAYS_MIN ? 0 : rates[Math.ceil(SHARE * rates.length) - 1]!;
}
