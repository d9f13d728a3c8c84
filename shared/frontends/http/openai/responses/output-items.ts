import { ServeError } from '../../../../errors/index.ts';
import type { TokenLogprob } from '../../../../protocol/generation/index.ts';
import { itemIdOf, type OutputKind } from '../../../../protocol/openai/index.ts';
import { CustomInputReader } from './custom-input-reader.ts';

/** One item of an answer as it grows. */
export interface OutputItem {
  readonly kind: OutputKind;
  readonly id: string;
  /** Place in `output`. */
  readonly index: number;
  /** Of calls; empty for text. */
  readonly callId: string;
  readonly name: string;
  /** What was said so far: text, reasoning, a function's arguments or a custom tool's input. */
  text: string;
  readonly logprobs: TokenLogprob[];
  status: 'in_progress' | 'completed' | 'incomplete';
}

/** Hears of items as they come about. Calls are synchronous and in the order of generation. */
export interface ItemObserver {
  opened(item: OutputItem): void;
  /** `text` was added to the open item. */
  grew(item: OutputItem, text: string, logprobs: readonly TokenLogprob[] | undefined): void;
  closed(item: OutputItem): void;
}

/**
 * The items of one answer, in the order of generation, one open at a time (rulings.md, 7): what begins closes what was open.
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
  readonly #customNames: ReadonlySet<string>;
  readonly #observer: ItemObserver;
  readonly #items: OutputItem[] = [];
  #open: OutputItem | undefined;
  /** Number of the open call among the calls of the choice. */
  #openCall = -1;
  #reader: CustomInputReader | undefined;

  constructor(responseId: string, customNames: ReadonlySet<string>, observer: ItemObserver) {
    this.#responseId = responseId;
    this.#customNames = customNames;
    this.#observer = observer;
  }

  get all(): readonly OutputItem[] {
    return this.#items;
  }

  /** The hot path. */
  text(text: string, logprobs?: readonly TokenLogprob[]): void {
    const item = this.#open?.kind === 'message' ? this.#open : this.#begin('message');
    item.text += text;
    if (logprobs !== undefined) item.logprobs.push(...logprobs);
    this.#observer.grew(item, text, logprobs);
  }

  reasoning(text: string): void {
    const item = this.#open?.kind === 'reasoning' ? this.#open : this.#begin('reasoning');
    item.text += text;
    this.#observer.grew(item, text, undefined);
  }

  call(index: number, callId: string, name: string): void {
    const isCustom = this.#customNames.has(name);
    this.#begin(isCustom ? 'custom_tool_call' : 'function_call', callId, name);
    this.#openCall = index;
    this.#reader = isCustom ? new CustomInputReader() : undefined;
  }

  /** @throws ServeError `internal_error` for a call that is not open: its item has been told as complete. */
  callText(index: number, text: string): void {
    const item = this.#open;
    if (item === undefined || index !== this.#openCall) {
      throw new ServeError('internal_error', 'Internal server error', {
        cause: `text for call ${index} after its end`,
      });
    }
    this.#growCall(item, this.#reader === undefined ? text : this.#reader.push(text));
  }

  /** An empty message, for answers that must have an item. */
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
    if (text === '') return;
    item.text += text;
    this.#observer.grew(item, text, undefined);
  }

  #begin(kind: OutputKind, callId = '', name = ''): OutputItem {
    this.close('completed');
    const index = this.#items.length;
    const id = itemIdOf(kind, this.#responseId, 'output', index);
    const item: OutputItem = { kind, id, index, callId, name, text: '', logprobs: [], status: 'in_progress' };
    this.#items.push(item);
    this.#open = item;
    this.#observer.opened(item);
    return item;
  }
}
