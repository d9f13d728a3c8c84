import { forecastArima } from './arima.ts';
import { forecastConstant } from './constant.ts';
import { forecastKalman, type KalmanOptions, type KalmanState, observeKalman } from './kalman.ts';
import { forecastMoving } from './moving.ts';
import { forecastSeasonal, pointsOfSeason } from './seasonal.ts';

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

/**
 * Adds the value of a window. A value that is not a number counts as 0; zeros before the first other value are dropped.
 */
export function observe(state: PredictorState, value: number, options: PredictorOptions): PredictorState {
  const point = Number.isFinite(value) ? value : 0;
  if (state.isIdle && point === 0) return state;
  const measured = options.log1p === true ? Math.log1p(Math.max(0, point)) : point;
  const kalman = options.name === 'kalman' ? observeKalman(state.kalman, measured, options.kalman) : undefined;
  const kept = options.name === 'seasonal' ? pointsOfSeason(options.seasonPoints) : POINTS_KEPT;
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
  const { points } = state;
  switch (options.name) {
    case 'constant':
      return { value: forecastConstant(points), state };
    case 'moving':
      return { value: forecastMoving(points, options.movingPoints), state };
    case 'seasonal':
      return { value: forecastSeasonal(points, options.seasonPoints), state };
    case 'arima':
      return { value: forecastArima(points, options.log1p === true), state };
    case 'kalman': {
      const kalman = forecastKalman(state.kalman, state.count, options.kalman);
      if (kalman === undefined) return { value: forecastConstant(points), state };
      const value = Math.max(0, options.log1p === true ? Math.expm1(kalman.level) : kalman.level);
      return { value, state: { ...state, kalman } };
    }
  }
}
