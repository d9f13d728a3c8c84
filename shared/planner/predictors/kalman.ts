/** Noise of the filter, and how many points it wants before it says anything of its own. */
export interface KalmanOptions {
  /** How far the level wanders in a step, as a variance. @default 1 */
  readonly qLevel: number;
  /** How far the trend does. @default 0.1 */
  readonly qTrend: number;
  /** Variance of a measurement. @default 10 */
  readonly r: number;
  /** @default 5 */
  readonly pointsMin: number;
}

export const KALMAN_DEFAULTS: KalmanOptions = { qLevel: 1, qTrend: 0.1, r: 10, pointsMin: 5 };

/** A local linear trend: level and slope with their covariance. */
export interface KalmanState {
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
export function startKalman(value: number): KalmanState {
  return { level: value, trend: 0, p00: P_START, p01: 0, p11: P_START, isAhead: false };
}

/** Takes the step to the next point; does nothing where it is taken. */
export function stepAhead(state: KalmanState, { qLevel, qTrend }: KalmanOptions): KalmanState {
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

/** Corrects the filter by what was measured. */
export function observeKalman(before: KalmanState, value: number, options: KalmanOptions): KalmanState {
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
