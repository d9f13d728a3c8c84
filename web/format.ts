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
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 99_950) return `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000); // rounded before it is split, so that 60 s are a minute
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return NOTHING;
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/* Nothing here uses Intl: the first formatter of a page takes Chromium 40 ms, in which the page does not react. */

/** Writes a number with commas between thousands, in at most three decimals. */
export function whole(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  const [units = '', ...decimals] = String(Math.round(value * 1000) / 1000).split('.');
  return [grouped(units), ...decimals].join('.');
}

function grouped(digits: string): string {
  return digits.replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** Writes US dollars in whole cents, or that they are unknown. */
export function dollars(amount: number | null): string {
  if (amount === null) return 'unknown';
  const [units = '', cents] = amount.toFixed(2).split('.');
  return `$${grouped(units)}.${cents}`;
}

/** Writes US dollars, however few they are, with two or more digits that count: $0.00042. */
export function smallDollars(amount: number | null): string {
  if (amount === null) return NOTHING;
  if (amount === 0 || amount >= 1) return dollars(amount);
  return `$${amount.toFixed(Math.min(20, 1 - Math.floor(Math.log10(amount))))}`;
}

/** Writes the time of day of a Unix time in milliseconds: 09:05:00. */
export function timeOfDay(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8);
}

/** Writes the hour and minute of a Unix time in milliseconds: 09:05. */
export function hourAndMinute(ms: number): string {
  return timeOfDay(ms).slice(0, 5);
}

/** Writes the day of a Unix time in milliseconds, in UTC: 2026-01-31. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Writes the day of a Unix time in milliseconds, where the user is: 31/01/2026. */
export function localDayOf(ms: number): string {
  const at = new Date(ms);
  const [day, month] = [at.getDate(), at.getMonth() + 1].map((part) => String(part).padStart(2, '0'));
  return `${day}/${month}/${at.getFullYear()}`;
}

export function text(value: string | null | undefined): string {
  return value === null || value === undefined || value === '' ? NOTHING : value;
}
