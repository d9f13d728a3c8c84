const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns the milliseconds of a time such as `90s`, `30m`, `6h` or `2d`; NaN if the text is no time. */
export function readTimeSpan(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  return Number(count) * (UNITS_MS[unit] ?? Number.NaN);
}
