/** Digits from which on a whole number may be inexact as a JavaScript number. */
const LONG_INTEGER = /\d{16}/;
/** Strings and numbers of a JSON text, each as one match. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;
const WHOLE = /^-?\d{16,}$/;
/** Puts long integers apart from text while the built-in parser reads them; no text that a client writes begins so. */
const MARK = '\u0000integer:';
const MARK_ESCAPED = '\\u0000integer:';

/**
 * Reads JSON whose 64-bit integers are plain numbers, as Dynamo writes them: whole numbers that JavaScript would round
 * become bigints, all others stay numbers. The built-in parser cannot: it has rounded before a reviver sees anything.
 *
 * @throws SyntaxError for text that is no JSON
 */
export function parseExactJson(text: string): unknown {
  const plain: unknown = JSON.parse(text); // also the check that the text is JSON, in its own words
  if (!LONG_INTEGER.test(text)) return plain;
  const marked = text.replace(TOKENS, (token) => (WHOLE.test(token) ? `"${MARK_ESCAPED}${token}"` : token));
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(MARK) ? integerOf(value) : value,
  );
}

function integerOf(marked: string): number | bigint | string {
  const digits = marked.slice(MARK.length);
  if (!WHOLE.test(digits)) return marked; // text of a client after all
  const exact = BigInt(digits);
  const number = Number(exact);
  return Number.isSafeInteger(number) ? number : exact;
}

/** JSON text with bigints as plain numbers; everything else as the built-in writer does it. */
export function writeExactJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map((entry) => writeExactJson(entry ?? null)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${writeExactJson(field)}`).join(',')}}`;
}
