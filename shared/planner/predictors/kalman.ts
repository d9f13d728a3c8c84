/** Noise of the filter, and the points that it needs before it gives a forecast of its own. */
export interface KalmanOptions {
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

/** Returns the filter at its first point. */
function startKalman(value: number): KalmanState {
  return { level: value, trend: 0, p00: P_START, p01: 0, p11: P_START, isAhead: false };
}

/**
 * Returns the filter after its step to the next point, whose level is the forecast; undefined before it has enough of
 * the `count` points.
 */
export function forecastKalman(
  state: KalmanState | undefined,
  count: number,
  options: KalmanOptions = KALMAN_DEFAULTS,
): KalmanState | undefined {
  return state === undefined || count < options.pointsMin ? undefined : stepAhead(state, options);
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

/** Corrects the filter by a measurement; starts it if there is none. */
export function observeKalman(
  before: KalmanState | undefined,
  value: number,
  options: KalmanOptions = KALMAN_DEFAULTS,
): KalmanState {
  if (before === undefined) return startKalman(value);
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
