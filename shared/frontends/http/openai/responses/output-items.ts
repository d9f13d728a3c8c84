import { ServeError } from '../../../../errors/index.ts';
import {
  type CallShape,
  type DecodedResponses,
  itemIdOf,
  type OutputKind,
  type TokenLogprob,
} from '../../../../protocol/index.ts';

/** How the arguments of a custom tool's function begin, up to its one text; spaces may stand between the pieces. */
const OPENING = ['{', '"input"', ':', '"'] as const;

/**
 * Reads the input of a custom tool out of its function's arguments as they are produced: `{"input": "..."}` gives the text of
 * the string, unescaped. Arguments of any other shape are given as they are, so that nothing the model wrote is lost.
 *
 * | State | opening goes on | opening broken | in string | closing quote | end |
 * |---|---|---|---|---|---|
 * | opening | held | raw, with what was held | string | - | gives what was held |
 * | string | - | - | given, unescaped | done | gives nothing: a cut escape has no text |
 * | raw | - | - | given as it is | given as it is | - |
 * | done | - | - | dropped: braces and spaces | - | - |
 */
export class CustomInputReader {
  #state: 'opening' | 'string' | 'raw' | 'done' = 'opening';
  /** Text that is not given yet: the opening so far, or the start of an escape. */
  #held = '';
  /** Pieces of the opening that were read, and units of the one that was begun. */
  #pieces = 0;
  #units = 0;

  /** The part of the input that `text` adds. */
  push(text: string): string {
    switch (this.#state) {
      case 'opening':
        return this.#readOpening(text);
      case 'string':
        return this.#readString(text);
      case 'raw':
        return text;
      case 'done':
        return '';
    }
  }

  /** What is left when the arguments have ended. */
  end(): string {
    const held = this.#state === 'opening' ? this.#held : '';
    this.#held = '';
    this.#state = 'done';
    return held;
  }

  #readOpening(text: string): string {
    for (let at = 0; at < text.length; at++) {
      const piece = OPENING[this.#pieces] as string; // the last one ends the state
      const character = text.charAt(at);
      if (character === piece[this.#units]) {
        this.#units = (this.#units + 1) % piece.length;
        if (this.#units === 0 && ++this.#pieces === OPENING.length) {
          this.#held = '';
          this.#state = 'string';
          return this.#readString(text.slice(at + 1));
        }
      } else if (this.#units > 0 || !/\s/.test(character)) {
        const held = this.#held + text;
        this.#held = '';
        this.#state = 'raw';
        return held;
      }
    }
    this.#held += text;
    return '';
  }

  #readString(text: string): string {
    const source = this.#held + text;
    this.#held = '';
    let out = '';
    let at = 0;
    while (at < source.length) {
      const next = nextSpecial(source, at);
      out += source.slice(at, next);
      if (next === source.length) return out;
      if (source[next] === '"') {
        this.#state = 'done';
        return out;
      }
      const length = escapeLength(source, next);
      if (next + length > source.length) {
        this.#held = source.slice(next);
        return out;
      }
      out += readEscapes(source.slice(next, next + length));
      at = next + length;
    }
    return out;
  }
}

/** Where the next quote or backslash stands, or the end. */
function nextSpecial(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22 || code === 0x5c) return at;
  }
  return text.length;
}

/** Length of the escape at `at`, of both halves of a pair together; more than there is when it cannot be told yet. */
function escapeLength(text: string, at: number): number {
  if (text[at + 1] !== 'u') return 2;
  if (!HIGH_HALF.test(text.slice(at + 2, at + 6))) return 6;
  const next = text.slice(at + 6, at + 8);
  return '\\u'.startsWith(next) ? 12 : 6;
}

const HIGH_HALF = /^d[89ab]/i;

/** Escapes as their text; half a pair alone becomes U+FFFD, what JSON does not know stays as it is. */
function readEscapes(escapes: string): string {
  try {
    return Buffer.from(String(JSON.parse(`"${escapes}"`))).toString();
  } catch {
    return escapes; // nothing the model wrote is lost
  }
}

/** One item of a response as it grows. */
export interface OutputItem {
  readonly kind: OutputKind;
  readonly id: string;
  /** Place in `output`. */
  readonly index: number;
  /** Of calls; empty for text. */
  readonly callId: string;
  readonly name: string;
  /** Of calls of tools that stand in one. */
  readonly namespace: string | undefined;
  /** What was said so far: text, reasoning, a summary, a function's arguments or a custom tool's input. */
  text: string;
  /** Lengths of the pieces in which `text` was said, in UTF-16 units: what a replay needs to number its events alike. */
  readonly pieces: number[];
  readonly logprobs: TokenLogprob[];
  status: 'in_progress' | 'completed' | 'incomplete';
}

