import { wholeCall } from './custom-calls.ts';

/** Side events that chat streams carry. */
export interface DispatchSettings {
  /** One event for each complete tool call (`--enable-streaming-tool-dispatch`). @default false */
  readonly toolCalls: boolean;
  /** One event for the whole reasoning of a choice (`--enable-streaming-reasoning-dispatch`). @default false */
  readonly reasoning: boolean;
}

interface OpenCall {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** Output of a choice that no event has carried yet. */
interface Pending {
  reasoning: string;
  hasToldReasoning: boolean;
  call: OpenCall | undefined;
}

/**
 * Side events that carry a whole tool call, or the whole reasoning, as soon as it is complete. Agents act on them
 * before the stream ends. Each method returns the frames that go before the chunk; mostly there are none.
 */
export class DispatchEvents {
  readonly #settings: DispatchSettings;
  readonly #customTools: ReadonlySet<string>;
  readonly #choices: Pending[] = [];

  private constructor(settings: DispatchSettings, customTools: ReadonlySet<string>) {
    this.#settings = settings;
    this.#customTools = customTools;
  }

  /**
   * Returns the writer of side events; undefined if the settings turn all of them off.
   * @param customTools names of the tools whose calls are written as `custom`
   */
  static for(settings: DispatchSettings, customTools: ReadonlySet<string>): DispatchEvents | undefined {
    return settings.toolCalls || settings.reasoning ? new DispatchEvents(settings, customTools) : undefined;
  }

  reasoning(choice: number, text: string): string {
    const pending = this.#at(choice);
    const frame = this.#closeCall(choice, pending);
    if (this.#settings.reasoning && !pending.hasToldReasoning) pending.reasoning += text;
    return frame;
  }

  callStart(choice: number, index: number, id: string, name: string): string {
    const frames = this.close(choice);
    if (this.#settings.toolCalls) this.#at(choice).call = { index, id, name, arguments: '' };
    return frames;
  }

  callArguments(choice: number, text: string): void {
    const { call } = this.#at(choice);
    if (call !== undefined) call.arguments += text;
  }

  /** Completes the reasoning and calls of a choice, because content or a finish follows. */
  close(choice: number): string {
    const pending = this.#at(choice);
    return this.#closeReasoning(choice, pending) + this.#closeCall(choice, pending);
  }

  #closeReasoning(choice: number, pending: Pending): string {
    if (pending.reasoning === '') return '';
    const text = pending.reasoning;
    pending.reasoning = '';
    pending.hasToldReasoning = true;
    return frameOf('reasoning_dispatch', { index: choice, reasoning_content: text });
  }

  #closeCall(choice: number, pending: Pending): string {
    const { call } = pending;
    if (call === undefined) return '';
    pending.call = undefined;
    const told = { index: call.index, ...wholeCall(call, this.#customTools) };
    return frameOf('tool_call_dispatch', { choice_index: choice, tool_call: told });
  }

  #at(choice: number): Pending {
    this.#choices[choice] ??= { reasoning: '', hasToldReasoning: false, call: undefined };
    return this.#choices[choice] as Pending; // just opened
  }
}

function frameOf(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
