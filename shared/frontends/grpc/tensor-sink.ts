import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import { GrpcStatus, STATUS } from '../../grpc/index.ts';
import type { Usage } from '../../protocol/generation/index.ts';
import { BadTensorResponse, type ModelInferResponse, tensorResponseOf } from '../../protocol/kserve/index.ts';
import { DialectSink, type InferenceBooks } from '../inference/index.ts';
import { dispatchFailure, failureText, foldFailure, isEngineFailure, type Responses } from './responses.ts';

/** What the responses of a tensor model are made with. */
export interface TensorParts {
  readonly responses: Responses;
  readonly id: string;
  readonly isRaw: boolean;
  /** Runs once, when nothing more is written. */
  readonly onOver: () => void;
}

const FOLD = 'Failed to fold completions stream';

/** Writes the responses of a tensor model: each as it comes, or the only one. */
export class TensorSink extends DialectSink {
  readonly #parts: TensorParts;
  /** Of the rpc that takes one. */
  #whole: ModelInferResponse | undefined;
  #hasBegun = false;

  constructor(inference: InferenceBooks, parts: TensorParts) {
    super(inference);
    this.#parts = parts;
  }

  override body(body: unknown): void {
    if (this.isOver) return;
    const { responses, id, isRaw } = this.#parts;
    try {
      if (this.#whole !== undefined) {
        this.#abort(new GrpcStatus(STATUS.INTERNAL, `${FOLD}: Multiple responses in non-streaming mode`));
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
    const { responses, onOver } = this.#parts;
    if (!responses.isStream) {
      if (this.#whole === undefined) {
        this.#abort(new GrpcStatus(STATUS.INTERNAL, `${FOLD}: No response received`));
        return;
      }
      responses.write(this.#whole);
    }
    this.close();
    responses.end();
    this.inference.succeed(usage);
    onOver();
  }

  /** The only response is small next to what is written of it, and its worker need not wait. */
  override isBlocked(): boolean {
    return this.#parts.responses.isStream && super.isBlocked();
  }

  override abandon(): void {
    super.abandon();
    this.#parts.onOver();
  }

  protected tell(error: ServeError): void {
    const { responses, onOver } = this.#parts;
    const isInside = responses.isStream && (this.#hasBegun || isEngineFailure(error));
    const status = responses.isStream ? dispatchFailure(error) : foldFailure(error);
    if (isInside) responses.fault(failureText(error), true);
    else responses.abort(status);
    this.inference.fail(error, isInside ? STATUS.OK : status.code);
    onOver();
  }

  /** A record of the worker that is no response. */
  #refuse(thrown: unknown): void {
    if (!(thrown instanceof BadTensorResponse)) throw thrown;
    const { responses } = this.#parts;
    const { kind, message } = thrown;
    if (responses.isStream) {
      if (kind !== 'unreadable') responses.fault(`Failed to convert response: ${message}`, false);
      else this.fail(workerError('BackendProtocol', thrown));
      return;
    }
    if (kind === 'unreadable') this.#abort(new GrpcStatus(STATUS.INTERNAL, `${FOLD}: Internal: ${message}`));
    else this.#abort(new GrpcStatus(STATUS.INVALID_ARGUMENT, `Failed to parse response: ${message}`));
  }

  /** Ends work and call through a fault of the worker's answer. */
  #abort(status: GrpcStatus): void {
    if (!this.close()) return;
    this.#parts.responses.abort(status);
    this.inference.breakOff(toServeError(status)); // ends the work; nothing of it is told twice
    this.inference.fail(workerError('BackendProtocol', status.message), status.code);
    this.#parts.onOver();
  }
}
