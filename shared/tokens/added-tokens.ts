import { asRecord } from '../records/index.ts';
import { TOKEN_ID_MAX } from './bpe/tables.ts';

/** Entry of `added_tokens` in tokenizer.json. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether the token is left out of text when special tokens are skipped. */
  readonly special: boolean;
  /** Whether the token is matched in the normalized text instead of the raw one. */
  readonly normalized: boolean;
  /** Whether the match includes the white space before the token. */
  readonly lstrip: boolean;
  /** Whether the match includes the white space after the token. */
  readonly rstrip: boolean;
  /** Whether a match inside a word does not count. */
  readonly singleWord: boolean;
}

/** Limit of a token's length, because tables hold lengths in 16 bits. */
const CONTENT_UNITS_MAX = 16_384;

/** Reads `added_tokens`; refuses entries without id or content. @throws SyntaxError naming the entry */
export function readAddedTokens(list: unknown): readonly AddedToken[] {
  if (list === undefined || list === null) return [];
  if (!Array.isArray(list)) throw new SyntaxError('added_tokens is not a list');
  return list.map((entry, index) => {
    const { id, content, ...flags } = asRecord(entry) ?? {};
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || typeof content !== 'string') {
      throw new SyntaxError(`added_tokens[${index}] lacks an id or a content`);
    }
    if (id > TOKEN_ID_MAX) throw new SyntaxError(`added_tokens[${index}] has an id above ${TOKEN_ID_MAX}`);
    if (content.length > CONTENT_UNITS_MAX) throw new SyntaxError(`added_tokens[${index}] is too large`);
    const special = flags.special === true;
    return {
      id,
      content,
      special,
      normalized: typeof flags.normalized === 'boolean' ? flags.normalized : !special,
      lstrip: flags.lstrip === true,
      rstrip: flags.rstrip === true,
      singleWord: flags.single_word === true,
    };
  });
}

/**
 * Added tokens packed into few values, for another thread and for a file: one object for each token takes this thread
 * 15 ms for 32,768 of them.
 */
export interface PackedAddedTokens {
  /** Contents of all tokens, one after another. */
  readonly contents: string;
  /** Length of each content in UTF-16 units. */
  readonly lengths: readonly number[];
  readonly ids: readonly number[];
  /** Bits of `FLAGS`, for each token. */
  readonly flags: readonly number[];
}

const FLAGS = { special: 1, normalized: 2, lstrip: 4, rstrip: 8, singleWord: 16 } as const;
type FlagName = keyof typeof FLAGS;

export function packAddedTokens(tokens: readonly AddedToken[]): PackedAddedTokens {
  const names = Object.keys(FLAGS) as FlagName[];
  return {
    contents: tokens.map(({ content }) => content).join(''),
    lengths: tokens.map(({ content }) => content.length),
    ids: tokens.map(({ id }) => id),
    flags: tokens.map((token) => names.reduce((bits, name) => bits | (token[name] ? FLAGS[name] : 0), 0)),
  };
}

/** Checks that a value read from a file can be unpacked. */
export function isPackedAddedTokens(value: unknown): value is PackedAddedTokens {
  const { contents, ...lists } = asRecord(value) ?? {};
  const { lengths, ids, flags } = lists;
  if (typeof contents !== 'string' || !Array.isArray(ids)) return false;
  const isAlong = (list: unknown): boolean =>
    Array.isArray(list) && list.length === ids.length && list.every((one) => Number.isInteger(one) && one >= 0);
  return [lengths, ids, flags].every(isAlong);
}

export function unpackAddedTokens({ contents, lengths, ids, flags }: PackedAddedTokens): readonly AddedToken[] {
  let end = 0;
  return ids.map((id, at) => {
    const start = end;
    end += lengths[at]!;
    const bits = flags[at]!;
    return {
      id,
      content: contents.slice(start, end),
      special: (bits & FLAGS.special) !== 0,
      normalized: (bits & FLAGS.normalized) !== 0,
      lstrip: (bits & FLAGS.lstrip) !== 0,
      rstrip: (bits & FLAGS.rstrip) !== 0,
      singleWord: (bits & FLAGS.singleWord) !== 0,
    };
  });
}

/** Receives a text in order: the segments without added tokens, and the added tokens between them. */
export interface SegmentVisitor {
  text(segment: string): void;
  /** @param units length of the text that the token takes, stripped white space included */
  token(id: number, units: number): void;
}

