import { type ForwardPass, featuresOf, mixOf, type PassLoad, type PassMix, type PoolKind } from './metrics.ts';
import { fitPasses, keepSample, type PassFit, type PassSample, predictPass, type StoreSize } from './regression.ts';

/** What the times of passes were learned from: plain values, at most `samplesMax` a mix. */
export interface PassModelState {
  readonly samples: Readonly<Partial<Record<PassMix, readonly PassSample[]>>>;
  readonly averages: Readonly<Record<keyof PassAverages, readonly number[]>>;
}

/** Means of the last passes, those before the first that is not 0 left out. */
export interface PassAverages {
  /** Prompt tokens computed for each request of a pass. */
  readonly isl: number;
  /** Context of a decoding request. */
  readonly decodeLength: number;
  readonly prefillTokens: number;
  readonly prefillRequests: number;
}

export interface PassModelOptions extends StoreSize {
  readonly kind: PoolKind;
  /** Passes before anything is said. @default 5 */
  readonly observationsMin: number;
}

export const NO_PASSES: PassModelState = {
  samples: {},
  averages: { isl: [], decodeLength: [], prefillTokens: [], prefillRequests: [] },
};

/** Adds one iteration of one worker: the passes of all its ranks. A heartbeat has no time to learn from, but counts in the averages. */
export function observePass(
  state: PassModelState,
  ranks: readonly ForwardPass[],
  options: PassModelOptions,
): PassModelState {
  const ms = 1000 * Math.max(...ranks.map(({ wallTimeS }) => wallTimeS));
  const mix = mixOf(ranks, options.kind);
  const sums = { prefillRequests: 0, prefillTokens: 0, decodeRequests: 0, decodeKvTokens: 0 };
  for (const rank of ranks) {
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += rank[name];
  }
  const next: Record<keyof PassAverages, number> = {
    isl: sums.prefillRequests > 0 ? sums.prefillTokens / sums.prefillRequests : 0,
    decodeLength: sums.decodeRequests > 0 ? sums.decodeKvTokens / sums.decodeRequests : 0,
    prefillTokens: sums.prefillTokens,
    prefillRequests: sums.prefillRequests,
  };
  const push = (name: keyof PassAverages): readonly number[] =>
    state.averages[name].length === 0 && next[name] === 0
      ? []
      : [...state.averages[name], next[name]].slice(-options.samplesMax);
  return {
    samples:
      ms > 0
        ? {
            ...state.samples,
            [mix]: keepSample(state.samples[mix] ?? [], { ...featuresOf(ranks, options.kind), ms }, options),
          }
        : state.samples,
    averages: {
      isl: push('isl'),
      decodeLength: push('decodeLength'),
      prefillTokens: push('prefillTokens'),
      prefillRequests: push('prefillRequests'),
    },
  };
}

/** Times of passes that have not run yet. */
export interface PassModel {
  readonly averages: PassAverages;
  /** How many passes were learned from. */
  readonly observations: number;
  /** Milliseconds of a pass of one rank, or undefined where nothing like it was measured. */
  passMs(load: Partial<PassLoad>): number | undefined;
}

/** The model that was learned, or undefined before there are enough observations that say something. */
export function passModel(state: PassModelState, options: PassModelOptions): PassModel | undefined {
  const observations = Object.values(state.samples).reduce((total, samples) => total + samples.length, 0);
  if (observations < options.observationsMin) return undefined;
  const fits = new Map<PassMix, PassFit>();
  for (const [mix, samples] of Object.entries(state.samples) as [PassMix, readonly PassSample[]][]) {
    const fit = fitPasses(samples);
    if (fit !== undefined) fits.set(mix, fit);
  }
  if (fits.size === 0) return undefined;
  const { isl, decodeLength, prefillTokens, prefillRequests } = state.averages;
  return {
    averages: {
      isl: meanOf(isl),
      decodeLength: meanOf(decodeLength),
      prefillTokens: meanOf(prefillTokens),
      prefillRequests: meanOf(prefillRequests),
    },
    observations,
    passMs(part) {
      const load = { ...NOTHING, ...part };
      const fit = fits.get(mixOf([load], options.kind));
      return fit && predictPass(fit, featuresOf([load], options.kind));
    },
  };
}

const NOTHING: PassLoad = {
  prefillRequests: 0,
  prefillTokens: 0,
  prefillKvTokens: 0,
  decodeRequests: 0,
  decodeKvTokens: 0,
};

function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((total, value) => total + value, 0) / values.length;
}
