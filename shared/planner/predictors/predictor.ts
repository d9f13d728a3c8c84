import { forecastArima } from './arima.ts';

export const PREDICTORS = ['constant', 'moving', 'arima', 'kalman', 'seasonal'] as const;
type PredictorName = (typeof PREDICTORS)[number];

export interface PredictorOptions {
  readonly name: PredictorName;
  /** Works on ln(1 + value): for demand that multiplies. @default false */
  readonly log1p?: boolean;
  readonly kalman?: KalmanOptions;
  /** Points of a moving average. @default 5 */
  readonly movingPoints?: number;
  /** Points of a season. @default 480, a day of three-minute windows */
  readonly seasonPoints?: number;
}

/** Memory of a predictor between windows: plain values. */
export interface PredictorState {
  /** The last points, oldest first: at most `POINTS_KEPT`, or a season and a few more. */
  readonly points: readonly number[];
  /** Number of points so far. */
  readonly count: number;
  /** All points so far were zeros, which do not count. */
  readonly isIdle: boolean;
  readonly kalman?: KalmanState;
}

export const NO_POINTS: PredictorState = { points: [], count: 0, isIdle: true };

/** Twelve hours of three-minute windows would be 240; models of these orders cannot use as many. */
const POINTS_KEPT = 128;
const ARIMA_POINTS_MIN = 5;
const MOVING_POINTS = 5;
const SEASON_POINTS = 480;
/** A day of windows of a minute. */
export const SEASON_POINTS_MAX = 1440;
/** Points that compare the present level with that of a season ago. */
const LEVEL_POINTS = 5;

/**
 * Adds the value of a window. A value that is not a number counts as 0; zeros before the first other value are dropped.
 */
export function observe(state: PredictorState, value: number, options: PredictorOptions): PredictorState {
  const point = Number.isFinite(value) ? value : 0;
  if (state.isIdle && point === 0) return state;
  const { kalman: kalmanOptions = KALMAN_DEFAULTS } = options;
  const measured = options.log1p === true ? Math.log1p(Math.max(0, point)) : point;
  const kalman =
    options.name !== 'kalman'
      ? undefined
      : state.kalman === undefined
        ? startKalman(measured)
        : observeKalman(state.kalman, measured, kalmanOptions);
  const kept = options.name === 'seasonal' ? seasonOf(options) + LEVEL_POINTS : POINTS_KEPT;
  const points = [...state.points, point].slice(-kept);
  return { points, count: state.count + 1, isIdle: false, ...(kalman && { kalman }) };
}

/** Ends a warm-up. The values that follow may begin with zeros again, which do not count. */
export function rearmIdleSkip(state: PredictorState): PredictorState {
  return { ...state, isIdle: true };
}

/**
 * Returns the value of the next window, never below 0; 0 if nothing was observed. A filter takes its step when it is
 * asked, once a window however often that is: keep the returned state.
 */
export function forecast(
  state: PredictorState,
  options: PredictorOptions,
): { readonly value: number; readonly state: PredictorState } {
  const last = state.points.at(-1) ?? 0;
  switch (options.name) {
    case 'constant':
      return { value: last, state };
    case 'moving': {
      const points = state.points.slice(-(options.movingPoints ?? MOVING_POINTS));
      return { value: Math.max(0, meanOf(points)), state };
    }
    case 'seasonal':
      return { value: seasonal(state.points, seasonOf(options)) ?? last, state };
    case 'arima':
      return { value: arima(state.points, options.log1p === true) ?? last, state };
    case 'kalman': {
      const { kalman: kalmanOptions = KALMAN_DEFAULTS } = options;
      if (state.kalman === undefined || state.count < kalmanOptions.pointsMin) return { value: last, state };
      const kalman = stepAhead(state.kalman, kalmanOptions);
      return {
        value: Math.max(0, options.log1p === true ? Math.expm1(kalman.level) : kalman.level),
        state: { ...state, kalman },
      };
    }
  }
}

