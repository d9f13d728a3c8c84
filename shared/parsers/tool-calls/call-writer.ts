import type { Random } from '../../clock/index.ts';
import type { FinishReason, ToolChoice, ToolDefinition } from '../../protocol/index.ts';
import type { CallIds } from './call-ids.ts';

interface HeldCall {
  readonly name: string;
  readonly id: string | undefined;
  arguments: string;
}

/**
 * Numbers the calls of one message and passes them on. Drops the calls that the request does not want, so that formats
 * need not handle `parallel_tool_calls` and named choices. Can hold calls back until their markup is closed.
 */
export class CallWriter {
  out: ToolCallSink;
  /** White space that goes out before text and is dropped before a call. */
  lead = '';
  /** Called when a call is committed. */
  onCommit: () => void = () => {};
  readonly #ids: CallIds;
  readonly #onlyFirst: boolean;
  readonly #onlyName: string | undefined;
  #count = 0;
  /** Number of committed calls, including those that the client does not see. */
  #committed = 0;
  #isShown = false;
  #held: HeldCall[] | undefined;

  constructor(
    out: ToolCallSink,
    ids: CallIds,
    limits: { readonly onlyFirst: boolean; readonly onlyName: string | undefined },
  ) {
    this.out = out;
    this.#ids = ids;
    this.#onlyFirst = limits.onlyFirst;
    this.#onlyName = limits.onlyName;
  }

  /** Number of calls that the client sees. */
  get count(): number {
    return this.#count;
  }

  /** Number of calls that were read, whether or not the client sees them, held ones included. */
  get readCount(): number {
    return this.#committed + (this.#held?.length ?? 0);
  }

  content(text: string): void {
    if (text === '') return;
    this.out.content(this.lead + text);
    this.lead = '';
  }

  /** Commits a call: from here on it cannot be withdrawn. `id` is set if the model gave one. */
  start(name: string, id?: string): void {
    if (this.#held !== undefined) this.#held.push({ name, id, arguments: '' });
    else this.#show(name, id);
  }

  /** Takes a piece of the arguments of the call that was begun last. */
  arguments(fragment: string): void {
    if (fragment === '') return;
    const held = this.#held?.at(-1);
    if (held !== undefined) held.arguments += fragment;
    else if (this.#isShown) this.out.callArguments(this.#count - 1, fragment);
  }

  /** Takes a complete call. */
  whole(name: string, argumentsText: string, id?: string): void {
    this.start(name, id);
    this.arguments(argumentsText);
  }

  /** Holds calls back until `release` or `drop`. */
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
    this.#isShown = this.#mayShow(name);
    if (!this.#isShown) return;
    const index = this.#count++;
    this.out.callStart(index, this.#ids.next(index, name, id), name);
  }

  /** Whether the client accepts the call: it may accept only the first one, or only calls of one tool. */
  #mayShow(name: string): boolean {
    if (this.#onlyFirst && this.#count > 0) return false;
    return this.#onlyName === undefined || this.#onlyName === name;
  }
}

/**
 * Receives the output of a parser. A call's arguments follow its start, piece by piece; joined they are the arguments
 * text.
 */
export interface ToolCallSink {
  content(text: string): void;
  /** `index` counts from 0 over the whole message. */
  callStart(index: number, id: string, name: string): void;
  callArguments(index: number, fragment: string): void;
}

/** Parts of the request that decide how its answer is read. */
export interface ToolCallOptions {
  readonly tools: readonly ToolDefinition[];
  /** @default `auto` */
  readonly toolChoice?: ToolChoice;
  /** False keeps only the first call. @default true */
  readonly parallelToolCalls?: boolean;
  readonly random: Random;
}

/**
 * Splits the text of one choice into content and tool calls. There is one per choice. The joined content, the calls and
 * their arguments do not depend on how the text is cut into pushes.
 */
export interface ToolCallParser {
  /** For tests: number of calls shown so far. */
  readonly callCount: number;
  push(text: string, out: ToolCallSink): void;
  /** Ends the text: releases held text, and returns the finish reason for the client. */
  end(reason: FinishReason | null, out: ToolCallSink): FinishReason | null;
}
