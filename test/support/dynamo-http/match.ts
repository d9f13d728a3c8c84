/** A value in an expectation that stands for many values, which `describe` names. */
export class Matcher {
  readonly describe: string;
  readonly #accepts: (value: unknown) => boolean;

  constructor(describe: string, accepts: (value: unknown) => boolean) {
    this.describe = describe;
    this.#accepts = accepts;
  }

  accepts(value: unknown): boolean {
    return this.#accepts(value);
  }
}

export const oneOf = (...values: readonly unknown[]): Matcher =>
  new Matcher(`one of ${JSON.stringify(values)}`, (value) => values.includes(value));
export const textWith = (...parts: readonly string[]): Matcher =>
  new Matcher(`text with ${JSON.stringify(parts)}`, (value) =>
    parts.every((part) => typeof value === 'string' && value.includes(part)),
  );
/** Matches one of several values, some of which may be matchers. */
export const anyOf = (...values: readonly unknown[]): Matcher =>
  new Matcher(`any of ${values.map(show).join(' or ')}`, (value) =>
    values.some((one) => (one instanceof Matcher ? one.accepts(value) : Object.is(one, value))),
  );
export const anything: Matcher = new Matcher('anything', () => true);

/** Returns the places where `actual` differs from `expected`. Undefined keys count as absent. */
export function differencesOf(expected: unknown, actual: unknown, at = '$'): readonly string[] {
  if (expected instanceof Matcher) {
    return expected.accepts(actual) ? [] : [`${at}: expected ${expected.describe}, got ${show(actual)}`];
  }
  if (Array.isArray(expected) && Array.isArray(actual)) {
    const lengths =
      expected.length === actual.length ? [] : [`${at}: expected ${expected.length} items, got ${show(actual)}`];
    const shared = Math.min(expected.length, actual.length);
    return [
      ...lengths,
      ...Array.from({ length: shared }, (_, i) => differencesOf(expected[i], actual[i], `${at}[${i}]`)).flat(),
    ];
  }
  if (isRecord(expected) && isRecord(actual)) {
    const keys = new Set([...Object.keys(expected), ...Object.keys(actual)]);
    return [...keys].flatMap((key) => differencesOf(expected[key], actual[key], `${at}.${key}`));
  }
  if (typeof expected === 'number' && typeof actual === 'number' && Math.abs(expected - actual) < 1e-6) return [];
  return Object.is(expected, actual) ? [] : [`${at}: expected ${show(expected)}, got ${show(actual)}`];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Matcher);
}

function show(value: unknown): string {
  if (value instanceof Matcher) return value.describe;
  return JSON.stringify(value)?.slice(0, 300) ?? 'nothing';
}