function arima(points: readonly number[], isLog: boolean): number | undefined {
  const [first] = points;
  if (points.length < ARIMA_POINTS_MIN || first === undefined) return undefined;
  if (points.every((point) => point === first)) return first;
  const inLogs = (): number | undefined => {
    const fitted = forecastArima(points.map((point) => Math.log1p(Math.max(0, point))));
    return fitted && Math.max(0, Math.expm1(fitted.value));
  };
  if (isLog) return inLogs();
  const fitted = forecastArima(points);
  if (fitted === undefined) return undefined;
  // A mean says nothing about a series that multiplies.
  const value = fitted.isOnlyMean ? (inLogs() ?? fitted.value) : fitted.value;
  return Math.max(0, value);
}

function seasonOf({ seasonPoints = SEASON_POINTS }: PredictorOptions): number {
  return Math.min(SEASON_POINTS_MAX, Math.max(2, Math.round(seasonPoints)));
}

/** Returns the value that followed a season ago, scaled as the last points are against those before it. */
function seasonal(points: readonly number[], season: number): number | undefined {
  const at = points.length - season;
  if (at < 1) return undefined; // less than a season is known
  const then = meanOf(points.slice(Math.max(0, at - LEVEL_POINTS), at));
  const now = meanOf(points.slice(-Math.min(at, LEVEL_POINTS)));
  const level = then > 0 ? now / then : 1;
  return Math.max(0, points[at]! * level);
}

function meanOf(points: readonly number[]): number {
  return points.length === 0 ? 0 : points.reduce((total, point) => total + point, 0) / points.length;
}

/** Noise of the filter, and the points that it needs before it gives a forecast of its own. */
interface KalmanOptions {
  /** Variance by which the level wanders in a step. @default 1 */
  readonly qLevel: number;
  /** Variance by which the trend wanders in a step. @default 0.1 */
  readonly qTrend: number;
  /** Variance of a measurement. @default 10 */
  readonly r: number;
  /** @default 5 */
  readonly pointsMin: number;
}

const KALMAN_DEFAULTS: KalmanOptions = { qLevel: 1, qTrend: 0.1, r: 10, pointsMin: 5 };

/** A local linear trend: level and slope with their covariance. */
interface KalmanState {
  readonly level: number;
  readonly trend: number;
  readonly p00: number;
  readonly p01: number;
  readonly p11: number;
  /** The step to the next point is taken: a forecast was asked for. */
  readonly isAhead: boolean;
}

const R_MIN = 1e-9;
const Q_MIN = 1e-12;
const P_START = 1000;

/** The filter at its first point. */
function startKalman(value: number): KalmanState {
  return { level: value, trend: 0, p00: P_START, p01: 0, p11: P_START, isAhead: false };
}

/** Takes the step to the next point; does nothing if it is taken already. */
function stepAhead(state: KalmanState, { qLevel, qTrend }: KalmanOptions): KalmanState {
  if (state.isAhead) return state;
  const { level, trend, p00, p01, p11 } = state;
  return {
    level: level + trend,
    trend,
    p00: p00 + 2 * p01 + p11 + Math.max(qLevel, Q_MIN),
    p01: p01 + p11,
    p11: p11 + Math.max(qTrend, Q_MIN),
    isAhead: true,
  };
}

/** Corrects the filter by a measurement. */
function observeKalman(before: KalmanState, value: number, options: KalmanOptions): KalmanState {
  const { level, trend, p00, p01, p11 } = stepAhead(before, options);
  const spread = p00 + Math.max(options.r, R_MIN);
  const [gain, gainOfTrend] = [p00 / spread, p01 / spread];
  const error = value - level;
  return {
    level: level + gain * error,
    trend: trend + gainOfTrend * error,
    p00: (1 - gain) * p00,
    p01: (1 - gain) * p01,
    p11: p11 - gainOfTrend * p01,
    isAhead: false,
  };
}
