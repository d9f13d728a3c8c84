import type { FinishReason } from '../../protocol/generation/index.ts';
import type { ToolCallFormat } from './format.ts';
import { readForcedJson } from './formats/json-family.ts';
import { eitherFinder, Markers } from './markers.ts';
import { finishReasonAfterCalls, MarkupParser } from './markup-parser.ts';
import type { ToolCallOptions, ToolCallParser, ToolCallSink } from './types.ts';

const THINK_END = '</think>';

/**
 * The answer to a required or named tool choice: guided JSON from its first character on, or,
 * from an engine that ignored the constraint, the model's own format. Prose is shown only when the answer has no call.
 */
export class ForcedChoiceParser implements ToolCallParser {
  readonly #inner: MarkupParser;
  readonly #capture: ToolCallSink;
  #out: ToolCallSink | undefined;
  #prose = '';

  constructor(native: ToolCallFormat, options: ToolCallOptions) {
    const name = typeof options.toolChoice === 'object' ? options.toolChoice.name : undefined;
    const forgetProse = (): void => {
      this.#prose = '';
    };
    this.#inner = new MarkupParser(forcedFormat(native, name, forgetProse), options);
    this.#capture = {
      content: (text) => {
        this.#prose += text;
      },
      callStart: (index, id, callName) => this.#out?.callStart(index, id, callName),
      callArguments: (index, fragment) => this.#out?.callArguments(index, fragment),
    };
  }

  get callCount(): number {
    return this.#inner.callCount;
  }

  push(text: string, out: ToolCallSink): void {
    this.#out = out;
    this.#inner.push(text, this.#capture);
  }

  end(reason: FinishReason | null, out: ToolCallSink): FinishReason | null {
    this.#out = out;
    this.#inner.end(reason, this.#capture);
    if (this.callCount === 0 && this.#prose !== '') out.content(this.#prose);
    this.#prose = '';
    return finishReasonAfterCalls(reason, this.callCount);
  }
}

/** The format with guided JSON in front, tried again behind reasoning that nobody took out. */
function forcedFormat(native: ToolCallFormat, name: string | undefined, forgetProse: () => void): ToolCallFormat {
  return {
    newId: native.newId,
    finder: (tools) => eitherFinder(native.finder(tools), new Markers([THINK_END])),
    readOpening: (source, calls) => readForcedJson(source, calls, name),
    read: (marker, source, calls, tools) => {
      if (marker !== THINK_END) return native.read(marker, source, calls, tools);
      forgetProse();
      return readForcedJson(source, calls, name);
    },
  };
}
