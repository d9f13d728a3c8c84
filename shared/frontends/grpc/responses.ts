import { type GrpcCall, GrpcStatus, STATUS } from '../../grpc/index.ts';
import {
  encodeModelInferResponse,
  encodeModelStreamInferResponse,
  type InferParameters,
  type ModelInferRequest,
  type ModelInferResponse,
  NO_PARAMETERS,
} from '../../protocol/kserve/index.ts';

/** Opts in to the flag on every response of a stream, and to a last one of its own. */
const WANTS_FINAL = 'triton_enable_empty_final_response';
const FINAL = 'triton_final_response';

/** Where the responses to one request go. */
export interface Responses {
  /** The rpc takes any number of them, rather than one. */
  readonly isStream: boolean;
  write(response: ModelInferResponse): void;
  /** A response failed, inside a stream that goes on. @param isLast nothing more comes of the request */
  fault(text: string, isLast: boolean): void;
  /** All was told of the request. */
  end(): void;
  /** The call is over. */
  abort(status: GrpcStatus): void;
}

/** Of `ModelInfer`. */
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

/** Of one message of `ModelStreamInfer`. */
export class StreamResponses implements Responses {
  readonly isStream = true;
  readonly #call: GrpcCall;
  readonly #request: Pick<ModelInferRequest, 'id' | 'modelName'>;
  readonly #tellsFinal: boolean;
  readonly #onEnd: () => void;
  /** The worker has its own flag. */
  #hasFlag = false;

  /**
   * @param onEnd runs when nothing more comes of the request, and the call goes on
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

  /** Tells whose fault it is, so that clients of many requests can find it. */
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

/** Others follow, unless the flag is there already. */
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
