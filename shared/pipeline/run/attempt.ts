import type { Call } from '../../planes/request/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Span } from '../../telemetry/index.ts';
import type { Worker } from '../models/model-directory.ts';
import type { PrefillLeg } from './prefill-leg.ts';

/**
 * The span of one request at one worker, from sending it until leaving it.
 *
 * @param parent of the request; undefined where no spans are made
 * @param links the attempt before, the prefill that this decode goes on from
 */
export function dispatchSpan(
  parent: Span | undefined,
  phase: 'prefill' | 'decode',
  { worker, dpRank }: Reservation<Worker>,
  links: readonly Span['context'][] = [],
): Span | undefined {
  return parent?.child('dispatch', {
    kind: 'client',
    attributes: { phase, worker_id: worker.id, dp_rank: dpRank },
    links,
  });
}

/** What tells a worker whose part its work is; nothing where no spans are made: it goes on from the request's own headers. */
export function traceHeaders(span: Span | undefined): Readonly<Record<string, string>> {
  return span === undefined ? NO_HEADERS : { traceparent: span.context.traceparent };
}

const NO_HEADERS: Readonly<Record<string, string>> = {};

/** One try of a request at one decode worker, from choosing that until leaving it. */
export class Attempt {
  /** Computes the prompt elsewhere; undefined = its worker does. */
  leg: PrefillLeg | undefined;
  reservation: Reservation<Worker> | undefined;
  call: Call | undefined;
  /** From its worker. */
  outputTokens = 0;
  /** Its worker has said something of the answer, in tokens or in its own words. */
  hasBegun = false;
  #span: Span | undefined;
  /** Of the attempt before. */
  readonly #before: Span | undefined;

  constructor(before?: Attempt) {
    if (before !== undefined) this.#before = before.#span ?? before.#before;
  }

  /** The request goes to the worker of `reservation`. @param parent span of the request @returns the headers that tell the worker */
  beginSpan(reservation: Reservation<Worker>, parent: Span | undefined): Readonly<Record<string, string>> {
    if (parent === undefined) return NO_HEADERS;
    const links = [this.#before, this.leg?.span].flatMap((span) => span?.context ?? []);
    this.#span = dispatchSpan(parent, 'decode', reservation, links);
    parent.set({
      prefill_worker_id: (this.leg?.worker ?? reservation.worker).id,
      decode_worker_id: reservation.worker.id,
    });
    return traceHeaders(this.#span);
  }

  /** Its worker has no more to do with the request. Idempotent. @param error why the attempt failed */
  leave(error: string | undefined): void {
    this.#span?.end(error); // the first end counts
    if (this.outputTokens === 0) this.leg?.abandon();
    this.leg = undefined;
    this.reservation?.release();
    this.reservation = undefined;
    this.call = undefined;
  }
}
