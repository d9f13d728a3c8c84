/** Classes of characters as the splitting patterns of byte-level tokenizers see them. */
export const OTHER = 0;
export const LETTER = 1;
export const NUMBER = 2;
export const SPACE = 3;
export const NEWLINE = 4;

/** Planes 0 to 3 hold every letter and number; above them there are none. */
const TABLE_END = 0x40000;

let table: Uint8Array | undefined;

/** Class of each code point below U+40000. Filled on first use by three sweeps of regular expressions, about 5 ms. */
export function charClasses(): Uint8Array {
  table ??= fillTable();
  return table;
}

/** Class of the code point that begins at `text[at]`; a code point above U+FFFF takes two units. */
export function classAt(classes: Uint8Array, text: string, at: number): number {
  const unit = text.charCodeAt(at);
  if ((unit & 0xf800) !== 0xd800) return classes[unit]!;
  const codePoint = text.codePointAt(at)!;
  return codePoint < TABLE_END ? classes[codePoint]! : OTHER;
}

function fillTable(): Uint8Array {
  const classes = new Uint8Array(TABLE_END);
  for (let plane = 0; plane < TABLE_END; plane += 0x8000) {
    const units: string[] = [];
    for (let codePoint = plane; codePoint < plane + 0x8000; codePoint++) {
      // Surrogates never reach the table; a stand-in keeps positions simple.
      units.push((codePoint & 0x1ff800) === 0xd800 ? '\u0000' : String.fromCodePoint(codePoint));
    }
    const text = units.join('');
    const width = plane < 0x10000 ? 1 : 2;
    mark(classes, text, plane, width, /\p{L}+/gu, LETTER);
    mark(classes, text, plane, width, /\p{N}+/gu, NUMBER);
    mark(classes, text, plane, width, /\p{White_Space}+/gu, SPACE);
  }
  classes[0x0a] = NEWLINE;
  classes[0x0d] = NEWLINE;
  return classes;
}

function mark(classes: Uint8Array, text: string, first: number, width: number, runs: RegExp, value: number): void {
  for (const run of text.matchAll(runs)) {
    const start = first + run.index / width;
    classes.fill(value, start, start + run[0].length / width);
  }
}
