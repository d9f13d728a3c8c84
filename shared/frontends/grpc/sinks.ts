import { type ServeError, workerError } from '../../errors/index.ts';
import { GrpcStatus, STATUS } from '../../grpc/index.ts';
import {
  BadTensorResponse,
  framedBytes,
  type InferTensor,
  type ModelInferResponse,
  NO_PARAMETERS,
  type TextFinish,
  tensorResponseOf,
  type Usage,
} from '../../protocol/index.ts';
import { asRecord } from '../../records/index.ts';
import { DialectSink } from '../inference/dialect.ts';
import type { RequestTracker } from '../inference/request-tracker.ts';
import { dispatchFailure, failureText, isEngineFailure, type Responses, wholeFailure } from './responses.ts';

/** Form of the responses to one request. */
interface ResponseOptions {
  readonly id: string;
  /** Whether the request's contents were raw, so that those of its responses are raw, too. */
  readonly isRaw: boolean;
}

/** Dependencies of the responses to a request. */
interface ResponseParts extends ResponseOptions {
  readonly responses: Responses;
}

interface TextParts extends ResponseParts {
  /** Name that the worker registered. */
  readonly model: string;
}

/** Writes the responses to one request, and its end. */
abstract class KserveSink<Parts extends ResponseParts> extends DialectSink {
  protected readonly parts: Parts;

  constructor(inference: RequestTracker, parts: Parts) {
    super(inference);
    this.parts = parts;
  }

  /** Ends the request as a success, once all is written. */
  protected succeed(usage: Usage): void {
    this.parts.responses.end();
    this.inference.succeed(usage);
  }

  /** Sends a failure as the status that ends the call. */
  protected abort(error: ServeError, status: GrpcStatus): void {
    this.parts.responses.abort(status);
    this.inference.fail(error, status.code);
  }

  /** Sends a failure inside a stream that goes on. @param code the status that the log line and the metrics get */
  protected fault(error: ServeError, code: number): void {
    this.parts.responses.fault(failureText(error), true);
    this.inference.fail(error, code);
  }
}

/** Writes each piece of text as a response of its own. */
export class TextStream extends KserveSink<TextParts> {
  #hasBegun = false;

  override text(_choice: number, text: string): void {
    if (text !== '') this.#write(this.parts.model, [{ text, finish: '' }]);
  }

  override finish({ text, reason }: TextFinish): void {
    this.#write(this.parts.model, [{ text, finish: finishText(reason) }]);
  }

  /** Writes a chunk. One without choices carries usage, and becomes a response without texts. */
  override body(body: unknown): void {
    const { model, choices } = readBody(body);
    this.#write(model ?? this.parts.model, choices);
  }

  end(usage: Usage): void {
    if (this.close()) this.succeed(usage);
  }

  protected tell(error: ServeError): void {
    const status = dispatchFailure(error);
    if (this.#hasBegun) this.fault(error, STATUS.OK);
    else if (isEngineFailure(error)) this.fault(error, status.code);
    else this.abort(error, status);
  }

  #write(model: string, choices: readonly SaidText[]): void {
    if (this.isOver) return;
    this.#hasBegun = true;
    this.parts.responses.write(textResponse(model, choices, this.parts));
  }
}

