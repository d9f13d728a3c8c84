import { GPT2_PATTERN, modernPattern } from '../patterns/known-patterns.ts';

/** Classes of characters in the splitting patterns of byte-level tokenizers. */
const OTHER = 0;

const LETTER = 1;

const NUMBER = 2;

const SPACE = 3;

const NEWLINE = 4;

/** Class of code points in a page of the table that is not filled yet. */
const UNKNOWN = 255;

const PAGE = 256;

/** Planes 0 to 3 hold every letter and number; the planes above them hold none. */
const TABLE_END = 0x40000;

let table: Uint8Array | undefined;

/** Returns the end of the word that begins at `text[at]`. Words follow each other without gaps. */
export type WordScanner = (text: string, at: number) => number;

/**
 * Returns a hand-written scanner for `pattern`, five times as fast as its regular expression; undefined for other
 * patterns.
 */
export function knownScanner(pattern: string): WordScanner | undefined {
  if (pattern === GPT2_PATTERN) return gpt2Scanner();
  if (pattern === modernPattern('\\p{N}')) return modernScanner(1);
  if (pattern === modernPattern('\\p{N}{1,3}')) return modernScanner(3);
  return undefined;
}

const APOSTROPHE = 0x27;
const BLANK = 0x20;

/**
 * Creates the scanner of GPT-2: contractions in lower case, runs of letters, numbers or others with one blank before
 * them, and white space.
 */
function gpt2Scanner(): WordScanner {
  const classes = charClasses();
  return (text, at) => {
    const unit = text.charCodeAt(at);
    if (unit === APOSTROPHE) {
      const end = contractionEnd(text, at, false);
      if (end > at) return end;
    }
    const from = unit === BLANK && at + 1 < text.length ? at + 1 : at;
    const kind = classAt(classes, text, from);
    if (kind === SPACE || kind === NEWLINE) return whiteSpaceEnd(classes, text, at, false);
    return runEnd(classes, text, from, kind);
  };
}

/**
 * Creates the scanner of cl100k, Llama 3 and Qwen: any mark may lead a word, a number has at most `digitsMax` digits,
 * and line ends belong to the characters before them.
 */
function modernScanner(digitsMax: number): WordScanner {
  const classes = charClasses();
  return (text, at) => {
    const unit = text.charCodeAt(at);
    const kind = classAt(classes, text, at);
    if (kind === LETTER) return runEnd(classes, text, at, LETTER);
    if (kind === NUMBER) return numberEnd(classes, text, at, digitsMax);
    if (unit === APOSTROPHE) {
      const end = contractionEnd(text, at, true);
      if (end > at) return end;
    }
    const next = at + ((unit & 0xfc00) === 0xd800 ? 2 : 1);
    const nextKind = next < text.length ? classAt(classes, text, next) : -1;
    if (nextKind === LETTER && kind !== NEWLINE) return runEnd(classes, text, next, LETTER);
    if (kind === OTHER) return newlinesEnd(text, runEnd(classes, text, at, OTHER));
    if (unit === BLANK && nextKind === OTHER) return newlinesEnd(text, runEnd(classes, text, next, OTHER));
    return whiteSpaceEnd(classes, text, at, true);
  };
}

function runEnd(classes: Uint8Array, text: string, from: number, kind: number): number {
  let at = from;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if ((unit & 0xf800) !== 0xd800) {
      if (classes[unit] !== kind && classOf(classes, unit) !== kind) return at;
      at++;
    } else {
      if (classAt(classes, text, at) !== kind) return at;
      at += 2;
    }
  }
  return at;
}

function numberEnd(classes: Uint8Array, text: string, from: number, digitsMax: number): number {
  let at = from;
  for (let digits = 0; digits < digitsMax && at < text.length; digits++) {
    if (classAt(classes, text, at) !== NUMBER) break;
    at += (text.charCodeAt(at) & 0xf800) === 0xd800 ? 2 : 1;
  }
  return at;
}

function newlinesEnd(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit !== 0x0a && unit !== 0x0d) break;
  }
  return at;
}

/**
 * Returns the end of white space as `\s*[\r\n]+|\s+(?!\S)|\s+` matches it; the first alternative only when
 * `splitsLines`. The match ends after the last line end of the run, if it has one. Otherwise it takes the whole run; if
 * a word follows, the run's last character belongs to that word.
 */
function whiteSpaceEnd(classes: Uint8Array, text: string, from: number, splitsLines: boolean): number {
  let at = from;
  let lineEnd = -1;
  for (; at < text.length; at++) {
    const kind = classAt(classes, text, at);
    if (kind === NEWLINE) lineEnd = at + 1;
    else if (kind !== SPACE) break;
  }
  if (splitsLines && lineEnd > 0) return lineEnd;
  return at < text.length && at - from > 1 ? at - 1 : at;
}

/** Returns the end of `'s 't 're 've 'm 'll 'd` at `at`, or `at`. */
function contractionEnd(text: string, at: number, ignoresCase: boolean): number {
  const first = foldedUnit(text, at + 1, ignoresCase);
  if (first === 's' || first === 't' || first === 'm' || first === 'd') return at + 2;
  const second = foldedUnit(text, at + 2, ignoresCase);
  const isPair = (second === 'e' && (first === 'r' || first === 'v')) || (second === 'l' && first === 'l');
  return isPair ? at + 3 : at;
}

function foldedUnit(text: string, at: number, ignoresCase: boolean): string {
  const unit = text.charAt(at);
  if (!ignoresCase) return unit;
  return unit === '\u017f' ? 's' : unit.toLowerCase(); // the long s counts as an s too
}

/**
 * Returns the class of each code point below U+40000. Pages are filled as texts need them: a process that starts needs
 * few.
 */
function charClasses(): Uint8Array {
  if (table === undefined) {
    table = new Uint8Array(TABLE_END).fill(UNKNOWN);
    fillPage(table, 0);
    table[0x0a] = NEWLINE;
    table[0x0d] = NEWLINE;
  }
  return table;
}

/** Returns the class of the code point that begins at `text[at]`; a code point above U+FFFF takes two units. */
function classAt(classes: Uint8Array, text: string, at: number): number {
  const unit = text.charCodeAt(at);
  if ((unit & 0xf800) !== 0xd800) return classOf(classes, unit);
  const codePoint = text.codePointAt(at)!;
  return codePoint < TABLE_END ? classOf(classes, codePoint) : OTHER;
}

function classOf(classes: Uint8Array, codePoint: number): number {
  if (classes[codePoint] === UNKNOWN) fillPage(classes, codePoint - (codePoint % PAGE));
  return classes[codePoint]!;
}

/** Classifies the code points of the page that begins at `first`, in about 0.02 ms. */
function fillPage(classes: Uint8Array, first: number): void {
  classes.fill(OTHER, first, first + PAGE);
  if ((first & 0x1ff800) === 0xd800) return; // lone surrogates
  const text = String.fromCodePoint(...Array.from({ length: PAGE }, (_, at) => first + at));
  const width = first < 0x10000 ? 1 : 2;
  mark(classes, text, first, width, /\p{L}+/gu, LETTER);
  mark(classes, text, first, width, /\p{N}+/gu, NUMBER);
  mark(classes, text, first, width, /\p{White_Space}+/gu, SPACE);
}

function mark(classes: Uint8Array, text: string, first: number, width: number, runs: RegExp, value: number): void {
  for (const run of text.matchAll(runs)) {
    const start = first + run.index / width;
    classes.fill(value, start, start + run[0].length / width);
  }
}
