import { ServeError } from '../../../../errors/index.ts';
import {
  type CallShape,
  type DecodedResponses,
  itemIdOf,
  type OutputKind,
  type TokenLogprob,
} from '../../../../protocol/index.ts';
import { CustomInputReader } from '../custom-input.ts';

/** One item of a response as it grows. */
export interface OutputItem {
  readonly kind: OutputKind;
  readonly id: string;
  /** Index in `output`. */
  readonly index: number;
  /** Id of a call; empty for text. */
  readonly callId: string;
  readonly name: string;
  /** Namespace of the tool, for calls of tools that are in one. */
  readonly namespace: string | undefined;
  /** Output so far: text, reasoning, a summary, a function's arguments or a custom tool's input. */
  text: string;
  /** Lengths of the pieces in which `text` came, in UTF-16 units. A replay needs them to number its events alike. */
  readonly pieces: number[];
  readonly logprobs: TokenLogprob[];
  status: 'in_progress' | 'completed' | 'incomplete';
}

type CalledTool = Pick<OutputItem, 'callId' | 'name' | 'namespace'>;
const NO_CALL: CalledTool = { callId: '', name: '', namespace: undefined };

/** Receives items while they grow. Calls are synchronous and in the order of generation. */
export interface ItemObserver {
  opened(item: OutputItem): void;
  /** Called when `text` was added to the open item. */
  grew(item: OutputItem, text: string, logprobs: readonly TokenLogprob[] | undefined): void;
  closed(item: OutputItem): void;
}

/**
 * Keeps the items of one response, in the order of generation. One is open at a time: an item that begins closes the
 * open one. A summary is one item of text; any other output of the model is left out of it.
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

  /** Runs for every token. */
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

  /**
   * Adds text to a call.
   * @throws ServeError `internal_error` for a call that is not open, because the client has its item as complete.
   */
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

  /** Adds an empty message to a response that must have an item. */
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
