import { endOfTurn } from '../../concurrency/index.ts';
import { type GrpcCall, GrpcStatus, STATUS, statusOf } from '../../grpc/index.ts';
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

/** The streams of which nothing is under way. Bounded by those of their connections. */
export class IdleStreams {
  readonly #idle = new Set<() => void>();
  #isShuttingDown = false;

  /** @param end ends the stream */
  add(end: () => void): void {
    this.#idle.add(end);
    // Not before what has come already was looked at: it may be that the client has said all.
    if (this.#isShuttingDown) queueMicrotask(() => this.#end(end));
  }

  delete(end: () => void): void {
    this.#idle.delete(end);
  }

  /** Ends them, and from here on whoever becomes one. */
  shutDown(): void {
    this.#isShuttingDown = true;
    for (const end of [...this.#idle]) this.#end(end);
  }

  #end(end: () => void): void {
    if (this.#idle.delete(end)) end();
  }
}

/**
 * `ModelStreamInfer`: requests are served one after the other, and the next is read when the last response to the one before was
 * written. Each counts against its key's budgets.
 */
export async function serveStreamInfer(parts: StreamParts, call: GrpcCall): Promise<void> {
  await admit(parts.deps, call, 'inference');
  new StreamInfer(parts, call).next();
}

/** What streams are served with. */
export interface StreamParts {
  readonly deps: KserveDeps;
  readonly statistics: InferStatistics;
  readonly idle: IdleStreams;
}

class StreamInfer {
  readonly #parts: StreamParts;
  readonly #call: GrpcCall;
  #inTurn = 0;

  constructor(parts: StreamParts, call: GrpcCall) {
    this.#parts = parts;
    this.#call = call;
    call.watch({ left: () => parts.idle.delete(this.#shutDown), late() {} }); // who is late is left, too
  }

  /** Serves the next request, once the responses before it have room. */
  next(): void {
    const call = this.#call;
    if (call.isOver) return;
    if (call.isBlocked()) {
      call.onUnblocked(() => this.next());
      return;
    }
    if (++this.#inTurn > PER_TURN_MAX) {
      this.#inTurn = 0;
      void endOfTurn().then(() => this.next()); // never rejects
      return;
    }
    const { idle } = this.#parts;
    idle.add(this.#shutDown);
    call.receive((message) => {
      idle.delete(this.#shutDown);
      if (message === undefined) call.end();
      else this.#serve(message);
    });
  }

  /** Its client is asked to go elsewhere with what it would still say. */
  readonly #shutDown = (): void => this.#call.end(new GrpcStatus(STATUS.UNAVAILABLE, 'Service is shutting down'));

  #serve(message: Buffer): void {
    let request: ModelInferRequest;
    try {
      request = decodeModelInferRequest(message);
    } catch (thrown) {
      const errorMessage = statusOf(thrown).message;
      this.#call.write(encodeModelStreamInferResponse({ errorMessage, inferResponse: undefined }));
      this.next();
      return;
    }
    void this.#infer(request).catch((thrown: unknown) => this.#call.end(statusOf(thrown)));
  }

  async #infer(request: ModelInferRequest): Promise<void> {
    const { deps, statistics } = this.#parts;
    const call = this.#call;
    const grant = await admit(deps, call, 'generate');
    if (call.isOver) return; // its client has gone while the key was looked up
    const responses = new StreamResponses(call, request, () => this.next());
    infer({ deps, statistics, call, grant, request, responses });
  }
}
