import type { Call, CallSink } from '../../planes/index.ts';
import { type EngineRequest, encodeEngineRequest, RETRY_HEADER } from '../../protocol/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Span } from '../../telemetry/index.ts';
import type { Worker } from '../models/routable-model.ts';
import type { PrefillCall } from './prefill-call.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { Waiting } from './waiting.ts';
import { phaseOf } from './worker-choice.ts';

/** Header that says that the request began at another worker. */
const ANOTHER_ATTEMPT = { [RETRY_HEADER]: '1' };

/** A request on its way to the worker of an attempt. */
export interface Dispatch {
  readonly request: EngineRequest;
  readonly routed: RoutedRequest;
  /** Whether the request began at another worker. */
  readonly isRetry: boolean;
}

/**
 * Begins the span of one request at one worker, from sending it until leaving the worker.
 *
 * @param parent span of the request; undefined if no spans are made
 * @param links spans of the previous attempt, and of the prefill that this decode continues
 */
export function dispatchSpan(
  parent: Span | undefined,
  phase: 'prefill' | 'decode',
  { worker, dpRank }: Reservation<Worker>,
  links: readonly Span['context'][] = [],
): Span | undefined {
  return parent?.child('dispatch', {
    kind: 'client',
    attributes: { phase, worker_id: worker.id, dp_rank: dpRank }, // if it is undefined, the worker chooses its rank
    links,
  });
}

/** Returns the headers that make a worker's spans children of `span`; none if no spans are made. */
export function traceHeaders(span: Span | undefined): Readonly<Record<string, string>> {
  return span === undefined ? NO_HEADERS : { traceparent: span.context.traceparent };
}

const NO_HEADERS: Readonly<Record<string, string>> = {};

/** One try of a request at one decode worker, from choosing the worker until leaving it. */
export class Attempt {
  /** Call to the prefill worker that computes the prompt; undefined = the decode worker computes it. */
  prefillCall: PrefillCall | undefined;
  /** Place at the worker. The attempt has it from the choice on, and releases it when it leaves the worker. */
  reservation: Reservation<Worker> | undefined;
  call: Call | undefined;
  /** Tokens from the worker of this attempt. */
  outputTokens = 0;
  /** Whether the worker has sent a part of the answer, in tokens or in text. */
  hasBegun = false;
  #span: Span | undefined;
  #waiting: Waiting | undefined;
  /** Span of the previous attempt. */
  readonly #before: Span | undefined;

  constructor(before?: Attempt) {
    if (before !== undefined) this.#before = before.#span ?? before.#before;
  }

  /**
   * Sends the request to the worker of `reservation`, whose output goes to `sink`. Measures the time until the first
   * output.
   */
  send(
    { plane, observer, clock }: Pick<RunContext, 'plane' | 'observer' | 'clock'>,
    { request, routed, isRetry }: Dispatch,
    reservation: Reservation<Worker>,
    sink: CallSink,
  ): void {
    const trace = this.#beginSpan(reservation, routed.span);
    const headers = { ...routed.headers, ...trace, ...reservation.headers, ...(isRetry ? ANOTHER_ATTEMPT : {}) };
    this.#waiting = new Waiting(observer, clock, phaseOf(routed.model.pool.role));
    this.call = plane.call(
      reservation.worker.transport,
      { id: request.id, headers, ...encodeEngineRequest(request, reservation.dpRank) },
      sink,
    );
  }

  /** Ends the wait for the first output. Does nothing if it has ended. */
  answered(): void {
    this.#waiting?.end(true);
    this.#waiting = undefined;
  }

  /**
   * Ends the attempt: its span, its wait, its prefill if no token has come, and its reservation. Idempotent.
   * @param error reason of a failure; undefined if the attempt did not fail
   * @param why reason of an early end without a failure
   */
  leave(error: string | undefined, why?: 'moved' | 'cancelled' | 'given up'): void {
    this.#span?.set({ ended_by: why });
    this.#span?.end(error); // the first end counts
    this.#waiting?.end(false);
    this.#waiting = undefined;
    if (this.outputTokens === 0) this.prefillCall?.abandon();
    this.prefillCall = undefined;
    this.reservation?.release();
    this.reservation = undefined;
    this.call = undefined;
  }

  /**
   * Begins the span of the dispatch. Returns the headers that carry it to the worker.
   * @param parent span of the request
   */
  #beginSpan(reservation: Reservation<Worker>, parent: Span | undefined): Readonly<Record<string, string>> {
    if (parent === undefined) return NO_HEADERS;
    const links = [this.#before, this.prefillCall?.span].flatMap((span) => span?.context ?? []);
    this.#span = dispatchSpan(parent, 'decode', reservation, links);
    parent.set({
      prefill_worker_id: (this.prefillCall?.worker ?? reservation.worker).id,
      decode_worker_id: reservation.worker.id,
    });
    return traceHeaders(this.#span);
  }
}
