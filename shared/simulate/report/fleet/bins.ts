import { type FleetSample, joinSamples } from '../../../planner/index.ts';

/** A sample, and the time at which it ends. */
export interface EndedSample {
  readonly atMs: number;
  readonly sample: FleetSample;
}

/** A time that is cut into bins of equal length. */
export interface Bins {
  readonly fromMs: number;
  readonly binMs: number;
  /** Sample of each bin; undefined if nothing was seen. */
  readonly samples: readonly (FleetSample | undefined)[];
}

/** Most bins of a chart, and lengths of a bin in seconds. */
const BINS_MAX = 180;
const BIN_S = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];

/**
 * Cuts samples into bins. A sample that reaches into several bins counts in each of them in proportion to its time
 * there.
 * @param binsMax most bins
 */
export function binsOf(samples: readonly EndedSample[], fromMs: number, untilMs: number, binsMax = BINS_MAX): Bins {
  const lengthMs = Math.max(1000, untilMs - fromMs);
  const binS = BIN_S.find((seconds) => lengthMs / 1000 / seconds <= binsMax);
  const binMs = binS === undefined ? Math.ceil(lengthMs / binsMax) : 1000 * binS;
  const bins: (FleetSample | undefined)[] = Array.from({ length: Math.ceil(lengthMs / binMs) }, () => undefined);
  for (const { atMs, sample } of samples) {
    const sinceMs = atMs - 1000 * sample.seconds;
    const first = Math.max(0, Math.floor((sinceMs - fromMs) / binMs));
    const last = Math.min(bins.length - 1, Math.ceil((atMs - fromMs) / binMs) - 1);
    for (let at = first; at <= last; at++) {
      const part = partOf({ atMs, sample }, fromMs + at * binMs, fromMs + (at + 1) * binMs);
      const before = bins[at];
      if (part !== undefined) bins[at] = before === undefined ? part : joinSamples(before, part);
    }
  }
  return { fromMs, binMs, samples: bins };
}

/** Returns the part of a sample that lies within a time; undefined if no part does. */
export function partOf({ atMs, sample }: EndedSample, fromMs: number, untilMs: number): FleetSample | undefined {
  const sinceMs = atMs - 1000 * sample.seconds;
  const insideMs = Math.min(atMs, untilMs) - Math.max(sinceMs, fromMs);
  if (insideMs <= 0 || sample.seconds <= 0) return undefined;
  const share = Math.min(1, insideMs / (1000 * sample.seconds));
  return share === 1 ? sample : scaled(sample, share);
}

function scaled(sample: FleetSample, share: number): FleetSample {
  const { seconds, knownSeconds, started, inputTokens, outputTokens, heldSeconds, runningSeconds, starts } = sample;
  const latency = ({ count, sumMs, met, targetMs }: FleetSample['ttft']): FleetSample['ttft'] => {
    return { count: count * share, sumMs: sumMs * share, met: met * share, targetMs };
  };
  return {
    ...sample,
    seconds: seconds * share,
    knownSeconds: knownSeconds * share,
    started: started * share,
    inputTokens: inputTokens * share,
    outputTokens: outputTokens * share,
    heldSeconds: heldSeconds * share,
    runningSeconds: runningSeconds * share,
    ...(starts === undefined
      ? {}
      : { starts: { count: starts.count * share, seconds: scaledBy(starts.seconds, share) } }),
    ttft: latency(sample.ttft),
    itl: latency(sample.itl),
    options: Object.fromEntries(
      Object.entries(sample.options).map(([key, { workers, gpuSeconds, failing }]) => {
        return [key, { workers: scaledBy(workers, share), gpuSeconds: gpuSeconds * share, failing }];
      }),
    ),
  };
}

function scaledBy<K extends string>(
  of: Partial<Readonly<Record<K, number>>>,
  share: number,
): Partial<Record<K, number>> {
  const parts = Object.entries<number | undefined>(of).map(([key, value = 0]) => [key, value * share] as const);
  return Object.fromEntries(parts) as Partial<Record<K, number>>;
}
