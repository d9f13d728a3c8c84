import {
  type ForwardPass,
  featuresOf,
  mixOf,
  type PassFeatures,
  type PassLoad,
  type PassMix,
  type PoolKind,
} from './metrics.ts';

/** Samples from which the times of passes are learned: plain values, at most `samplesMax` a mix. */
export interface PassModelState {
  readonly stores: Readonly<Partial<Record<PassMix, PassStore>>>;
  readonly averages: Readonly<Record<keyof PassAverages, readonly number[]>>;
}

/** Means of the last passes; passes before the first that is not 0 do not count. */
interface PassAverages {
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

/** Learns from iterations, oldest first. An iteration holds the passes of all ranks of one worker. */
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
  /** Returns the milliseconds of a pass of one rank; undefined if no similar pass was measured. */
  passMs(load: Partial<PassLoad>): number | undefined;
}

/** Returns the learned model; undefined before there are enough useful observations. */
export function passModel(state: PassModelState, options: PassModelOptions): PassModel | undefined {
  const fits = new Map<PassMix, PassFit>();
  for (const [mix, { fit }] of Object.entries(state.stores) as [PassMix, PassStore][]) {
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

/** A measured pass: its features and how long it took, in milliseconds. */
interface PassSample extends PassFeatures {
  readonly ms: number;
}

/** Milliseconds of a pass as a plane over its features. */
interface PassFit {
  readonly constant: number;
  readonly attention: number;
  readonly work: number;
}

const MS_MIN = 1e-6;
const AXES = ['attention', 'work'] as const;
const SUBSETS: readonly (readonly (typeof AXES)[number][])[] = [[], ['attention'], ['work'], ['attention', 'work']];

interface Axis {
  readonly name: (typeof AXES)[number];
  readonly mean: number;
  readonly deviation: number;
}

/**
 * Fits a plane by least squares without negative coefficients: more load never makes a pass shorter. It tries every
 * subset of the axes that vary, and takes the one with the least error. Returns undefined if no load varies. Returns
 * `before` if the load explains nothing, because a few odd passes are no reason to forget an earlier fit.
 */
function fitPasses(samples: readonly PassSample[], before?: PassFit): PassFit | undefined {
  const axes = AXES.map((name) => axisOf(samples, name)).filter((axis) => axis !== undefined);
  if (axes.length === 0) return undefined;
  let best: { readonly fit: PassFit; readonly error: number } | undefined;
  for (const names of SUBSETS) {
    const chosen = axes.filter(({ name }) => names.includes(name));
    if (chosen.length !== names.length) continue;
    const fit = fitAxes(samples, chosen);
    if (fit === undefined) continue;
    const error = samples.reduce((total, sample) => total + (sample.ms - raw(fit, sample)) ** 2, 0);
    if (best === undefined || error < best.error) best = { fit, error };
  }
  if (best === undefined) return undefined;
  const isFlat = best.fit.attention === 0 && best.fit.work === 0;
  return isFlat && samples.length > axes.length ? before : best.fit;
}

/** Returns the milliseconds that a pass of this load takes. */
function predictPass(fit: PassFit, features: PassFeatures): number {
  return Math.max(MS_MIN, raw(fit, features));
}

function raw(fit: PassFit, { attention, work }: PassFeatures): number {
  return fit.constant + fit.attention * attention + fit.work * work;
}

function axisOf(samples: readonly PassSample[], name: (typeof AXES)[number]): Axis | undefined {
  const mean = samples.reduce((total, sample) => total + sample[name], 0) / samples.length;
  const variance = samples.reduce((total, sample) => total + (sample[name] - mean) ** 2, 0) / samples.length;
  const deviation = Math.sqrt(variance);
  return deviation <= 1e-12 * Math.max(1, Math.abs(mean)) ? undefined : { name, mean, deviation };
}

/**
 * The axes are standardised, and thereby orthogonal to the constant. The constant is the mean, and at most two
 * equations remain.
 */
function fitAxes(samples: readonly PassSample[], axes: readonly Axis[]): PassFit | undefined {
  const meanMs = samples.reduce((total, { ms }) => total + ms, 0) / samples.length;
  const scaled = (sample: PassSample, { name, mean, deviation }: Axis): number => (sample[name] - mean) / deviation;
  const products = axes.map((one) =>
    axes.map((other) => samples.reduce((total, sample) => total + scaled(sample, one) * scaled(sample, other), 0)),
  );
  const sides = axes.map((axis) =>
    samples.reduce((total, sample) => total + scaled(sample, axis) * (sample.ms - meanMs), 0),
  );
  const slopes = solve(products, sides);
  if (slopes === undefined || slopes.some((slope) => slope < 0)) return undefined;
  const fit = { constant: meanMs, attention: 0, work: 0 };
  axes.forEach(({ name, mean, deviation }, at) => {
    fit[name] = slopes[at]! / deviation;
    fit.constant -= fit[name] * mean;
  });
  return fit;
}

function solve(products: readonly (readonly number[])[], sides: readonly number[]): readonly number[] | undefined {
  if (sides.length === 0) return [];
  if (sides.length === 1) return [sides[0]! / products[0]![0]!];
  const [[a = 0, b = 0] = [], [c = 0, d = 0] = []] = products;
  const [one = 0, two = 0] = sides;
  const solved = cramer(a, b, c, d, one, two);
  if (solved !== undefined) return solved;
  const ridge = 1e-9 * (a + d);
  return cramer(a + ridge, b, c, d + ridge, one, two);
}

function cramer(a: number, b: number, c: number, d: number, one: number, two: number): readonly number[] | undefined {
  const determinant = a * d - b * c;
  if (Math.abs(determinant) <= 1e-12 * Math.abs(a * d)) return undefined;
  return [(one * d - b * two) / determinant, (a * two - c * one) / determinant];
}

/** Samples a store keeps, on a grid of this many cells a side. */
interface StoreSize {
  /** @default 64 */
  readonly samplesMax: number;
  /** A perfect square. @default 16 */
  readonly buckets: number;
}

/** Passes of one mix that are remembered. */
interface PassStore {
  /** Oldest first. */
  readonly samples: readonly PassSample[];
  /** Least and largest features so far, `[attention, work]`, as ln(1 + feature). */
  readonly low: readonly [number, number];
  readonly high: readonly [number, number];
  /** The last fit that explained something. */
  readonly fit?: PassFit | undefined;
}

const EMPTY: PassStore = {
  samples: [],
  low: [Number.MAX_VALUE, Number.MAX_VALUE],
  high: [-Number.MAX_VALUE, -Number.MAX_VALUE],
};

/**
 * Adds a sample. Beyond the bound it drops the oldest sample of the fullest bucket, and among equally full buckets
 * takes the one with the least load. Rare and heavy loads thereby stay.
 */
function keepSample(before: PassStore | undefined, sample: PassSample, size: StoreSize): PassStore {
  const store = before ?? EMPTY;
  const at = placeOf(sample);
  const low = [Math.min(store.low[0], at[0]), Math.min(store.low[1], at[1])] as const;
  const high = [Math.max(store.high[0], at[0]), Math.max(store.high[1], at[1])] as const;
  const samples = [...store.samples, sample];
  if (samples.length <= size.samplesMax) return { ...store, samples, low, high };
  const side = Math.max(1, Math.round(Math.sqrt(size.buckets)));
  const keys = samples.map((each) => {
    const [attention, work] = placeOf(each);
    return cellOf(attention, low[0], high[0], side) * side + cellOf(work, low[1], high[1], side);
  });
  const counts = new Array<number>(side * side).fill(0);
  for (const key of keys) counts[key]! += 1;
  const fullest = counts.indexOf(Math.max(...counts));
  const oldest = keys.indexOf(fullest);
  return { ...store, samples: samples.filter((_, index) => index !== oldest), low, high };
}

function placeOf({ attention, work }: PassSample): readonly [number, number] {
  return [Math.log1p(attention), Math.log1p(work)];
}

function cellOf(value: number, low: number, high: number, side: number): number {
  return high > low ? Math.min(side - 1, Math.floor(((value - low) / (high - low)) * side)) : 0;
}
