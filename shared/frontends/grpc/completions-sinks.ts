import type { ServeError } from '../../errors/index.ts';
import type { TextFinish, Usage } from '../../protocol/generation/index.ts';
import {
  framedBytes,
  type InferTensor,
  type ModelInferResponse,
  NO_CONTENTS,
  NO_PARAMETERS,
} from '../../protocol/kserve/index.ts';
import { asRecord } from '../../records/index.ts';
import { DialectSink, type InferenceBooks } from '../inference/index.ts';
import { dispatchFailure, failureText, foldFailure, isEngineFailure, type Responses } from './responses.ts';

/** What the responses to a request for text are made with. */
interface TextParts extends TextResponseOptions {
  readonly responses: Responses;
  /** As the worker registered it. */
  readonly model: string;
  /** Runs once, when nothing more is written. */
  readonly onOver: () => void;
}

/** Writes each piece of text as a response of its own. */
export class TextStream extends DialectSink {
  readonly #parts: TextParts;
  #hasBegun = false;

  constructor(inference: InferenceBooks, parts: TextParts) {
    super(inference);
    this.#parts = parts;
  }

  override text(_choice: number, text: string): void {
    if (text !== '') this.#write(this.#parts.model, [{ text, finish: '' }]);
  }

  override finish({ text, reason }: TextFinish): void {
    this.#write(this.#parts.model, [{ text, finish: finishText(reason) }]);
  }

  /** A chunk without choices says what was used, and is told with none. */
  override body(body: unknown): void {
    const { model, choices } = readBody(body);
    this.#write(
      model ?? this.#parts.model,
      choices.map(({ text, finish }) => ({ text, finish })),
    );
  }

  end(usage: Usage): void {
    if (!this.close()) return;
    this.#parts.responses.end();
    this.inference.succeed(usage);
    this.#parts.onOver();
  }

  override abandon(): void {
    super.abandon();
    this.#parts.onOver();
  }

  protected tell(error: ServeError): void {
    if (this.#hasBegun || isEngineFailure(error)) this.#parts.responses.fault(failureText(error), true);
    else this.#parts.responses.abort(dispatchFailure(error));
    this.inference.fail(error, this.#hasBegun ? 0 : dispatchFailure(error).code);
    this.#parts.onOver();
  }

  #write(model: string, choices: readonly SaidText[]): void {
    if (this.isOver) return;
    this.#hasBegun = true;
    this.#parts.responses.write(textResponse(model, choices, this.#parts));
  }
}

/** Folds all text into one response. */
export class TextFold extends DialectSink {
  readonly #parts: TextParts;
  readonly #choices = new Map<number, { text: string; finish: string }>();
  #model = '';

  constructor(inference: InferenceBooks, parts: TextParts) {
    super(inference);
    this.#parts = parts;
  }

  override text(choice: number, text: string): void {
    this.#at(choice).text += text;
  }

  override finish({ choice, text, reason }: TextFinish): void {
    const said = this.#at(choice);
    said.text += text;
    said.finish = finishText(reason);
  }

  override body(body: unknown): void {
    const { model, choices } = readBody(body);
    this.#model = model ?? this.#parts.model;
    for (const { index, text, finish } of choices) {
      const said = this.#at(index, this.#model);
      said.text += text;
      if (finish !== '') said.finish = finish;
    }
  }

  end(usage: Usage): void {
    if (!this.close()) return;
    const choices = [...this.#choices].sort(([a], [b]) => a - b).map(([, said]) => said);
    this.#parts.responses.write(textResponse(this.#model, choices, this.#parts));
    this.#parts.responses.end();
    this.inference.succeed(usage);
    this.#parts.onOver();
  }

  /** Kept until it is whole: its reader cannot be slow. */
  override isBlocked(): boolean {
    return false;
  }

  override onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  override abandon(): void {
    super.abandon();
    this.#parts.onOver();
  }

  protected tell(error: ServeError): void {
    const status = foldFailure(error);
    this.#parts.responses.abort(status);
    this.inference.fail(error, status.code);
    this.#parts.onOver();
  }

  #at(choice: number, model = this.#parts.model): { text: string; finish: string } {
    this.#model = model;
    let said = this.#choices.get(choice);
    if (said === undefined) {
      said = { text: '', finish: '' };
      this.#choices.set(choice, said);
    }
    return said;
  }
}

interface ReadBody {
  readonly model: string | undefined;
  readonly choices: readonly (SaidText & { readonly index: number })[];
}

/** A completions chunk or object of a worker that took the body untouched. */
function readBody(body: unknown): ReadBody {
  const { model, choices } = asRecord(body) ?? {};
  const listed: readonly unknown[] = Array.isArray(choices) ? choices : [];
  return {
    model: typeof model === 'string' ? model : undefined,
    choices: listed.map((choice, at) => {
      const { index, text, finish_reason: reason } = asRecord(choice) ?? {};
      return {
        index: typeof index === 'number' ? index : at,
        text: typeof text === 'string' ? text : '',
        finish: finishText(reason),
      };
    }),
  };
}

/** What is told of one choice at a time. */
interface SaidText {
  readonly text: string;
  /** `stop`, `length`, `content_filter`; empty until it ends. */
  readonly finish: string;
}

/** How the responses to one request look. */
interface TextResponseOptions {
  readonly id: string;
  /** The request's contents were raw, so that those of its responses are. */
  readonly isRaw: boolean;
}

/** A response with the text of each choice, and why it ended. */
function textResponse(
  modelName: string,
  choices: readonly SaidText[],
  { id, isRaw }: TextResponseOptions,
): ModelInferResponse {
  const texts = framedBytes(choices.map(({ text }) => text));
  const finishes = framedBytes(choices.map(({ finish }) => finish));
  const shape = [choices.length];
  const output = (name: string, bytes: typeof texts): InferTensor => ({
    name,
    datatype: 'BYTES',
    shape,
    parameters: NO_PARAMETERS,
    contents: isRaw ? undefined : { ...NO_CONTENTS, bytes },
  });
  return {
    modelName,
    modelVersion: '1',
    id,
    parameters: NO_PARAMETERS,
    outputs: [output('text_output', texts), output('finish_reason', finishes)],
    rawOutputContents: isRaw ? [texts.framed, finishes.framed] : [],
  };
}

/** Finish reasons of completions; others end as a stop does. */
function finishText(reason: unknown): string {
  if (reason === null || reason === undefined) return '';
  return reason === 'length' || reason === 'content_filter' ? reason : 'stop';
}
