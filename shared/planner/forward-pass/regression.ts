import type { PassFeatures } from './metrics.ts';

/** A measured pass: its features and how long it took, in milliseconds. */
export interface PassSample extends PassFeatures {
  readonly ms: number;
}

/** Milliseconds of a pass as a plane over its features. */
export interface PassFit {
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
 * Least squares with coefficients that are not negative: more load never makes a pass shorter. Every subset of the axes
 * that vary is tried, and the least error wins. Undefined for no samples, and where the load explains nothing.
 */
export function fitPasses(samples: readonly PassSample[]): PassFit | undefined {
  if (samples.length === 0) return undefined;
  const axes = AXES.map((name) => axisOf(samples, name)).filter((axis) => axis !== undefined);
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
  return isFlat && samples.length > axes.length ? undefined : best.fit;
}

/** Milliseconds that a pass of this load takes. */
export function predictPass(fit: PassFit, features: PassFeatures): number {
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

/** Standardised, so that the axes are orthogonal to the constant: it is the mean, and at most two equations are left. */
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
export interface StoreSize {
  /** @default 64 */
  readonly samplesMax: number;
  /** A perfect square. @default 16 */
  readonly buckets: number;
}

/** Adds a sample, oldest first; beyond the bound the oldest of the fullest bucket goes, so that rare loads are remembered. */
export function keepSample(samples: readonly PassSample[], sample: PassSample, size: StoreSize): readonly PassSample[] {
  const all = [...samples, sample];
  if (all.length <= size.samplesMax) return all;
  const side = Math.max(1, Math.round(Math.sqrt(size.buckets)));
  const logs = all.map(({ attention, work }) => [Math.log1p(attention), Math.log1p(work)] as const);
  const [columns, rows] = ([0, 1] as const).map((axis) =>
    cellsOf(
      logs.map((log) => log[axis]),
      side,
    ),
  );
  const keys = all.map((_, at) => columns![at]! * side + rows![at]!);
  const counts = new Array<number>(side * side).fill(0);
  for (const key of keys) counts[key]! += 1;
  const fullest = Math.max(...counts);
  const oldest = keys.findIndex((key) => counts[key] === fullest);
  return all.filter((_, at) => at !== oldest);
}

function cellsOf(values: readonly number[], side: number): readonly number[] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const width = (high - low) / side;
  return values.map((value) => (width > 0 ? Math.min(side - 1, Math.floor((value - low) / width)) : 0));
}
