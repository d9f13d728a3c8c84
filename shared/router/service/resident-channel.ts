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
import { type ChooseAnswer, ChooseCall } from './choose-call.ts';
import { type ChooseMessage, decodeMessage, encodeChange, encodeQuery, PROBE_BODY } from './messages.ts';
import type { ChooseQuery, ReservationChangeQuery } from './types.ts';

/** What carries questions to one resident router: the request plane (`PlaneLine`), or gRPC (router/grpc). */
export interface ResidentLine {
  /** Connects where that is to be done, and sees whether the router is there. Never rejects, and ends in time. */
  probe(timeoutMs: number): Promise<boolean>;
  /** Asks for a worker; what comes of it is told to `sink`, on a later turn. */
  choose(query: ChooseQuery, sink: ChooseSink): AskedCall;
  /** Sent, and given up after `timeoutMs`. Never throws. */
  change(change: ReservationChangeQuery, timeoutMs: number): void;
  /** As `ResidentChannel.explain`. */
  explain(about: string | ChooseQuery, timeoutMs: number): Promise<ExplanationRecord | undefined>;
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
interface PlaneAddress {
  readonly instanceId: string;
  readonly choose: Transport;
  readonly release: Transport;
  readonly explain: Transport;
}

interface PlaneLineOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
}

/** A resident router as discovery knows it, or by its gRPC address alone: `host:port`. */
export type ResidentAddress = PlaneAddress | { readonly instanceId: string; readonly grpc: string };

export interface ResidentChannelOptions extends PlaneLineOptions {
  /** Makes the way to a gRPC address. @default there are none */
  readonly grpcLine?: ((place: string) => ResidentLine) | undefined;
  /** Deadline of opening the channel. @default 100 */
  readonly connectTimeoutMs?: number;
  /** See `ChooseCallOptions`. */
  readonly lastLook?: ((look: () => void) => void) | undefined;
}

const CONNECT_TIMEOUT_MS = 100;
/** A channel that is closed is tried again so often at most, and only while somebody asks. */
const RETRY_MS = 250;
/** A change of a reservation that did not arrive by then is left to the resident's own limits. */
const CHANGE_MS_MAX = 2000;
/** Operators wait for an explanation, requests never do. */
const EXPLAIN_MS_MAX = 2000;

/**
 * The way to one resident router. Requests use it only while it is open, so that none of them waits for a connection; opening
 * happens beside them.
 *
 * | State | probe answered | probe fails | router lost, or silent | router refuses |
 * |---|---|---|---|---|
 * | closed | -> open | -> closed, tried again 250 ms later | - | - |
 * | open | - | - | -> closed | - |
 */
export class ResidentChannel {
  readonly address: ResidentAddress;
  readonly #options: ResidentChannelOptions;
  readonly #line: ResidentLine;
  #isOpen = false;
  #probe: Promise<void> | undefined;
  #probedMs = Number.NEGATIVE_INFINITY;

  constructor(address: ResidentAddress, options: ResidentChannelOptions) {
    this.address = address;
    this.#options = options;
    this.#line = lineTo(address, options);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Sees whether the router is there, unless that is known or was tried just now. Never rejects, and ends in time. */
  open(): Promise<void> {
    const nowMs = this.#options.clock.nowMs();
    if (this.#isOpen) return Promise.resolve();
    if (this.#probe === undefined && nowMs - this.#probedMs < RETRY_MS) return Promise.resolve();
    this.#probedMs = nowMs;
    this.#probe ??= this.#line.probe(this.#options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS).then((isThere) => {
      this.#probe = undefined;
      this.#isOpen = isThere;
    });
    return this.#probe;
  }

  /** Asks the router. Rejects with the signal's reason only. */
  async choose(query: ChooseQuery, firstMessageMs: number, signal: AbortSignal): Promise<ChooseAnswer> {
    const { clock, lastLook } = this.#options;
    const answer = await new Promise<ChooseAnswer>((resolve, reject) => {
      const sink = new ChooseCall({
        clock,
        firstMessageMs,
        signal,
        lastLook,
        onLate: ({ reservationId }) => this.change({ requestId: query.requestId, reservationId, stage: 'end' }),
        settled: resolve,
        aborted: reject,
      });
      sink.attach(this.#line.choose(query, sink));
    });
    if (answer.kind === 'unanswered' && answer.reason !== 'standby') this.#isOpen = false;
    return answer;
  }

  /** Tells the router how far a request is. Not waited for: the router has limits of its own. */
  change(change: ReservationChangeQuery): void {
    this.#line.change(change, CHANGE_MS_MAX);
  }

  /** Why one of the last requests went to its worker, or where a query would go now; undefined when it cannot say. */
  explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    return this.#line.explain(about, EXPLAIN_MS_MAX);
  }

  /** No more is asked. */
  close(): void {
    this.#isOpen = false;
    this.#line.close();
  }
}

function lineTo(address: ResidentAddress, options: ResidentChannelOptions): ResidentLine {
  if (!('grpc' in address)) return new PlaneLine(address, options);
  if (options.grpcLine === undefined) throw new TypeError(`nothing here speaks gRPC to ${address.grpc}`);
  return options.grpcLine(address.grpc);
}

/** Asks a resident router on the request plane. The plane keeps the connection. */
class PlaneLine implements ResidentLine {
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

  change(change: ReservationChangeQuery, timeoutMs: number): void {
    void this.#ask(this.#address.release, { body: encodeChange(change) }, timeoutMs); // never rejects
  }

  async explain(about: string | ChooseQuery, timeoutMs: number): Promise<ExplanationRecord | undefined> {
    const question =
      typeof about === 'string' ? { body: { explain: about } } : { id: about.requestId, ...encodeQuery(about) };
    const answer = await this.#ask(this.#address.explain, question, timeoutMs);
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
