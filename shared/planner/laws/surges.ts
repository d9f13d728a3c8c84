/** Counts and times; the list is bounded by `SURGES_KEPT`. */
export interface SurgeState {
  /** Requests a second between surges, as they were over the last minute. */
  readonly usual?: number | undefined;
  /** When what goes on now began. */
  readonly sinceS?: number | undefined;
  /** The most of it, in requests a second. */
  readonly peak: number;
  /** Those that were over before two starts, oldest first. */
  readonly past: readonly Surge[];
}

interface Surge {
  readonly fromS: number;
  readonly toS: number;
  /** Requests a second, the most of it. */
  readonly rate: number;
}

export const NO_SURGES: SurgeState = { peak: 0, past: [] };

const SURGES_KEPT = 8;
const USUAL_S = 60;
const JUMP_SHARE = 1.6;
const JUMP_RATE = 2;
/** By which share gaps and lengths may differ from those that were seen. */
const MARGIN = 0.1;

/**
 * Tells what comes and goes within two starts from what stays.
 *
 * @param rate requests a second, over a window
 * @param seconds since the last look
 */
export function observeSurge(
  before: SurgeState,
  { nowS, seconds, rate, startSeconds }: { nowS: number; seconds: number; rate: number; startSeconds: number },
): SurgeState {
  const { usual = rate, sinceS, peak, past } = before;
  if (sinceS === undefined) {
    if (rate > JUMP_SHARE * usual + JUMP_RATE) return { usual, sinceS: nowS, peak: rate, past };
    return { ...before, usual: usual + Math.min(1, seconds / USUAL_S) * (rate - usual) };
  }
  if (nowS - sinceS >= 2 * startSeconds) return { usual: rate, peak: 0, past };
  if (rate >= (usual + peak) / 2) return { ...before, peak: Math.max(peak, rate) };
  return { usual, peak: 0, past: [...past, { fromS: sinceS, toS: nowS, rate: peak }].slice(-SURGES_KEPT) };
}

/**
 * Requests a second that the next surge brings, as long as it may be under way; else 0. After the first one it may come
 * within `holdS`; later ones come after gaps as they were seen.
 */
export function surgeRate({ past }: SurgeState, nowS: number, startSeconds: number, holdS: number): number {
  const last = past.at(-1);
  if (last === undefined) return 0;
  const rate = Math.max(...past.map((surge) => surge.rate));
  const gaps = past.slice(1).map(({ fromS }, at) => fromS - past[at]!.fromS);
  if (gaps.length === 0) return nowS < last.toS + holdS ? rate : 0;
  const fromS = last.fromS + (1 - MARGIN) * Math.min(...gaps) - startSeconds;
  const toS = last.fromS + (1 + MARGIN) * Math.max(...gaps);
  return nowS >= fromS && nowS < toS ? rate : 0;
}

/** Whether what goes on will be over, as others were, before a new worker serves. */
export function isPassing({ sinceS, past }: SurgeState, nowS: number, startSeconds: number): boolean {
  if (sinceS === undefined || past.length === 0) return false;
  const longestS = Math.max(...past.map(({ fromS, toS }) => toS - fromS));
  return longestS < startSeconds && nowS - sinceS <= longestS * (1 + MARGIN);
}
