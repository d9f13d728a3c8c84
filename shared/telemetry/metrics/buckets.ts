import type { EdgeSettings } from '../../config/index.ts';

/** Buckets in equal steps of the logarithm from `min` to `max`, after a first bucket at 0. */
export interface BucketRange {
  readonly min: number;
  readonly max: number;
  /** Number of buckets before rounding, the one at 0 included; 1 to 512. */
  readonly count: number;
}

/** The configurable buckets; `DYN_METRICS_REQUEST_DURATION_MIN`, `_MAX` and `_COUNT` are `requestDuration`'s. */
export const BUCKETS = {
  requestDuration: { min: 1, max: 512, count: 10 },
  inputSequence: { min: 50, max: 128_000, count: 12 },
  outputSequence: { min: 50, max: 32_000, count: 10 },
  ttft: { min: 0.001, max: 480, count: 18 },
  itl: { min: 0.001, max: 80, count: 20 },
  embeddingLatency: { min: 0.001, max: 10, count: 14 },
} satisfies Record<string, BucketRange>;

/** Ranges of all of them. */
export type Buckets = Readonly<Record<keyof typeof BUCKETS, BucketRange>>;

/** `[0, ...]`: each further bound rounded to two significant digits, neighbours that fall together merged. */
export function logBounds({ min, max, count }: BucketRange): readonly number[] {
  const bounds = [0];
  const low = Math.log(min);
  const span = Math.log(max) - low;
  for (let step = 1; step < count; step++) {
    const bound = Number(Math.exp(low + (span * step) / (count - 1)).toPrecision(2));
    if (bound !== bounds[bounds.length - 1]) bounds.push(bound);
  }
  return bounds;
}

/** Steps of the stage and request-plane histograms, in seconds; each metric takes a part of them. */
const STEPS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5] as const;

/** The fixed steps from `min` to `max`, both included. */
export function stepBounds(min: number, max: number): readonly number[] {
  return STEPS.filter((step) => step >= min && step <= max);
}

/** Histogram ranges as the settings say them, which have seen to it that they are ranges. */
export function bucketsOf(settings: EdgeSettings): Buckets {
  const range = (name: `metrics${Capitalize<keyof Buckets>}`): BucketRange => ({
    min: settings[`${name}Min`],
    max: settings[`${name}Max`],
    count: settings[`${name}Count`],
  });
  return {
    requestDuration: range('metricsRequestDuration'),
    inputSequence: range('metricsInputSequence'),
    outputSequence: range('metricsOutputSequence'),
    ttft: range('metricsTtft'),
    itl: range('metricsItl'),
    embeddingLatency: range('metricsEmbeddingLatency'),
  };
}

/** Returns 1, 2, 4, ...: `count` bounds. */
export function powersOfTwo(count: number): number[] {
  return Array.from({ length: count }, (_, power) => 2 ** power);
}
