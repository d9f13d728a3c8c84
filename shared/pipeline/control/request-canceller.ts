import { Slots } from '../../concurrency/index.ts';
import type { Discovery, EndpointRecord } from '../../discovery/index.ts';
import { ServeError } from '../../errors/index.ts';
import { askControl, CONTROL_CALLS_AT_ONCE_MAX, type ControlCaller, listControl } from './control-endpoints.ts';

export interface RequestCancellerOptions extends ControlCaller {
  readonly discovery: Pick<Discovery, 'list'>;
  /** Whether the workers of a namespace serve this edge. */
  readonly isServedFrom: (namespace: string) => boolean;
}

/** What the workers said to a cancel. */
export interface CancelOutcome {
  /** Whether one of them worked on the request, which it does no more. */
  readonly isCancelled: boolean;
  /** Workers that did not say. */
  readonly silent: number;
}

const CANCEL_ENDPOINT = 'cancel';
/** For discovery and all workers together. */
const ANSWER_MS_MAX = 2000;

/**
 * Ends requests of other edges by the ids that their clients know. Every worker is asked: no id names one, since ids are told
 * before a worker is chosen and stay when the request moves, and the legs and prompts of one request are at several.
 */
export class RequestCanceller {
  readonly #options: RequestCancellerOptions;

  constructor(options: RequestCancellerOptions) {
    this.#options = options;
  }

  /**
   * Resolves within two seconds.
   * @param id response id, request id or `x-request-id`
   * @throws ServeError `service_unavailable` when discovery cannot be read
   */
  async cancel(id: string): Promise<CancelOutcome> {
    const endMs = this.#options.clock.nowMs() + ANSWER_MS_MAX;
    const workers = await this.#workers();
    const slots = new Slots(CONTROL_CALLS_AT_ONCE_MAX);
    const ended = await Promise.all(workers.map((worker) => slots.run(undefined, () => this.#ask(worker, id, endMs))));
    return {
      isCancelled: ended.some((calls) => calls !== undefined && calls > 0),
      silent: ended.filter((calls) => calls === undefined).length,
    };
  }

  /** How many calls of the request the worker has ended; undefined when it did not say. */
  async #ask({ transport }: EndpointRecord, id: string, endMs: number): Promise<number | undefined> {
    const leftMs = endMs - this.#options.clock.nowMs();
    if (leftMs <= 0) return undefined;
    const answer = await askControl(this.#options, transport, { id }, leftMs);
    if (answer.kind === 'failed') return undefined;
    const { cancelled } = (answer.output?.body ?? {}) as { readonly cancelled?: unknown };
    return typeof cancelled === 'number' ? cancelled : undefined;
  }

  async #workers(): Promise<readonly EndpointRecord[]> {
    const { discovery, clock, isServedFrom } = this.#options;
    const deadline = new AbortController();
    const timer = clock.after(ANSWER_MS_MAX, () => deadline.abort(new Error('discovery did not answer in time')));
    try {
      const workers = await listControl(discovery, CANCEL_ENDPOINT, deadline.signal);
      return workers.filter(({ namespace }) => isServedFrom(namespace));
    } catch (cause) {
      throw new ServeError('service_unavailable', 'The workers cannot be asked', { cause, retryAfterMs: 1000 });
    } finally {
      timer.cancel();
    }
  }
}
