import type { Clock, Timer } from '../clock/index.ts';
import { ServeError } from '../errors/index.ts';

/** Told of the requests that wait for a worker. Durations in milliseconds. */
export interface HoldObserver {
  /** So many requests of the model wait, 0 = none any more. */
  holding(model: string, count: number): void;
  /** Somebody should start a worker: told for the first request of a model, then every 5 s while any waits. */
  wanted(model: string, count: number, oldestAtMs: number): void;
  /** A request waits no more. */
  held(model: string, outcome: HoldOutcome, waitedMs: number): void;
}

/** `refused` = there was no room to wait. */
export type HoldOutcome = 'served' | 'timeout' | 'cancelled' | 'refused';

export interface HoldOptions {
  readonly clock: Clock;
  /** Longest wait of one request. */
  readonly timeoutMs: number;
  /** Requests of one model that wait at a time. @default 256 */
  readonly requestsMax?: number;
  readonly observer: HoldObserver;
}

/** A model's wish for a worker is repeated this often (planner.md, section 16.2). */
const WANTED_EVERY_MS = 5000;

/**
 * Requests whose model has no worker now, oldest first (planner.md, section 16.7). Each waits until what it needs is
 * there, for at most the bound; nothing is polled: `look` says that something has changed.
 */
export class Hold {
  readonly #options: HoldOptions;
  readonly #requestsMax: number;
  readonly #queues = new Map<string, ModelQueue>(); // a queue leaves with its last request

  constructor(options: HoldOptions) {
    this.#options = options;
    this.#requestsMax = options.requestsMax ?? 256;
  }

  /** Requests that wait, of all models. */
  get count(): number {
    let count = 0;
    for (const { waiting } of this.#queues.values()) count += waiting.size;
    return count;
  }

  /**
   * Resolves with what `find` gives once that is not undefined. Rejects with `service_unavailable` when the queue is full or
   * the bound has passed, and with the signal's reason when it aborts.
   */
  until<Found extends object>(model: string, find: () => Found | undefined, signal: AbortSignal): Promise<Found> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const queue = this.#queueOf(model);
    if (queue.waiting.size >= this.#requestsMax) {
      this.#options.observer.held(model, 'refused', 0);
      const refusal = this.#failure(model, queue); // before an empty queue is forgotten
      this.#leave(model, queue);
      return Promise.reject(refusal);
    }
    return this.#wait(model, queue, find, signal);
  }

  /** Models or workers have changed: goes through the requests that wait, oldest first. */
  look(): void {
    for (const { waiting } of [...this.#queues.values()]) for (const request of [...waiting]) request.look();
  }

  #wait<Found extends object>(
    model: string,
    queue: ModelQueue,
    find: () => Found | undefined,
    signal: AbortSignal,
  ): Promise<Found> {
    const { clock, timeoutMs, observer } = this.#options;
    const sinceMs = clock.nowMs();
    return new Promise((resolve, reject) => {
      const end = (outcome: HoldOutcome, settle: () => void): void => {
        timer.cancel();
        signal.removeEventListener('abort', giveUp);
        queue.waiting.delete(request);
        this.#leave(model, queue);
        observer.held(model, outcome, clock.nowMs() - sinceMs);
        settle();
      };
      const giveUp = (): void => end('cancelled', () => reject(signal.reason));
      const timer = clock.after(timeoutMs, () => end('timeout', () => reject(this.#failure(model, queue))));
      const request: Waiting = {
        sinceMs,
        atMs: clock.wallMs(),
        look: () => {
          const found = find();
          if (found !== undefined) end('served', () => resolve(found));
        },
      };
      signal.addEventListener('abort', giveUp, { once: true });
      queue.waiting.add(request);
      observer.holding(model, queue.waiting.size);
      if (queue.waiting.size === 1) this.#want(model, queue);
    });
  }

  #queueOf(model: string): ModelQueue {
    const known = this.#queues.get(model);
    if (known !== undefined) return known;
    const wanted = this.#options.clock.every(WANTED_EVERY_MS, () => this.#want(model, queue));
    const queue: ModelQueue = { waiting: new Set(), wanted };
    this.#queues.set(model, queue);
    return queue;
  }

  #leave(model: string, queue: ModelQueue): void {
    this.#options.observer.holding(model, queue.waiting.size);
    if (queue.waiting.size > 0) return;
    queue.wanted.cancel();
    if (this.#queues.get(model) === queue) this.#queues.delete(model);
  }

  #want(model: string, { waiting }: ModelQueue): void {
    const [oldest] = waiting;
    if (oldest !== undefined) this.#options.observer.wanted(model, waiting.size, oldest.atMs);
  }

  /** `Retry-After` is what is left until the oldest request gives up: by then a worker should be there. */
  #failure(model: string, { waiting }: ModelQueue): ServeError {
    const { clock, timeoutMs } = this.#options;
    const [oldest] = waiting;
    const leftMs = oldest === undefined ? 0 : oldest.sinceMs + timeoutMs - clock.nowMs();
    const retryAfterMs = Math.max(RETRY_AFTER_MS_MIN, leftMs);
    const message = `Model \`${model}\` has no worker yet. Please retry shortly.`;
    return new ServeError('service_unavailable', message, { retryAfterMs });
  }
}

const RETRY_AFTER_MS_MIN = 1000;

interface Waiting {
  /** `Clock.nowMs` */
  readonly sinceMs: number;
  /** The same as Unix time. */
  readonly atMs: number;
  look(): void;
}

interface ModelQueue {
  /** In order of arrival. */
  readonly waiting: Set<Waiting>;
  readonly wanted: Timer;
}
