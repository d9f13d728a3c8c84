import type { ExplanationRecord } from '../explain/explanation-record.ts';
import { type ChooseAnswer, ChooseCall } from './choose-call.ts';
import { type PlaneAddress, PlaneLine, type PlaneLineOptions } from './plane-line.ts';
import type { ResidentLine } from './resident-line.ts';
import type { ChooseQuery, ReservationChangeQuery } from './types.ts';

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
