import { endOfTurn } from '../../concurrency/index.ts';
import { framed, type GrpcCall, GrpcStatus, STATUS, statusOf } from '../../grpc/index.ts';
import {
  decodeModelInferRequest,
  encodeModelStreamInferResponse,
  type ModelInferRequest,
} from '../../protocol/kserve/index.ts';
import { admit } from './admit.ts';
import type { KserveDeps } from './deps.ts';
import { infer } from './infer.ts';
import { StreamResponses } from './responses.ts';
import type { InferStatistics } from './statistics.ts';

/** Requests that may be done within one turn before others have theirs. */
const PER_TURN_MAX = 32;

/**
 * `ModelStreamInfer`: requests are served one after the other, and the next is read when the last response to the one before was
 * written. Each counts against its key's budgets.
 */
export async function serveStreamInfer(deps: KserveDeps, call: GrpcCall, statistics: InferStatistics): Promise<void> {
  await admit(deps, call, 'inference');
  new StreamInfer(deps, call, statistics).next();
}

class StreamInfer {
  readonly #deps: KserveDeps;
  readonly #call: GrpcCall;
  readonly #statistics: InferStatistics;
  #inTurn = 0;

  constructor(deps: KserveDeps, call: GrpcCall, statistics: InferStatistics) {
    this.#deps = deps;
    this.#call = call;
    this.#statistics = statistics;
  }

  /** Serves the next request, once the responses before it have room. */
  next(): void {
    const call = this.#call;
    if (call.closed.aborted) return;
    if (call.isBlocked()) {
      call.onUnblocked(() => this.next());
      return;
    }
    if (++this.#inTurn > PER_TURN_MAX) {
      this.#inTurn = 0;
      void endOfTurn().then(() => this.next()); // never rejects
      return;
    }
    call.receive((message) => {
      if (message === undefined) call.end();
      else this.#serve(message);
    });
  }

  #serve(message: Buffer): void {
    let request: ModelInferRequest;
    try {
      request = decodeModelInferRequest(message);
    } catch (thrown) {
      const errorMessage = statusOf(thrown).message;
      this.#call.write(framed(encodeModelStreamInferResponse({ errorMessage, inferResponse: undefined })));
      this.next();
      return;
    }
    void this.#infer(request).catch((thrown: unknown) => this.#call.end(statusOf(thrown)));
  }

  async #infer(request: ModelInferRequest): Promise<void> {
    const deps = this.#deps;
    const call = this.#call;
    const grant = await admit(deps, call, 'generate');
    if (call.closed.aborted) throw new GrpcStatus(STATUS.CANCELLED, 'the client has gone');
    const responses = new StreamResponses(call, request, () => this.next());
    infer({ deps, statistics: this.#statistics, call, grant, request, responses });
  }
}
