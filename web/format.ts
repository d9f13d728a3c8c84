const NOTHING = '–';

/** Writes a number in at most four characters and a unit: 1234 becomes 1.2k. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)}G`;
  if (size >= 1e6) return `${digits(value / 1e6)}M`;
  if (size >= 1e4) return `${digits(value / 1e3)}k`;
  return digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 100) return String(Math.round(value));
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Writes milliseconds with their unit: 0.8 ms, 120 ms, 1.52 s, 2 min 5 s. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NOTHING;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 100_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return NOTHING;
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

const WHOLE = new Intl.NumberFormat('en'); // a formatter for each number would cost more than its row

export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? NOTHING : WHOLE.format(value);
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

/** Writes the time of day of a Unix time in milliseconds. */
export function timeOfDay(ms: number): string {
  return CLOCK.format(ms);
}

/** Writes the day of a Unix time in milliseconds. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export function text(value: string | null | undefined): string {
  return value === null || value === undefined || value === '' ? NOTHING : value;
}
