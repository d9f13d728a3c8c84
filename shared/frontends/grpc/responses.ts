import { codeRow, reasonOf, ServeError, toServeError } from '../../errors/index.ts';
import { type GrpcCall, GrpcStatus, retryTrailers, STATUS, statusOf } from '../../grpc/index.ts';
import { missingModelHint, type RefusedModel, type ServedModel } from '../../pipeline/index.ts';
import {
  encodeModelInferResponse,
  encodeModelStreamInferResponse,
  type InferParameters,
  type ModelInferRequest,
  type ModelInferResponse,
  NO_PARAMETERS,
} from '../../protocol/index.ts';
import { isForKserve } from './models.ts';

/** Parameter that asks for the flag on every response of a stream, and for a last response of its own. */
const WANTS_FINAL = 'triton_enable_empty_final_response';
const FINAL = 'triton_final_response';

/** Destination of the responses to one request. */
export interface Responses {
  /** Whether the rpc takes any number of responses, rather than one. */
  readonly isStream: boolean;
  write(response: ModelInferResponse): void;
  /** Sends a failure inside a stream that goes on. @param isLast whether nothing more comes of the request */
  fault(text: string, isLast: boolean): void;
  /** Ends the responses to the request. */
  end(): void;
  /** Ends the call. */
  abort(status: GrpcStatus): void;
}

/** Responses of `ModelInfer`. */
export class UnaryResponses implements Responses {
  readonly isStream = false;
  readonly #call: GrpcCall;

  constructor(call: GrpcCall) {
    this.#call = call;
  }

  write(response: ModelInferResponse): void {
    this.#call.write(encodeModelInferResponse(response));
  }

  fault(text: string): void {
    this.abort(new GrpcStatus(STATUS.INTERNAL, text));
  }

  end(): void {
    this.#call.end();
  }

  abort(status: GrpcStatus): void {
    this.#call.end(status);
  }
}

/** Responses to one message of `ModelStreamInfer`. */
export class StreamResponses implements Responses {
  readonly isStream = true;
  readonly #call: GrpcCall;
  readonly #request: Pick<ModelInferRequest, 'id' | 'modelName'>;
  readonly #tellsFinal: boolean;
  readonly #onEnd: () => void;
  /** Whether the worker sends a flag of its own. */
  #hasFlag = false;

  /**
   * @param onEnd called when nothing more comes of the request, and the call goes on
   * @throws GrpcStatus for a parameter of the wrong kind
   */
  constructor(call: GrpcCall, request: ModelInferRequest, onEnd: () => void) {
    this.#call = call;
    this.#request = request;
    this.#tellsFinal = wantsFinal(request.parameters);
    this.#onEnd = onEnd;
  }

  write(response: ModelInferResponse): void {
    if (this.#tellsFinal && FINAL in response.parameters) this.#hasFlag = true;
    const inferResponse = this.#tellsFinal && !this.#hasFlag ? flagged(response) : response;
    this.#call.write(encodeModelStreamInferResponse({ errorMessage: '', inferResponse }));
  }

  /** Sends a failure with the id of its request, so that clients of many requests can find it. */
  fault(text: string, isLast: boolean): void {
    const parameters = this.#tellsFinal ? { [FINAL]: { bool: isLast } } : NO_PARAMETERS;
    const inferResponse = this.#empty(parameters);
    this.#call.write(encodeModelStreamInferResponse({ errorMessage: text, inferResponse }));
    if (isLast) this.#onEnd();
  }

  end(): void {
    if (this.#tellsFinal && !this.#hasFlag) this.write(this.#empty({ [FINAL]: { bool: true } }));
    this.#onEnd();
  }

  abort(status: GrpcStatus): void {
    this.#call.end(status);
  }

  #empty(parameters: InferParameters): ModelInferResponse {
    const { id, modelName } = this.#request;
    return { modelName, modelVersion: '1', id, parameters, outputs: [], rawOutputContents: [] };
  }
}

/** Adds the flag that says that more responses follow, unless it is there already. */
function flagged(response: ModelInferResponse): ModelInferResponse {
  return { ...response, parameters: { [FINAL]: { bool: false }, ...response.parameters } };
}

/** @throws GrpcStatus */
function wantsFinal(parameters: InferParameters): boolean {
  const given = parameters[WANTS_FINAL];
  if (given === undefined) return false;
  if ('bool' in given) return given.bool;
  throw new GrpcStatus(
    STATUS.INVALID_ARGUMENT,
    `invalid value type for '${WANTS_FINAL}' parameter, expected bool_param.`,
  );
}

/* Failures of requests in Dynamo's words, which clients of it look for. */

/**
 * Returns the failure for an unknown model, which names the models that take requests of KServe. @param models those
 * that the client may see @param refused models that are not served, with the reasons
 */
export function modelNotFound(
  name: string,
  models: readonly ServedModel[],
  refused: readonly RefusedModel[] = [],
): GrpcStatus {
  const shown = models.filter(isForKserve);
  return new GrpcStatus(STATUS.NOT_FOUND, `Model '${name}' not found. ${missingModelHint(shown, { name, refused })}`);
}

/** Returns the failure for a known model that no worker can serve now. */
export function modelUnavailable(retryAfterMs: number | undefined): GrpcStatus {
  return new GrpcStatus(STATUS.UNAVAILABLE, 'model temporarily unavailable', retryTrailers({ retryAfterMs }));
}

/** Returns the status of an invalid request; failures of another kind stay as they are. */
export function parseFailure(thrown: unknown): GrpcStatus {
  const status = statusOf(thrown);
  const isOfBody = thrown instanceof ServeError && thrown.code !== 'headers_too_large';
  if (status.code !== STATUS.INVALID_ARGUMENT || !isOfBody) return status;
  return new GrpcStatus(status.code, `Failed to parse request: ${status.message}`);
}

/**
 * Returns the text of a failure for the stream of its request: the text of the worker, with the class of the failure.
 */
export function failureText(error: ServeError): string {
  const words = reasonOf(error.cause ?? error);
  return error.worker === undefined ? words : `${error.worker}: ${words}`;
}

/**
 * Returns whether a worker failed while it worked and reported that: neither the connection to it nor the client is at
 * fault.
 */
export function isEngineFailure(error: ServeError): boolean {
  return error.worker !== undefined && codeRow(error.code).grpc !== STATUS.UNAVAILABLE && !isOwnWord(error);
}

/** Returns whether the code comes from the worker's own code, or needs no further text. */
function isOwnWord({ code, cause }: ServeError): boolean {
  const isRaised = cause === undefined && code !== 'internal_error';
  return isRaised || code === 'server_overloaded' || code === 'deadline_exceeded' || code === 'client_closed_request';
}

/** Returns the status that ends a call whose request failed. */
export function wholeFailure(thrown: unknown): GrpcStatus {
  const error = toServeError(thrown);
  if (isEngineFailure(error)) {
    return new GrpcStatus(STATUS.INTERNAL, `Failed to fold completions stream: ${failureText(error)}`);
  }
  return dispatchFailure(error);
}

/** Returns the status that ends a call whose request found no worker, or was refused before. */
export function dispatchFailure(error: ServeError): GrpcStatus {
  const status = statusOf(error);
  if (error.code === 'server_overloaded') {
    const message = 'CapacityExhausted: All workers are busy, please retry later';
    return new GrpcStatus(status.code, message, status.trailers);
  }
  return status;
}
