import type { PlannerConfig } from '../config.ts';

const JUMP_SHARE = 1.6;
const JUMP_RATE = 2;

/** Returns whether a rate is so far above what was expected that it is no longer noise. */
export function isJump(rate: number, expected: number): boolean {
  return rate > JUMP_SHARE * expected + JUMP_RATE;
}

/** Counts and times; the list is bounded by `SURGES_KEPT`. */
export interface SurgeState {
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

export const NO_SURGES: SurgeState = { peak: 0, past: [] };

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
export function observeSurge(before: SurgeState, { nowS, seconds, rate, startSeconds, worth }: SurgeTick): SurgeState {
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
export function surgeRate(surges: SurgeState, nowS: number, startSeconds: number, config: PlannerConfig): number {
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
export function isPassing({ sinceS, past }: SurgeState, nowS: number, startSeconds: number): boolean {
  if (sinceS === undefined || past.length === 0) return false;
  const longestS = Math.max(...past.map(({ fromS, toS }) => toS - fromS));
  return longestS < startSeconds && nowS - sinceS <= longestS * (1 + MARGIN);
}
