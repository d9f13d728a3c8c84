import type { Clock, Random } from '../../clock/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import {
  askOnce,
  type OneAnswer,
  type PlaneRequest,
  type RequestPlane,
  type Transport,
} from '../../planes/request/index.ts';
import type { ExplanationRecord } from '../scheduler/explanation-record.ts';
import {
  type ChooseMessage,
  type ChooseQuery,
  decodeMessage,
  encodeChange,
  encodeQuery,
  PROBE_BODY,
  type ReservationChangeQuery,
} from './messages.ts';

/** A change of a reservation that did not arrive by then is left to the resident's own limits. */
export const CHANGE_MS_MAX = 2000;
/** Operators wait for an explanation, requests never do. */
export const EXPLAIN_MS_MAX = 2000;

/** What carries questions to one resident router: the request plane (`PlaneLine`), or gRPC (router/grpc). */
export interface ResidentLine {
  /** Connects where that is to be done, and sees whether the router is there. Never rejects, and ends in time. */
  probe(timeoutMs: number): Promise<boolean>;
  /** Asks for a worker; what comes of it is told to `sink`, on a later turn. */
  choose(query: ChooseQuery, sink: ChooseSink): AskedCall;
  /** Tells how far a request is. Not waited for, and given up after `CHANGE_MS_MAX`. Never throws. */
  change(change: ReservationChangeQuery): void;
  /** Why one of the last requests went to its worker, or where a query would go now; undefined when it cannot say. */
  explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined>;
  /** Nothing is asked any more. Questions under way may still be answered. */
  close(): void;
}

/** What a question is told: messages, then its end or why it failed. */
export interface ChooseSink {
  message(message: ChooseMessage): void;
  end(): void;
  /** With the class that the router or the way to it gives: `WorkerUnavailable` is a standby's. */
  fail(error: ServeError): void;
}

/** A question under way. */
export interface AskedCall {
  /** Leaves the router's queue. What the sink is told afterwards means nothing. Idempotent. */
  kill(): void;
}

/** Where a resident router is reached on the request plane. */
export interface PlaneAddress {
  readonly instanceId: string;
  readonly choose: Transport;
  readonly release: Transport;
  readonly explain: Transport;
}

export interface PlaneLineOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
}

/** A resident router as discovery knows it, or by its gRPC address alone: `host:port`. */
export type ResidentAddress = PlaneAddress | { readonly instanceId: string; readonly grpc: string };

/** Asks a resident router on the request plane. The plane keeps the connection. */
export class PlaneLine implements ResidentLine {
  readonly #address: PlaneAddress;
  readonly #options: PlaneLineOptions;

  constructor(address: PlaneAddress, options: PlaneLineOptions) {
    this.#address = address;
    this.#options = options;
  }

  async probe(timeoutMs: number): Promise<boolean> {
    return (await this.#ask(this.#address.choose, { body: PROBE_BODY }, timeoutMs)).kind === 'answered';
  }

  choose(query: ChooseQuery, sink: ChooseSink): AskedCall {
    const request = { id: query.requestId, headers: {}, ...encodeQuery(query) };
    const call = this.#options.plane.call(this.#address.choose, request, {
      accepted() {},
      tokens: () => sink.fail(workerError('BackendProtocol', 'a router that sends tokens')),
      output: ({ body }) => {
        let message: ChooseMessage;
        try {
          message = decodeMessage(body);
        } catch (thrown) {
          call.kill();
          sink.fail(toServeError(thrown));
          return;
        }
        sink.message(message);
      },
      end: () => sink.end(),
      fail: (error) => sink.fail(error),
    });
    return call;
  }

  change(change: ReservationChangeQuery): void {
    void this.#ask(this.#address.release, { body: encodeChange(change) }, CHANGE_MS_MAX); // never rejects
  }

  async explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    const question =
      typeof about === 'string' ? { body: { explain: about } } : { id: about.requestId, ...encodeQuery(about) };
    const answer = await this.#ask(this.#address.explain, question, EXPLAIN_MS_MAX);
    if (answer.kind === 'failed') return undefined;
    const { explanation } = (answer.output?.body ?? {}) as { readonly explanation?: ExplanationRecord | null };
    return explanation ?? undefined;
  }

  close(): void {}

  #ask(
    transport: Transport,
    question: Partial<PlaneRequest> & { readonly body: unknown },
    timeoutMs: number,
  ): Promise<OneAnswer> {
    const { plane, clock, random } = this.#options;
    return askOnce(plane, transport, { id: random.uuid(), headers: {}, ...question }, { clock, timeoutMs });
  }
}
