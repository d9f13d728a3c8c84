const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const;

/** Python's `strftime` in English and UTC, so that every replica renders the same prompt. Unknown codes stay as text. */
export function formatTime(unixMs: number, format: string): string {
  const date = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = DAYS[date.getUTCDay()]!;
  const month = MONTHS[date.getUTCMonth()]!;
  const hour12 = date.getUTCHours() % 12 || 12;
  const dayOfYear = Math.floor(
    (Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()) - Date.UTC(date.getUTCFullYear(), 0, 0)) /
      86_400_000,
  );
  const codes: Readonly<Record<string, string | number>> = {
    Y: date.getUTCFullYear(),
    y: two(date.getUTCFullYear() % 100),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    '-d': date.getUTCDate(),
    '-m': date.getUTCMonth() + 1,
    e: String(date.getUTCDate()).padStart(2, ' '),
    j: String(dayOfYear).padStart(3, '0'),
    H: two(date.getUTCHours()),
    I: two(hour12),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    p: date.getUTCHours() < 12 ? 'AM' : 'PM',
    A: day,
    a: day.slice(0, 3),
    B: month,
    b: month.slice(0, 3),
    Z: 'UTC',
    z: '+0000',
    '%': '%',
  };
  return format.replace(/%(-?[A-Za-z%])/g, (text, code: string) => String(codes[code] ?? text));
}
