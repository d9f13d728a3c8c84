import { BoundedPattern } from '../patterns/bounded-pattern.ts';
import { isKnownPattern } from '../patterns/known-patterns.ts';
import { UnsupportedPattern } from '../patterns/parse-pattern.ts';
import { beginSteps } from '../patterns/steps.ts';

const SHORTHANDS: Readonly<Record<string, string>> = {
  s: '\\p{White_Space}', // JavaScript's own \s includes U+FEFF and omits U+0085
  S: '\\P{White_Space}',
  d: '\\p{Nd}',
  D: '\\P{Nd}',
};
/** Escapes that mean the same in both dialects, and syntax characters that stay escaped. */
const KEPT_ESCAPES = /[rntfv0^$\\.*+?()[\]{}|/-]/;

/**
 * Translates a pattern of the Oniguruma dialect, in which tokenizer.json files are written, to a JavaScript one with
 * flags `gv`. Matches of a pattern that is not a known one are limited by a step budget.
 * @throws UnsupportedPattern for possessive quantifiers, atomic groups, word boundaries, anchors and the like
 */
export function toJsPattern(pattern: string): RegExp {
  try {
    const regex = new RegExp(new Translator(pattern).translate(), 'gv');
    if (isKnownPattern(pattern)) return regex;
    return boundedPattern(regex);
  } catch (error) {
    if (error instanceof UnsupportedPattern) throw error;
    throw new UnsupportedPattern(`${pattern}: ${String(error)}`, { cause: error });
  }
}

function boundedPattern(pattern: RegExp): RegExp {
  const bounded = new BoundedPattern(pattern, 'gv');
  beginSteps(0);
  if (bounded.test('')) throw new UnsupportedPattern('the pattern matches the empty text');
  return bounded;
}

/** Escapes `text` so that it stands for itself in a pattern with flag `v`. */
export function escapePattern(text: string): string {
  return text.replace(/[\^$\\.*+?()[\]{}|/]/g, '\\$&');
}

class Translator {
  readonly #pattern: string;
  #at = 0;
  #classDepth = 0;
  /** Whether case is ignored, for each open group. */
  readonly #ignoresCase: boolean[] = [false];

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  translate(): string {
    let translated = '';
    while (this.#at < this.#pattern.length) translated += this.#nextPiece();
    return translated;
  }

  #nextPiece(): string {
    const char = String.fromCodePoint(this.#pattern.codePointAt(this.#at)!);
    this.#at += char.length;
    if (char === '\\') return this.#escape();
    if (this.#classDepth > 0) return this.#inClass(char);
    switch (char) {
      case '[':
        this.#classDepth++;
        return this.#pattern[this.#at] === '^' ? `[${this.#pattern[this.#at++]}` : '[';
      case '(':
        return this.#openGroup();
      case ')':
        this.#ignoresCase.pop();
        return char;
      case '+':
      case '*':
      case '?':
      case '{':
        return this.#quantifier(char);
      case '^':
      case '$':
        throw new UnsupportedPattern('anchor');
      default:
        return this.#foldCase(char);
    }
  }

  #escape(): string {
    const char = this.#pattern[this.#at++] ?? '';
    if (char === 'p' || char === 'P') return `\\${char}${this.#braces()}`;
    const shorthand = SHORTHANDS[char];
    if (shorthand !== undefined) return shorthand;
    if (char === 'x' && this.#pattern[this.#at] === '{') return `\\u${this.#braces()}`;
    if (char === 'u' || char === 'x') return `\\${char}`;
    if (/[a-zA-Z1-9]/.test(char) && !KEPT_ESCAPES.test(char)) throw new UnsupportedPattern(`\\${char}`);
    return KEPT_ESCAPES.test(char) ? `\\${char}` : char;
  }

  /** Translates a quantifier, greedy or lazy. A `+` after another quantifier would make it possessive. */
  #quantifier(first: string): string {
    const [count] = /^\{\d+(?:,\d*)?\}/.exec(this.#pattern.slice(this.#at - 1)) ?? [first];
    if (count === '{') return '\\{';
    this.#at += count.length - 1;
    const next = this.#pattern[this.#at];
    if (next === '+') throw new UnsupportedPattern('possessive quantifier');
    if (next !== '?') return count;
    this.#at++;
    return `${count}?`;
  }

  /** Consumes the `{...}` that comes next and returns it, with bare script names written as `Script=`. */
  #braces(): string {
    const end = this.#pattern.indexOf('}', this.#at);
    if (this.#pattern[this.#at] !== '{' || end < 0) throw new UnsupportedPattern('property without braces');
    const braces = this.#pattern.slice(this.#at, end + 1);
    this.#at = end + 1;
    if (braces.startsWith('{^')) throw new UnsupportedPattern('negated property');
    return braces.replace(/^\{(Han|Hiragana|Katakana|Hangul|Latin|Cyrillic|Greek|Arabic|Thai)\}$/, '{Script=$1}');
  }

  #inClass(char: string): string {
    if (char === '[') this.#classDepth++;
    if (char === ']') this.#classDepth--;
    if (this.#ignoresCase.at(-1) && /\p{L}/u.test(char)) throw new UnsupportedPattern('class that ignores case');
    if (char === '&' && this.#pattern[this.#at] === '&') return `&${this.#pattern[this.#at++]}`;
    // Flag v reserves these inside classes.
    return /[(){}/|]/.test(char) ? `\\${char}` : char;
  }

  #openGroup(): string {
    const rest = this.#pattern.slice(this.#at);
    const flags = /^\?(i)?:/.exec(rest);
    const outer = this.#ignoresCase.at(-1)!;
    if (flags !== null) {
      this.#ignoresCase.push(outer || flags[1] === 'i');
      this.#at += flags[0].length;
      return '(?:';
    }
    if (rest.startsWith('?=') || rest.startsWith('?!')) {
      this.#ignoresCase.push(outer);
      this.#at += 2;
      return `(${rest.slice(0, 2)}`;
    }
    if (rest.startsWith('?')) throw new UnsupportedPattern(`group (${rest.slice(0, 3)}`);
    this.#ignoresCase.push(outer);
    return '(?:';
  }

  /**
   * Expands a letter to the class of its cases, because Node 20 has no `(?i:`. The long s and the kelvin sign count as
   * cases too.
   */
  #foldCase(char: string): string {
    if (!this.#ignoresCase.at(-1) || !/\p{L}/u.test(char)) return char;
    const extra = { s: '\u017f', k: '\u212a' }[char.toLowerCase()] ?? '';
    return `[${char.toLowerCase()}${char.toUpperCase()}${extra}]`;
  }
}
