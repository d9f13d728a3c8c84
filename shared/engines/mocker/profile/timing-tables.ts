import type { TimingModel } from '../timing.ts';

/** Decode steps measured at one context length. */
export interface DecodeRow {
  readonly contextTokens: number;
  /** Tokens in the KV cache, rising. */
  readonly activeTokens: readonly number[];
  readonly stepMs: readonly number[];
}

/** Measured times. */
export interface TimingTables {
  /** Uncached prompt tokens of a pass, rising. */
  readonly prefillTokens: readonly number[];
  readonly prefillMs: readonly number[];
  /** By rising context length; at least one row. */
  readonly decode: readonly DecodeRow[];
}

const DECODE_MS_MIN = 1;

/**
 * Linear over the prompt tokens of a pass; bilinear over active tokens and mean context. Goes on with the last slope outside
 * of what was measured.
 */
export function profiledTiming({ prefillTokens, prefillMs, decode }: TimingTables): TimingModel {
  const contexts = decode.map(({ contextTokens }) => contextTokens);
  return {
    prefillMs: (tokens) =>
      tokens <= 0
        ? 0
        : atLeast(
            0,
            interpolate(tokens, prefillTokens, (at) => prefillMs[at]!),
          ),
    decodeMs: (active, context) =>
      atLeast(
        DECODE_MS_MIN,
        interpolate(context, contexts, (row) => {
          const { activeTokens, stepMs } = decode[row]!;
          return interpolate(active, activeTokens, (at) => stepMs[at]!);
        }),
      ),
  };
}

/** The value at `x` on the line through the two points around it, or through the nearest two. */
function interpolate(x: number, xs: readonly number[], valueAt: (at: number) => number): number {
  if (xs.length === 1) return valueAt(0);
  let right = 1;
  while (right < xs.length - 1 && xs[right]! < x) right++;
  const left = right - 1;
  const share = (x - xs[left]!) / (xs[right]! - xs[left]!);
  const low = valueAt(left);
  return low + share * (valueAt(right) - low);
}

function atLeast(min: number, value: number): number {
  return value > min ? value : min; // also for what is not a number
}
