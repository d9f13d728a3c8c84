import type { Random } from '../../clock/index.ts';
import type { FinishReason, ToolChoice, ToolDefinition } from '../../protocol/index.ts';

/** Makes the id of a call from the call's place in the message and its name. */
export type NewCallId = (random: Random, index: number, name: string) => string;

interface HeldCall {
  readonly name: string;
  readonly id: string | undefined;
  arguments: string;
}

/**
 * Numbers the calls of one message and hands them on. It drops the calls that the request does not want, so that formats
 * need not know of `parallel_tool_calls` and named choices, and can hold calls back until their markup is closed.
 */
export class CallWriter {
  out: ToolCallSink;
  /** White space that goes out in front of text, and is dropped in front of a call. */
  lead = '';
  /** Told when a call is committed. */
  onCommit: () => void = () => {};
  readonly #random: Random;
  readonly #newId: NewCallId;
  readonly #onlyFirst: boolean;
  readonly #onlyName: string | undefined;
  #count = 0;
  /** Calls committed, those that the client does not see among them. */
  #committed = 0;
  readonly #ids = new Set<string>();
  #isShown = false;
  #held: HeldCall[] | undefined;

  constructor(
    out: ToolCallSink,
    random: Random,
    newId: NewCallId,
    limits: { readonly onlyFirst: boolean; readonly onlyName: string | undefined },
  ) {
    this.out = out;
    this.#random = random;
    this.#newId = newId;
    this.#onlyFirst = limits.onlyFirst;
    this.#onlyName = limits.onlyName;
  }

  /** Calls that the client sees. */
  get count(): number {
    return this.#count;
  }

  /** Calls that were read, whether the client sees them or not, those kept back among them. */
  get readCount(): number {
    return this.#committed + (this.#held?.length ?? 0);
  }

  content(text: string): void {
    if (text === '') return;
    this.out.content(this.lead + text);
    this.lead = '';
  }

  /** Commits a call: from here on it is the client's. `id` when the model gave one. */
  start(name: string, id?: string): void {
    if (this.#held !== undefined) this.#held.push({ name, id, arguments: '' });
    else this.#show(name, id);
  }

  /** A piece of the arguments of the call begun last. */
  arguments(fragment: string): void {
    if (fragment === '') return;
    const held = this.#held?.at(-1);
    if (held !== undefined) held.arguments += fragment;
    else if (this.#isShown) this.out.callArguments(this.#count - 1, fragment);
  }

  /** A call that is known whole. */
  whole(name: string, argumentsText: string, id?: string): void {
    this.start(name, id);
    this.arguments(argumentsText);
  }

  /** Calls are kept back until `release` or `drop`. */
  hold(): void {
    this.#held = [];
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const call of held) this.whole(call.name, call.arguments, call.id);
  }

  drop(): void {
    this.#held = undefined;
  }

  #show(name: string, id: string | undefined): void {
    this.#committed++;
    this.lead = '';
    this.onCommit();
    this.#isShown = !(this.#onlyFirst && this.#count > 0) && (this.#onlyName ?? name) === name;
    if (!this.#isShown) return;
    const index = this.#count++;
    this.out.callStart(index, this.#uniqueId(index, name, id), name);
  }

  /** A model may count wrongly, but results are matched to calls by their ids. */
  #uniqueId(index: number, name: string, wanted: string | undefined): string {
    let id = wanted ?? this.#newId(this.#random, index, name);
    if (this.#ids.has(id)) id = this.#newId(this.#random, index, name);
    while (this.#ids.has(id)) id = prefixedUuid(this.#random, index, name);
    this.#ids.add(id);
    return id;
  }
}

/** `call-` and a UUID: the id of most formats. */
export const prefixedUuid: NewCallId = (random) => `call-${random.uuid()}`;

/** `call-1`, `call-2`, ... */
export const countedId: NewCallId = (_random, index) => `call-${index + 1}`;

/** A bare UUID. */
export const bareUuid: NewCallId = (random) => random.uuid();

/** `call_` and 24 hex digits. */
export const hexId: NewCallId = (random) => `call_${random.uuid().replaceAll('-', '').slice(0, 24)}`;

/** Where a parser writes. A call's arguments follow its start, piece by piece; joined they are the arguments text. */
export interface ToolCallSink {
  content(text: string): void;
  /** `index` counts from 0 over the whole message. */
  callStart(index: number, id: string, name: string): void;
  callArguments(index: number, fragment: string): void;
}

/** What of the request decides how its answer is read. */
export interface ToolCallOptions {
  readonly tools: readonly ToolDefinition[];
  /** Default `auto`. */
  readonly toolChoice?: ToolChoice;
  /** False keeps only the first call. Default true. */
  readonly parallelToolCalls?: boolean;
  readonly random: Random;
}

/**
 * Splits the text of one choice into content and tool calls. One per
 * choice. However the text is cut into pushes, the joined content, the calls and their arguments are the same.
 */
export interface ToolCallParser {
  /** Calls shown so far. */
  readonly callCount: number;
  push(text: string, out: ToolCallSink): void;
  /** The text is complete: releases what is held back, and returns the reason that the client reads. */
  end(reason: FinishReason | null, out: ToolCallSink): FinishReason | null;
}