/** Collects all text in one response. */
export class WholeText extends KserveSink<TextParts> {
  readonly #choices = new Map<number, { text: string; finish: string }>();
  #model = '';

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
    this.#model = model ?? this.parts.model;
    for (const { index, text, finish } of choices) {
      const said = this.#at(index, this.#model);
      said.text += text;
      if (finish !== '') said.finish = finish;
    }
  }

  end(usage: Usage): void {
    if (!this.close()) return;
    const choices = [...this.#choices].sort(([a], [b]) => a - b).map(([, said]) => said);
    this.parts.responses.write(textResponse(this.#model, choices, this.parts));
    this.succeed(usage);
  }

  /** Returns false: the answer is kept until it is whole, so its client cannot be slow. */
  override isBlocked(): boolean {
    return false;
  }

  override onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  protected tell(error: ServeError): void {
    this.abort(error, wholeFailure(error));
  }

  #at(choice: number, model = this.parts.model): { text: string; finish: string } {
    this.#model = model;
    let said = this.#choices.get(choice);
    if (said === undefined) {
      said = { text: '', finish: '' };
      this.#choices.set(choice, said);
    }
    return said;
  }
}

const FOLD = 'Failed to fold completions stream';

/** Writes the responses of a tensor model: each as it comes, or only one. */
export class TensorSink extends KserveSink<ResponseParts> {
  /** The response for the rpc that takes one. */
  #whole: ModelInferResponse | undefined;
  #hasBegun = false;

  override body(body: unknown): void {
    if (this.isOver) return;
    const { responses, id, isRaw } = this.parts;
    try {
      if (this.#whole !== undefined) {
        this.#breakOff(new GrpcStatus(STATUS.INTERNAL, `${FOLD}: Multiple responses in non-streaming mode`));
        return;
      }
      const response = tensorResponseOf(body, id, isRaw);
      this.#hasBegun = true;
      if (responses.isStream) responses.write(response);
      else this.#whole = response;
    } catch (thrown) {
      this.#refuse(thrown);
    }
  }

  end(usage: Usage): void {
    if (this.isOver) return;
    const { responses } = this.parts;
    if (!responses.isStream) {
      if (this.#whole === undefined) {
        this.#breakOff(new GrpcStatus(STATUS.INTERNAL, `${FOLD}: No response received`));
        return;
      }
      responses.write(this.#whole);
    }
    this.close();
    this.succeed(usage);
  }

  /** Returns whether the client of a stream is slow. For the rpc of one response the worker need not wait. */
  override isBlocked(): boolean {
    return this.parts.responses.isStream && super.isBlocked();
  }

  protected tell(error: ServeError): void {
    if (!this.parts.responses.isStream) this.abort(error, wholeFailure(error));
    else if (this.#hasBegun || isEngineFailure(error)) this.fault(error, STATUS.OK);
    else this.abort(error, dispatchFailure(error));
  }

  /** Ends the request because of a record of the worker that is not a response. */
  #refuse(thrown: unknown): void {
    if (!(thrown instanceof BadTensorResponse)) throw thrown;
    const { responses } = this.parts;
    const { kind, message } = thrown;
    if (responses.isStream) {
      if (kind !== 'unreadable') responses.fault(`Failed to convert response: ${message}`, false);
      else this.fail(workerError('BackendProtocol', thrown));
      return;
    }
    if (kind === 'unreadable') this.#breakOff(new GrpcStatus(STATUS.INTERNAL, `${FOLD}: Internal: ${message}`));
    else this.#breakOff(new GrpcStatus(STATUS.INVALID_ARGUMENT, `Failed to parse response: ${message}`));
  }

  /** Ends the work and the call, because of a fault in the worker's answer. */
  #breakOff(status: GrpcStatus): void {
    if (this.close()) this.abort(workerError('BackendProtocol', status.message), status);
  }
}

interface ReadBody {
  readonly model: string | undefined;
  readonly choices: readonly (SaidText & { readonly index: number })[];
}

/** Reads a completions chunk or object of a worker that took the body untouched. */
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

/** Part of one choice in a response. */
interface SaidText {
  readonly text: string;
  /** `stop`, `length` or `content_filter`; empty until the choice ends. */
  readonly finish: string;
}

/** Returns a response with the text of each choice, and the reason of its end. */
function textResponse(
  modelName: string,
  choices: readonly SaidText[],
  { id, isRaw }: ResponseOptions,
): ModelInferResponse {
  const texts = framedBytes(choices.map(({ text }) => text));
  const finishes = framedBytes(choices.map(({ finish }) => finish));
  const shape = [choices.length];
  const output = (name: string, bytes: typeof texts): InferTensor => ({
    name,
    datatype: 'BYTES',
    shape,
    parameters: NO_PARAMETERS,
    contents: isRaw ? undefined : { bytes },
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

/** Returns the finish reason of completions; other reasons become `stop`. */
function finishText(reason: unknown): string {
  if (reason === null || reason === undefined) return '';
  return reason === 'length' || reason === 'content_filter' ? reason : 'stop';
}
