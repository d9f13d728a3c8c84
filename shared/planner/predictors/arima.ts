import { forecastConstant } from './constant.ts';
import { meanOf } from './mean.ts';

const ARIMA_POINTS_MIN = 5;
/** Orders to try: those that a window of a few dozen points can tell apart. */
const AR_MAX = 2;
const MA_MAX = 2;
const STEPS_MAX = 400;
const STOP_AT = 1e-9;

interface Model {
  readonly ar: number;
  readonly ma: number;
  readonly hasMean: boolean;
}

interface Fit {
  readonly model: Model;
  /** Akaike's criterion, corrected for short series. */
  readonly aicc: number;
  /** Next value of the series that was fitted. */
  readonly next: number;
}

/**
 * Returns the next value by the best ARIMA model, never below 0: the last point until there are 5 points, or if nothing
 * can be fitted.
 */
export function forecastArima(points: readonly number[], isLog: boolean): number {
  return bestFit(points, isLog) ?? forecastConstant(points);
}

function bestFit(points: readonly number[], isLog: boolean): number | undefined {
  const [first] = points;
  if (points.length < ARIMA_POINTS_MIN || first === undefined) return undefined;
  if (points.every((point) => point === first)) return first;
  const inLogs = (): number | undefined => {
    const fitted = fitArima(points.map((point) => Math.log1p(Math.max(0, point))));
    return fitted && Math.max(0, Math.expm1(fitted.value));
  };
  if (isLog) return inLogs();
  const fitted = fitArima(points);
  if (fitted === undefined) return undefined;
  // A mean says nothing about a series that multiplies.
  const value = fitted.isOnlyMean ? (inLogs() ?? fitted.value) : fitted.value;
  return Math.max(0, value);
}

/**
 * Returns the next value of a series by an ARIMA model of orders p and q up to 2 and d up to 1. It fits each by the
 * least conditional sum of squares, and takes the best by Akaike's criterion. It takes differences if they vary less
 * than the series. Returns undefined if nothing can be fitted, or if the best model is only a mean of the raw series.
 */
function fitArima(series: readonly number[]): { readonly value: number; readonly isOnlyMean: boolean } | undefined {
  const isDifferenced = wantsDifference(series);
  const values = isDifferenced ? differences(series) : series;
  const fits: Fit[] = [];
  for (let ar = 0; ar <= AR_MAX; ar++) {
    for (let ma = 0; ma <= MA_MAX; ma++) {
      for (const hasMean of [true, false]) {
        const fitted = fitModel(values, { ar, ma, hasMean });
        if (fitted !== undefined) fits.push(fitted);
      }
    }
  }
  const best = fits.reduce<Fit | undefined>(
    (least, each) => (least && least.aicc <= each.aicc ? least : each),
    undefined,
  );
  if (best === undefined) return undefined;
  const value = isDifferenced ? series.at(-1)! + best.next : best.next;
  return Number.isFinite(value) ? { value, isOnlyMean: best.model.ar === 0 && best.model.ma === 0 } : undefined;
}

/** Agrees with the KPSS test for series that wander: their steps vary much less than the series. */
function wantsDifference(series: readonly number[]): boolean {
  return kpss(series) > KPSS_5_PERCENT;
}

const KPSS_5_PERCENT = 0.463;

/** Returns the statistic of Kwiatkowski, Phillips, Schmidt and Shin for a level, with the usual short lag. */
function kpss(series: readonly number[]): number {
  const count = series.length;
  const mean = meanOf(series);
  const errors = series.map((value) => value - mean);
  let sum = 0;
  let squares = 0;
  for (const error of errors) {
    sum += error;
    squares += sum * sum;
  }
  const lags = Math.floor((3 * Math.sqrt(count)) / 13);
  let variance = errors.reduce((total, error) => total + error * error, 0) / count;
  for (let lag = 1; lag <= lags; lag++) {
    let covariance = 0;
    for (let at = lag; at < count; at++) covariance += errors[at]! * errors[at - lag]!;
    variance += (2 * (1 - lag / (lags + 1)) * covariance) / count;
  }
  return variance > 0 ? squares / (count * count * variance) : 0;
}

function differences(series: readonly number[]): readonly number[] {
  return series.slice(1).map((value, at) => value - series[at]!);
}

