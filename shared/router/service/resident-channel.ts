import type { Clock, Random } from '../../clock/index.ts';
import type { CallSink, RequestPlane, Transport } from '../../planes/request/index.ts';
import type { ExplanationRecord } from '../explain/explanation-record.ts';
import { type ChooseAnswer, ChooseCall } from './choose-call.ts';
import { encodeChange, encodeQuery, PROBE_BODY } from './messages.ts';
import type { ChooseQuery, ReservationChangeQuery } from './types.ts';

/** A resident router as discovery knows it. */
export interface ResidentAddress {
  readonly instanceId: string;
  readonly choose: Transport;
  readonly release: Transport;
  readonly explain: Transport;
}

export interface ResidentChannelOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Pick<Random, 'uuid'>;
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
  #isOpen = false;
  #probe: Promise<void> | undefined;
  #probedMs = Number.NEGATIVE_INFINITY;

  constructor(address: ResidentAddress, options: ResidentChannelOptions) {
    this.address = address;
    this.#options = options;
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
    const probe = { body: PROBE_BODY };
    this.#probe ??= this.#call(this.address.choose, probe, this.#connectTimeoutMs).then((outputs) => {
      this.#probe = undefined;
      this.#isOpen = outputs !== undefined;
    });
    return this.#probe;
  }

  /** Asks the router. Rejects with the signal's reason only. */
  async choose(query: ChooseQuery, firstMessageMs: number, signal: AbortSignal): Promise<ChooseAnswer> {
    const { plane, clock, lastLook } = this.#options;
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
      const request = { id: query.requestId, headers: {}, ...encodeQuery(query) };
      sink.attach(plane.call(this.address.choose, request, sink));
    });
    if (answer.kind === 'unanswered' && answer.reason !== 'standby') this.#isOpen = false;
    return answer;
  }

  /** Tells the router how far a request is. Not waited for: the router has limits of its own. */
  change(change: ReservationChangeQuery): void {
    void this.#call(this.address.release, { body: encodeChange(change) }, CHANGE_MS_MAX); // never rejects
  }

  /** Why one of the last requests went to its worker, or where a query would go now; undefined when it cannot say. */
  async explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    const question =
      typeof about === 'string' ? { body: { explain: about } } : { id: about.requestId, ...encodeQuery(about) };
    const [answer] = (await this.#call(this.address.explain, question, EXPLAIN_MS_MAX)) ?? [];
    const { explanation } = (answer ?? {}) as { readonly explanation?: ExplanationRecord | null };
    return explanation ?? undefined;
  }

  get #connectTimeoutMs(): number {
    return this.#options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS;
  }

  /** One short question; resolves with the records of its answer, undefined when it was not answered in time. */
  #call(
    transport: Transport,
    question: { readonly id?: string; readonly body: unknown; readonly tokenIds?: Uint32Array },
    timeoutMs: number,
  ): Promise<readonly unknown[] | undefined> {
    const { plane, clock, random } = this.#options;
    return new Promise((resolve) => {
      const outputs: unknown[] = [];
      const sink: CallSink = {
        accepted() {},
        tokens() {},
        output: ({ body }) => void outputs.push(body),
        end: () => settle(outputs),
        fail: () => settle(undefined),
      };
      const call = plane.call(transport, { id: random.uuid(), headers: {}, ...question }, sink);
      const timer = clock.after(timeoutMs, () => {
        call.kill();
        settle(undefined);
      });
      function settle(answer: readonly unknown[] | undefined): void {
        timer.cancel();
        resolve(answer);
      }
    });
  }
}
