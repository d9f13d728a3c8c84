import { type ForwardPass, featuresOf, mixOf, type PassLoad, type PassMix, type PoolKind } from './metrics.ts';
import { fitPasses, keepSample, type PassFit, type PassStore, predictPass, type StoreSize } from './regression.ts';

/** What the times of passes were learned from: plain values, at most `samplesMax` a mix. */
export interface PassModelState {
  readonly stores: Readonly<Partial<Record<PassMix, PassStore>>>;
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
  /** Passes of a mix before anything is said of it. @default 5 */
  readonly observationsMin: number;
}

export const NO_PASSES: PassModelState = {
  stores: {},
  averages: { isl: [], decodeLength: [], prefillTokens: [], prefillRequests: [] },
};

/** Learns from iterations, oldest first: of each the passes of all ranks of one worker. */
export function observePasses(
  before: PassModelState,
  iterations: readonly (readonly ForwardPass[])[],
  options: PassModelOptions,
): PassModelState {
  const state = iterations.reduce((known, ranks) => observe(known, ranks, options), before);
  const stores = { ...state.stores };
  for (const [mix, store] of Object.entries(stores) as [PassMix, PassStore][]) {
    if (store === before.stores[mix]) continue;
    const isEnough = store.samples.length >= options.observationsMin;
    stores[mix] = { ...store, fit: isEnough ? fitPasses(store.samples, store.fit) : undefined };
  }
  return { ...state, stores };
}

/** A heartbeat has no time to learn from, but counts in the averages. */
function observe(state: PassModelState, ranks: readonly ForwardPass[], options: PassModelOptions): PassModelState {
  const ms = 1000 * Math.max(...ranks.map(({ wallTimeS }) => wallTimeS));
  const mix = mixOf(ranks, options.kind);
  const sums = { prefillRequests: 0, prefillTokens: 0, decodeRequests: 0, decodeKvTokens: 0 };
  for (const rank of ranks) {
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += rank[name];
  }
  const push = (name: keyof PassAverages, value: number): readonly number[] =>
    state.averages[name].length === 0 && value === 0 ? [] : [...state.averages[name], value].slice(-options.samplesMax);
  return {
    stores:
      ms > 0
        ? { ...state.stores, [mix]: keepSample(state.stores[mix], { ...featuresOf(ranks, options.kind), ms }, options) }
        : state.stores,
    averages: {
      isl: push('isl', sums.prefillRequests > 0 ? sums.prefillTokens / sums.prefillRequests : 0),
      decodeLength:
        sums.decodeRequests > 0
          ? push('decodeLength', sums.decodeKvTokens / sums.decodeRequests)
          : state.averages.decodeLength,
      prefillTokens: push('prefillTokens', sums.prefillTokens),
      prefillRequests: push('prefillRequests', sums.prefillRequests),
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
  const fits = new Map<PassMix, PassFit>();
  let observations = 0;
  for (const [mix, { samples, fit }] of Object.entries(state.stores) as [PassMix, PassStore][]) {
    observations += samples.length;
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
