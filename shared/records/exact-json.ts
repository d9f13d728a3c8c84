/** A string, which stays unchanged, or a whole number that a double may not hold. Digits after a point do not count. */
const LONG_NUMBER = /"(?:[^"\\]|\\.)*"|(?<![\d.])-?\d{16,}(?![\d.eE])/g;
/** Prefix of the digits while they are a text. No supported server writes it at the start of a string. */
const MARK = '\u0000int:';
const MARKED = /"\\u0000int:(-?\d+)"/g;

/** Digits of such a number, or of a text. The digits of a fraction do not count. */
const LONG_DIGITS = /(?<![\d.])\d{16}/;

/** Parses JSON text; whole numbers beyond 2^53, which a number may not hold, become bigints. @throws SyntaxError */
export function parseExact(text: string): unknown {
  if (!LONG_DIGITS.test(text)) return JSON.parse(text);
  const marked = text.replace(LONG_NUMBER, (found) => (found.startsWith('"') ? found : JSON.stringify(MARK + found)));
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(MARK) ? wholeNumber(value.slice(MARK.length)) : value,
  );
}

function wholeNumber(digits: string): number | bigint {
  const rounded = Number(digits);
  return Number.isSafeInteger(rounded) ? rounded : BigInt(digits);
}

/** Writes a value as JSON text; bigints become numbers with all of their digits. */
export function exactText(value: unknown): string {
  const marked = JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? `${MARK}${each}` : each));
  return marked.replace(MARKED, '$1');
}
