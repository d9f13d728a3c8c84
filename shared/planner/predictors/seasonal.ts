import { forecastConstant } from './constant.ts';
import { meanOf } from './mean.ts';

/** A day of windows of three minutes. */
const SEASON_POINTS = 480;
/** A day of windows of a minute. */
export const SEASON_POINTS_MAX = 1440;
/** Points that compare the present level with that of a season ago. */
const LEVEL_POINTS = 5;

/** Returns the number of points that a seasonal forecast reads: a season, and the points before it. */
export function pointsOfSeason(season: number | undefined): number {
  return seasonOf(season) + LEVEL_POINTS;
}

function seasonOf(seasonPoints = SEASON_POINTS): number {
  return Math.min(SEASON_POINTS_MAX, Math.max(2, Math.round(seasonPoints)));
}

/**
 * Returns the value that followed a season ago, scaled as the last points are against those before it. Returns the last
 * point until a season is known.
 * @param seasonPoints points of a season; 480 if undefined
 */
export function forecastSeasonal(points: readonly number[], seasonPoints: number | undefined): number {
  const at = points.length - seasonOf(seasonPoints);
  if (at < 1) return forecastConstant(points);
  const then = meanOf(points.slice(Math.max(0, at - LEVEL_POINTS), at));
  const now = meanOf(points.slice(-Math.min(at, LEVEL_POINTS)));
  const level = then > 0 ? now / then : 1;
  return Math.max(0, points[at]! * level);
}