type CalledTool = Pick<OutputItem, 'callId' | 'name' | 'namespace'>;
const NO_CALL: CalledTool = { callId: '', name: '', namespace: undefined };

/** Hears of items as they come about. Calls are synchronous and in the order of generation. */
export interface ItemObserver {
  opened(item: OutputItem): void;
  /** `text` was added to the open item. */
  grew(item: OutputItem, text: string, logprobs: readonly TokenLogprob[] | undefined): void;
  closed(item: OutputItem): void;
}

/**
 * The items of one response, in the order of generation, one open at a time: what begins closes what was open. A summary is one
 * item of text, and whatever else the model says beside it is left out.
 *
 * | Open item | text | reasoning | call begins | call text | end |
 * |---|---|---|---|---|---|
 * | none | opens message | opens reasoning | opens call | broken contract | - |
 * | message | grows | closes, opens | closes, opens | broken contract | closes |
 * | reasoning | closes, opens | grows | closes, opens | broken contract | closes |
 * | call | closes, opens | closes, opens | closes, opens | grows, if it is that call's | closes |
 */
export class OutputItems {
  readonly #responseId: string;
  readonly #shapes: ReadonlyMap<string, CallShape>;
  readonly #textKind: 'message' | 'compaction';
  readonly #observer: ItemObserver;
  readonly #items: OutputItem[] = [];
  #open: OutputItem | undefined;
  /** Number of the open call among the calls of the choice. */
  #openCall = -1;
  #reader: CustomInputReader | undefined;

  constructor(
    responseId: string,
    { callShapes, compacts }: Pick<DecodedResponses, 'callShapes' | 'compacts'>,
    observer: ItemObserver,
  ) {
    this.#responseId = responseId;
    this.#shapes = callShapes;
    this.#textKind = compacts ? 'compaction' : 'message';
    this.#observer = observer;
  }

  get all(): readonly OutputItem[] {
    return this.#items;
  }

  /** The hot path. */
  text(text: string, logprobs?: readonly TokenLogprob[]): void {
    const item = this.#open?.kind === this.#textKind ? this.#open : this.#begin(this.#textKind);
    if (logprobs !== undefined) item.logprobs.push(...logprobs);
    this.#grow(item, text, logprobs);
  }

  reasoning(text: string): void {
    if (this.#isSummary) return;
    this.#grow(this.#open?.kind === 'reasoning' ? this.#open : this.#begin('reasoning'), text);
  }

  call(index: number, callId: string, name: string): void {
    if (this.#isSummary) return;
    const shape = this.#shapes.get(name) ?? { kind: 'function_call', name, namespace: undefined };
    this.#begin(shape.kind, { callId, ...shape });
    this.#openCall = index;
    this.#reader = shape.kind === 'custom_tool_call' ? new CustomInputReader() : undefined;
  }

  /** @throws ServeError `internal_error` for a call that is not open: its item has been told as complete. */
  callText(index: number, text: string): void {
    if (this.#isSummary) return;
    const item = this.#open;
    if (item === undefined || index !== this.#openCall) {
      throw new ServeError('internal_error', 'Internal server error', {
        cause: `text for call ${index} after its end`,
      });
    }
    this.#growCall(item, this.#reader === undefined ? text : this.#reader.push(text));
  }

  /** An empty message, for responses that must have an item. */
  openEmptyMessage(): void {
    this.#begin('message');
  }

  /** Closes the open item. */
  close(status: 'completed' | 'incomplete'): void {
    const item = this.#open;
    if (item === undefined) return;
    if (this.#reader !== undefined) this.#growCall(item, this.#reader.end());
    this.#open = undefined;
    this.#openCall = -1;
    this.#reader = undefined;
    item.status = status;
    this.#observer.closed(item);
  }

  #growCall(item: OutputItem, text: string): void {
    if (text !== '') this.#grow(item, text);
  }

  get #isSummary(): boolean {
    return this.#textKind === 'compaction';
  }

  #grow(item: OutputItem, text: string, logprobs?: readonly TokenLogprob[]): void {
    item.text += text;
    item.pieces.push(text.length);
    this.#observer.grew(item, text, logprobs);
  }

  #begin(kind: OutputKind, { callId, name, namespace }: CalledTool = NO_CALL): OutputItem {
    this.close('completed');
    const index = this.#items.length;
    const id = itemIdOf(kind, this.#responseId, 'output', index);
    const named = { kind, id, index, callId, name, namespace };
    const item: OutputItem = { ...named, text: '', pieces: [], logprobs: [], status: 'in_progress' };
    this.#items.push(item);
    this.#open = item;
    this.#observer.opened(item);
    return item;
  }
}
