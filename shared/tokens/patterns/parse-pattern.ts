/** Error for a pattern of a tokenizer that uses unsupported syntax. */
export class UnsupportedPattern extends Error {
  override readonly name = 'UnsupportedPattern';
}

/** Returns whether a code point matches. */
export type Atom = (codePoint: number) => boolean;

export type Node =
  | { readonly kind: 'atom'; readonly atom: Atom }
  | { readonly kind: 'assert'; readonly holds: (text: string, at: number) => boolean }
  | { readonly kind: 'sequence' | 'either'; readonly items: readonly Node[] }
  | { readonly kind: 'look'; readonly item: Node; readonly isNegative: boolean }
  | {
      readonly kind: 'repeat';
      readonly item: Node;
      readonly min: number;
      readonly max: number;
      readonly isGreedy: boolean;
    };

const DEPTH_MAX = 100;
/** Limit of distinct classes: each has a table of the code points that it was asked about. */
const CLASSES_MAX = 256;
/** Limit of a counted repetition: no word has this many characters of one kind in a row. */
const COUNT_MAX = 1000;
const ESCAPE = /\\(?:[pP]\{[^}]*\}|u\{[0-9A-Fa-f]+\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z]|[^pPuxc1-9k])/uy;
const QUANTIFIER = /(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})(\??)/y;
const GROUP = /\((?:\?(?:(:)|(=)|(!)|<[A-Za-z_]\w*>))?/y;

const isWord = (text: string, at: number): boolean => /\w/.test(text.charAt(at));
const isWordEdge = (text: string, at: number): boolean => isWord(text, at - 1) !== isWord(text, at);

/** Parses a valid JavaScript pattern. */
export class PatternParser {
  readonly #source: string;
  readonly #flag: 'u' | 'v';
  readonly #classes = new Map<string, Atom>();
  #at = 0;

  constructor(source: string, flag: 'u' | 'v') {
    this.#source = source;
    this.#flag = flag;
  }

  /** Returns the pattern's tree. @throws UnsupportedPattern for back references and lookbehinds */
  parse(): Node {
    const node = this.#either(0);
    if (this.#at < this.#source.length) throw new UnsupportedPattern(`${this.#source.slice(this.#at, this.#at + 8)}`);
    return node;
  }

  #either(depth: number): Node {
    if (depth > DEPTH_MAX) throw new UnsupportedPattern('groups are nested too deeply');
    const choices: Node[] = [];
    let items: Node[] = [];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ')') {
      if (this.#source[this.#at] === '|') {
        this.#at++;
        choices.push({ kind: 'sequence', items });
        items = [];
      } else items.push(this.#repeated(this.#item(depth)));
    }
    const last: Node = { kind: 'sequence', items };
    return choices.length === 0 ? last : { kind: 'either', items: [...choices, last] };
  }

  #item(depth: number): Node {
    switch (this.#source[this.#at]) {
      case '(':
        return this.#group(depth);
      case '[':
        return { kind: 'atom', atom: this.#class(this.#take(this.#classEnd())) };
      case '.':
        return { kind: 'atom', atom: this.#class(this.#take(this.#at + 1)) };
      case '^':
        this.#at++;
        return { kind: 'assert', holds: (_, at) => at === 0 };
      case '$':
        this.#at++;
        return { kind: 'assert', holds: (text, at) => at === text.length };
      case '\\':
        return this.#escape();
      default: {
        const code = this.#source.codePointAt(this.#at)!;
        this.#at += code > 0xffff ? 2 : 1;
        return { kind: 'atom', atom: (codePoint) => codePoint === code };
      }
    }
  }

  #escape(): Node {
    const [escaped] = this.#read(ESCAPE) ?? [];
    if (escaped === undefined) throw new UnsupportedPattern(this.#source.slice(this.#at, this.#at + 2));
    if (escaped === '\\b') return { kind: 'assert', holds: isWordEdge };
    if (escaped === '\\B') return { kind: 'assert', holds: (text, at) => !isWordEdge(text, at) };
    return { kind: 'atom', atom: this.#class(escaped) };
  }

  #group(depth: number): Node {
    const [, , isAhead, isNotAhead] = this.#read(GROUP) ?? [];
    if (this.#source[this.#at] === '?')
      throw new UnsupportedPattern(`group (${this.#source.slice(this.#at, this.#at + 3)}`);
    const item = this.#either(depth + 1);
    this.#at++; // the closing bracket
    const isLook = isAhead !== undefined || isNotAhead !== undefined;
    return isLook ? { kind: 'look', item, isNegative: isNotAhead !== undefined } : item;
  }

  #repeated(item: Node): Node {
    const found = this.#read(QUANTIFIER);
    if (found === undefined) return item;
    const [, sign, least, comma, most, lazy] = found;
    let min = sign === '+' ? 1 : 0;
    let max = sign === '?' ? 1 : Number.POSITIVE_INFINITY;
    if (least !== undefined) {
      min = Number(least);
      max = comma === undefined ? min : most === '' || most === undefined ? max : Number(most);
    }
    const isCounted = (max === Number.POSITIVE_INFINITY ? min : max) > COUNT_MAX;
    if (isCounted) throw new UnsupportedPattern(`a count above ${COUNT_MAX}`);
    return { kind: 'repeat', item, min, max, isGreedy: lazy !== '?' };
  }

  #classEnd(): number {
    let depth = 0;
    for (let at = this.#at; at < this.#source.length; at++) {
      const char = this.#source[at];
      if (char === '\\') at++;
      else if (char === '[' && (depth === 0 || this.#flag === 'v')) depth++;
      else if (char === ']' && --depth === 0) return at + 1;
    }
    throw new UnsupportedPattern('a class without end');
  }

  #class(source: string): Atom {
    let atom = this.#classes.get(source);
    if (atom !== undefined) return atom;
    if (this.#classes.size >= CLASSES_MAX) throw new UnsupportedPattern('too many classes');
    for (const [property] of source.matchAll(/\\[pP]\{[^}]*\}/g)) refuseTexts(property);
    atom = classAtom(new RegExp(`^${source}$`, this.#flag));
    this.#classes.set(source, atom);
    return atom;
  }

  #read(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source) ?? undefined;
    if (found !== undefined) this.#at = pattern.lastIndex;
    return found;
  }

  #take(end: number): string {
    const taken = this.#source.slice(this.#at, end);
    this.#at = end;
    return taken;
  }
}

/** Refuses a property of texts, e.g. of emoji that are made of several characters. */
function refuseTexts(property: string): void {
  try {
    new RegExp(property, 'u');
  } catch {
    throw new UnsupportedPattern(property);
  }
}

const UNASKED = 0;
const INSIDE = 1;
const OUTSIDE = 2;

/** Returns the atom of a class; stores its answers for the lowest 65,536 code points. */
function classAtom(pattern: RegExp): Atom {
  let known = new Uint8Array(256);
  return (codePoint) => {
    if (codePoint > 0xffff) return pattern.test(String.fromCodePoint(codePoint));
    if (codePoint >= known.length) {
      const wider = new Uint8Array(0x10000);
      wider.set(known);
      known = wider;
    }
    if (known[codePoint] === UNASKED) {
      known[codePoint] = pattern.test(String.fromCharCode(codePoint)) ? INSIDE : OUTSIDE;
    }
    return known[codePoint] === INSIDE;
  };
}