/** Node of a trie of tokens. Its children are built when a text first reaches it: most nodes are never reached. */
class TrieNode {
  /** Token that ends here. */
  token: AddedToken | undefined;
  readonly #depth: number;
  /** Tokens that continue below this node, until they are sorted into `#next`. */
  #waiting: AddedToken[] = [];
  #next: Map<number, TrieNode> | undefined;

  constructor(depth: number) {
    this.#depth = depth;
  }

  /** Adds a token. If two tokens have the same text, the one added last counts. */
  add(token: AddedToken): void {
    if (token.content.length === this.#depth) this.token = token;
    else this.#waiting.push(token);
  }

  next(unit: number): TrieNode | undefined {
    this.#next ??= this.#sort();
    return this.#next.get(unit);
  }

  #sort(): Map<number, TrieNode> {
    const next = new Map<number, TrieNode>();
    for (const token of this.#waiting) {
      const unit = token.content.charCodeAt(this.#depth);
      let node = next.get(unit);
      if (node === undefined) {
        node = new TrieNode(this.#depth + 1);
        next.set(unit, node);
      }
      node.add(token);
    }
    this.#waiting = [];
    return next;
  }
}

const SPACE_AT_END = /\p{White_Space}*$/u;
const SPACE_AT_START = /^\p{White_Space}*/u;
const WORD_AT_END = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const WORD_AT_START = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

/** Splits text at added tokens: at the leftmost match, and at the longest of those that begin there. */
export class AddedTokenSplitter {
  readonly #root = new TrieNode(0);
  /** Pattern that finds where a token may begin; undefined when there are no tokens. */
  readonly #starts: RegExp | undefined;
  /** First character that all tokens share, if they do: `indexOf` is faster than a pattern. */
  readonly #soleStart: string | undefined;

  constructor(tokens: readonly AddedToken[]) {
    const starts = new Set<number>();
    for (const token of tokens) {
      if (token.content === '') continue;
      this.#root.add(token);
      starts.add(token.content.charCodeAt(0));
    }
    const [first] = starts;
    this.#soleStart = starts.size === 1 ? String.fromCharCode(first!) : undefined;
    const units = [...starts].map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`);
    this.#starts = starts.size === 0 ? undefined : new RegExp(`[${units.join('')}]`, 'g');
  }

  /** Visits the segments and tokens of `text`; leaves out empty segments. */
  split(text: string, visitor: SegmentVisitor): void {
    let from = 0; // end of what was visited
    let at = this.#nextStart(text, 0);
    while (at >= 0) {
      const token = this.#longestAt(text, at);
      if (token === undefined) {
        at = this.#nextStart(text, at + 1);
        continue;
      }
      let end = at + token.content.length;
      if (token.singleWord && isInsideWord(text, at, end)) {
        at = this.#nextStart(text, end);
        continue;
      }
      const next = end;
      let start = at;
      if (token.lstrip) start = Math.max(from, spaceStart(text, at));
      if (token.rstrip) end += SPACE_AT_START.exec(text.slice(end))![0].length;
      if (from < start) visitor.text(text.slice(from, start));
      visitor.token(token.id, end - start);
      from = end;
      at = this.#nextStart(text, next);
    }
    if (from < text.length) visitor.text(from === 0 ? text : text.slice(from));
  }

  #nextStart(text: string, from: number): number {
    if (this.#starts === undefined) return -1;
    if (this.#soleStart !== undefined) return text.indexOf(this.#soleStart, from);
    this.#starts.lastIndex = from;
    return this.#starts.exec(text)?.index ?? -1;
  }

  #longestAt(text: string, start: number): AddedToken | undefined {
    let longest: AddedToken | undefined;
    let node: TrieNode | undefined = this.#root;
    for (let at = start; at < text.length; at++) {
      node = node.next(text.charCodeAt(at));
      if (node === undefined) break;
      longest = node.token ?? longest;
    }
    return longest;
  }
}

function isInsideWord(text: string, start: number, end: number): boolean {
  // Two units are enough to hold the character next to the match.
  return WORD_AT_END.test(text.slice(Math.max(0, start - 2), start)) || WORD_AT_START.test(text.slice(end, end + 2));
}

function spaceStart(text: string, end: number): number {
  let start = end;
  while (start > 0 && SPACE_AT_END.exec(text[start - 1]!)![0] !== '') start--; // white space is never a surrogate pair
  return start;
}
