/** Returns the last point; 0 if there is none. */
export function forecastConstant(points: readonly number[]): number {
  return points.at(-1) ?? 0;
}
