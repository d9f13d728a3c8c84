import { isRecord, type UnknownRecord } from '../../../records/index.ts';
import type { SaidCall } from './choices.ts';
import { CustomInputReader, customInput } from './custom-input.ts';
import { withRest } from './worker-chunks.ts';

/* Models call custom tools as functions with one text as argument. Chats show such calls with the text itself. */

/**
 * Returns a whole call as clients read it.
 * @param customTools names of the tools whose calls are written as `custom`
 */
export function wholeCall({ id, name, arguments: text }: SaidCall, customTools: ReadonlySet<string>): object {
  if (customTools.has(name)) return { id, type: 'custom', custom: { name, input: customInput(text) } };
  return { id, type: 'function', function: { name, arguments: text } };
}

/** Returns a whole choice of a worker that answers with bodies, with the calls of custom tools as clients read them. */
export function withCustomCalls(choice: UnknownRecord, customTools: ReadonlySet<string>): UnknownRecord {
  const { message } = choice;
  if (!isRecord(message) || !Array.isArray(message.tool_calls)) return choice;
  const calls = message.tool_calls.map((call: unknown) => {
    const { function: called, ...rest } = isRecord(call) ? call : {};
    if (!isRecord(called) || typeof called.name !== 'string' || !customTools.has(called.name)) return call;
    const input = customInput(typeof called.arguments === 'string' ? called.arguments : '');
    return { ...rest, type: 'custom', custom: { name: called.name, input } };
  });
  return { ...choice, message: { ...message, tool_calls: calls } };
}

/** The part of a call that the client still has to get when the choice ends. */
interface CallRest {
  readonly index: number;
  readonly custom: { readonly input: string };
}

/** Calls of custom tools in one stream of a chat, by choice and number. */
export class CustomCalls {
  readonly #names: ReadonlySet<string>;
  readonly #choices = new Map<number, Map<number, CustomInputReader>>();

  constructor(names: ReadonlySet<string>) {
    this.#names = names;
  }

  /** Begins a call. Returns false if it calls a function. */
  begin(choice: number, index: number, name: string): boolean {
    if (!this.#names.has(name)) return false;
    const calls = this.#choices.get(choice) ?? new Map<number, CustomInputReader>();
    this.#choices.set(choice, calls.set(index, new CustomInputReader()));
    return true;
  }

  /** Returns the input that a piece of arguments adds, which may be empty; undefined for a call of a function. */
  grow(choice: number, index: number, text: string): string | undefined {
    return this.#choices.get(choice)?.get(index)?.push(text);
  }

  /** Ends the calls of a choice. */
  end(choice: number): readonly CallRest[] {
    const calls = this.#choices.get(choice) ?? [];
    this.#choices.delete(choice);
    return Array.from(calls, ([index, reader]) => ({ index, custom: { input: reader.end() } })).filter(
      ({ custom }) => custom.input !== '',
    );
  }

  /** Ends the calls of every choice. */
  endAll(): readonly (readonly [choice: number, rest: readonly CallRest[]])[] {
    return [...this.#choices.keys()].map((choice) => [choice, this.end(choice)] as const);
  }

  /** Returns a worker's own chunk in the published shape. */
  shown(chunk: unknown): unknown {
    if (!isRecord(chunk) || !Array.isArray(chunk.choices)) return chunk;
    return { ...chunk, choices: chunk.choices.flatMap((choice: unknown) => this.#shownChoice(choice)) };
  }

  #shownChoice(choice: unknown): readonly unknown[] {
    if (!isRecord(choice) || !isRecord(choice.delta)) return [choice];
    const { index, delta, finish_reason: reason } = choice;
    const { tool_calls: given, ...rest } = delta;
    const at = Number(index) || 0;
    const calls = Array.isArray(given) ? given.flatMap((call: unknown) => this.#shownCall(at, call)) : [];
    if (reason != null) calls.push(...this.end(at));
    if (calls.length > 0) return [{ ...choice, delta: { ...rest, tool_calls: calls } }];
    if (!Array.isArray(given)) return [choice];
    return withRest(choice, rest); // the text was a part of the JSON around the input
  }

  #shownCall(choice: number, call: unknown): readonly unknown[] {
    if (!isRecord(call) || typeof call.index !== 'number' || !isRecord(call.function)) return [call];
    const { function: called, ...rest } = call;
    const { name } = called;
    const text = typeof called.arguments === 'string' ? called.arguments : '';
    if (typeof name === 'string' && this.begin(choice, call.index, name)) {
      const input = this.grow(choice, call.index, text) ?? '';
      return [{ ...rest, type: 'custom', custom: { name, input } }];
    }
    const input = this.grow(choice, call.index, text);
    if (input === undefined) return [call];
    return input === '' ? [] : [{ index: call.index, custom: { input } }];
  }
}