function fitModel(values: readonly number[], model: Model): Fit | undefined {
  const count = values.length;
  const parameterCount = (model.hasMean ? 1 : 0) + model.ar + model.ma;
  const free = parameterCount + 1; // and the variance
  if (count - free - 1 <= 0) return undefined;
  const scale = Math.sqrt(values.reduce((total, value) => total + value * value, 0) / count) || 1;
  const start = [...(model.hasMean ? [meanOf(values)] : []), ...new Array<number>(model.ar + model.ma).fill(0.1)];
  const errorOf = (parameters: readonly number[]): number =>
    isStable(parameters, model) ? residuals(values, model, parameters).squares : Number.POSITIVE_INFINITY;
  const parameters = parameterCount === 0 ? [] : descend(errorOf, start, model.hasMean ? scale : 1);
  const { squares, next } = residuals(values, model, parameters);
  if (!Number.isFinite(squares)) return undefined;
  const variance = Math.max(squares / count, scale * scale * 1e-12);
  const aic = count * Math.log(variance) + 2 * free;
  return { model, aicc: aic + (2 * free * (free + 1)) / (count - free - 1), next };
}

/** Returns the sum of the squared one-step errors, and the next value. Values before the series count as its mean. */
function residuals(values: readonly number[], { ar, ma, hasMean }: Model, parameters: readonly number[]) {
  const mean = hasMean ? parameters[0]! : 0;
  const first = hasMean ? 1 : 0;
  const errors: number[] = [];
  const expected = (at: number): number => {
    let value = mean;
    for (let lag = 1; lag <= ar; lag++) value += parameters[first + lag - 1]! * ((values[at - lag] ?? mean) - mean);
    for (let lag = 1; lag <= ma; lag++) value += parameters[first + ar + lag - 1]! * (errors[at - lag] ?? 0);
    return value;
  };
  let squares = 0;
  for (let at = 0; at < values.length; at++) {
    const error = values[at]! - expected(at);
    errors.push(error);
    squares += error * error;
  }
  return { squares, next: expected(values.length) };
}

/** Returns whether the roots lie outside the unit circle, for AR and MA alike: the triangle of order two. */
function isStable(parameters: readonly number[], { ar, ma, hasMean }: Model): boolean {
  const first = hasMean ? 1 : 0;
  const isInside = (one = 0, two = 0): boolean => Math.abs(two) < 1 && two + one < 1 && two - one < 1;
  const [ar1, ar2] = parameters.slice(first, first + ar);
  const [ma1, ma2] = parameters.slice(first + ar, first + ar + ma).map((value) => -value);
  return isInside(ar1, ar2) && isInside(ma1, ma2);
}

/** Minimises by the simplex of Nelder and Mead, in at most `STEPS_MAX` steps. */
function descend(
  errorOf: (point: readonly number[]) => number,
  start: readonly number[],
  scale: number,
): readonly number[] {
  const spread = (at: number): number => (at === 0 && scale !== 1 ? scale * 0.1 : 0.2);
  let corners = [
    start,
    ...start.map((_, at) => start.map((value, other) => (other === at ? value + spread(at) : value))),
  ].map((point) => ({ point, error: errorOf(point) }));
  const between = (one: readonly number[], two: readonly number[], share: number): readonly number[] =>
    one.map((value, at) => value + share * (two[at]! - value));
  const tried = (point: readonly number[]) => ({ point, error: errorOf(point) });
  for (let step = 0; step < STEPS_MAX; step++) {
    corners.sort((one, other) => one.error - other.error);
    const [best, worst] = [corners[0]!, corners.at(-1)!];
    if (worst.error - best.error <= STOP_AT * Math.abs(best.error)) break;
    const others = corners.slice(0, -1);
    const middle = start.map((_, at) => others.reduce((total, { point }) => total + point[at]!, 0) / others.length);
    const reflected = tried(between(middle, worst.point, -1));
    let replacement = reflected;
    if (reflected.error < best.error) {
      const expanded = tried(between(middle, worst.point, -2));
      if (expanded.error < reflected.error) replacement = expanded;
    } else if (reflected.error >= others.at(-1)!.error) {
      const contracted = tried(between(middle, reflected.error < worst.error ? reflected.point : worst.point, 0.5));
      if (contracted.error >= Math.min(reflected.error, worst.error)) {
        corners = corners.map(({ point }) => tried(between(best.point, point, 0.5)));
        continue;
      }
      replacement = contracted;
    }
    corners = [...others, replacement];
  }
  return corners.reduce((least, each) => (each.error < least.error ? each : least)).point;
}
