/** Returns the mean of values; 0 if there are none. */
export function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((total, point) => total + point, 0) / values.length;
}
