import { meanOf } from './mean.ts';

const MOVING_POINTS = 5;

/**
 * Returns the mean of the last points, never below 0.
 * @param movingPoints points of the mean; 5 if undefined
 */
export function forecastMoving(points: readonly number[], movingPoints = MOVING_POINTS): number {
  return Math.max(0, meanOf(points.slice(-movingPoints)));
}
