import { isSpace } from './scan.ts';

/** Value in Python's notation as JSON text. `end` is the position after it. */
export interface PythonLiteral {
  readonly json: string;
  readonly end: number;
}

const WORDS: Readonly<Record<string, string>> = {
  True: 'true',
  False: 'false',
  None: 'null',
  true: 'true',
  false: 'false',
  null: 'null',
};
const NUMBER = /[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\x07',
  '0': '\0',
  '\n': '',
};
const DEPTH_MAX = 64;
const I64_MIN = -(2n ** 63n);
const U64_MAX = 2n ** 64n - 1n;

/**
 * Reads a string, number, truth value, `None`, or a list, tuple or dict of these at `at`; undefined when it is not a
 * constant. Integers beyond 64 bits become strings.
 */
export function parsePythonLiteral(text: string, at: number, depth = 0): PythonLiteral | undefined {
  const start = skipSpaces(text, at);
  const first = text[start];
  if (first === undefined || depth > DEPTH_MAX) return undefined;
  if (first === "'" || first === '"') return parseString(text, start);
  if (first === '[') return parseSequence(text, start + 1, ']', depth);
  if (first === '(') return parseSequence(text, start + 1, ')', depth);
  if (first === '{') return parseDict(text, start + 1, depth);
  const word = /[A-Za-z]+/y;
  word.lastIndex = start;
  const found = word.exec(text)?.[0];
  if (found !== undefined) {
    const json = Object.hasOwn(WORDS, found) ? WORDS[found] : undefined;
    return json === undefined ? undefined : { json, end: start + found.length };
  }
  return parseNumber(text, start);
}

/** Converts the whole text, as one value in Python's notation, to JSON. */
export function pythonToJson(text: string): string | undefined {
  const literal = parsePythonLiteral(text, 0);
  return literal !== undefined && skipSpaces(text, literal.end) === text.length ? literal.json : undefined;
}

/** Returns the position after the string that opens at `at`, its quotes included; -1 when it does not end. */
export function endOfPythonString(text: string, at: number): number {
  const quote = text[at] as string; // the caller has checked it
  const isTriple = text.startsWith(quote.repeat(3), at);
  const closing = isTriple ? quote.repeat(3) : quote;
  for (let next = at + closing.length; next < text.length; next++) {
    if (text[next] === '\\') next++;
    else if (text.startsWith(closing, next)) return next + closing.length;
  }
  return -1;
}

export function skipSpaces(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text.charCodeAt(at))) at++;
  return at;
}

function parseString(text: string, at: number): PythonLiteral | undefined {
  const end = endOfPythonString(text, at);
  if (end < 0) return undefined;
  const width = text.startsWith((text[at] as string).repeat(3), at) ? 3 : 1;
  const body = text.slice(at + width, end - width);
  const value = body.replace(
    /\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[\s\S])/g,
    (whole: string, code: string) => {
      if (code.length > 1) return decodeCodePoint(code) ?? whole;
      if (code === '\\' || code === "'" || code === '"') return code;
      return ESCAPES[code] ?? whole;
    },
  );
  return { json: JSON.stringify(value), end };
}

function decodeCodePoint(code: string): string | undefined {
  const point = Number.parseInt(code.slice(1), 16);
  return point <= 0x10ffff ? String.fromCodePoint(point) : undefined;
}

function parseSequence(text: string, from: number, closing: string, depth: number): PythonLiteral | undefined {
  const items: string[] = [];
  let at = skipSpaces(text, from);
  while (text[at] !== closing) {
    const item = parsePythonLiteral(text, at, depth + 1);
    if (item === undefined) return undefined;
    items.push(item.json);
    at = skipSpaces(text, item.end);
    if (text[at] === ',') at = skipSpaces(text, at + 1);
    else if (text[at] !== closing) return undefined;
  }
  return { json: `[${items.join(',')}]`, end: at + 1 };
}

function parseDict(text: string, from: number, depth: number): PythonLiteral | undefined {
  const members: string[] = [];
  let at = skipSpaces(text, from);
  while (text[at] !== '}') {
    const key = parsePythonLiteral(text, at, depth + 1);
    if (key === undefined || /^[[{]/.test(key.json)) return undefined;
    at = skipSpaces(text, key.end);
    if (text[at] !== ':') return undefined;
    const value = parsePythonLiteral(text, at + 1, depth + 1);
    if (value === undefined) return undefined;
    members.push(`${key.json.startsWith('"') ? key.json : JSON.stringify(key.json)}:${value.json}`);
    at = skipSpaces(text, value.end);
    if (text[at] === ',') at = skipSpaces(text, at + 1);
    else if (text[at] !== '}') return undefined;
  }
  return { json: `{${members.join(',')}}`, end: at + 1 };
}

function parseNumber(text: string, at: number): PythonLiteral | undefined {
  NUMBER.lastIndex = at;
  const raw = NUMBER.exec(text)?.[0];
  if (raw === undefined || /^\w/.test(text.slice(at + raw.length))) return undefined;
  const json = numberToJson(raw.replaceAll('_', ''));
  return json === undefined ? undefined : { json: isBeyond64Bits(json) ? `"${json}"` : json, end: at + raw.length };
}

/** Writes a number as JSON and keeps its digits: no plus sign, no leading zeros, a digit on both sides of the point. */
export function numberToJson(raw: string): string | undefined {
  const parts = /^([+-]?)(\d*)(?:\.(\d*))?([eE][+-]?\d+)?$/.exec(raw);
  if (parts === null || (parts[2] === '' && (parts[3] ?? '') === '')) return undefined;
  const [, sign, whole = '', fraction = '', exponent = ''] = parts;
  const digits = whole.replace(/^0+(?=\d)/, '') || '0';
  return `${sign === '-' ? '-' : ''}${digits}${fraction === '' ? '' : `.${fraction}`}${exponent}`;
}

function isBeyond64Bits(json: string): boolean {
  if (!/^-?\d{19,}$/.test(json)) return false;
  if (json.length > U64_MAX.toString().length + 1) return true; // parsing very many digits takes very long
  const value = BigInt(json);
  return value < I64_MIN || value > U64_MAX;
}
