import type { Clock, Timer } from '../../clock/index.ts';
import { ServeError, workerError } from '../../errors/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';

/** Observes the requests that wait for a worker. Durations in milliseconds. */
export interface ColdStartObserver {
  /**
   * Called when the number of waiting requests of a model changes. @param count requests that wait; 0 = none any more
   */
  holding(model: string, count: number): void;
  /**
   * Called when a model needs another worker: for the first waiting request, then every 5 s while any waits.
   * @param oldestAtMs Unix time at which the oldest of them came
   */
  wanted(model: string, count: number, oldestAtMs: number): void;
  /** Called when a request stops waiting. */
  held(model: string, outcome: ColdStartOutcome, waitedMs: number): void;
}

/** How a wait ended. `refused` = the queue was full. */
export type ColdStartOutcome = 'served' | 'timeout' | 'cancelled' | 'refused';

export interface ColdStartOptions {
  readonly clock: Clock;
  /** Longest wait of one request. */
  readonly timeoutMs: number;
  /** Longest wait of a request whose answer is not streamed: its client sees nothing meanwhile. @default `timeoutMs` */
  readonly unaryTimeoutMs?: number;
  /** Requests of one model that wait at the same time. @default 256 */
  readonly requestsMax?: number;
  readonly observer: ColdStartObserver;
}

/** The workers that a held request has found. */
export interface WorkerCapacity {
  /** Requests that they take at the same time. */
  readonly capacity: number;
}

/** A request that waits. */
export interface HeldRequest<Found extends WorkerCapacity> {
  readonly model: string;
  /** Whether its answer is streamed. @default true */
  readonly isStream?: boolean;
  /** Returns the workers that may take it; undefined while there are none. */
  readonly find: () => Found | undefined;
  /** Identity of the request, which holds its place until `over` is called with it. */
  readonly holder: object;
}

/**
 * Returns how many requests `workers` take at the same time, by the model's card; infinite if the card does not say.
 */
export function capacityOf(model: RoutableModel, workers: readonly Worker[]): number {
  const ofRank = model.card.runtime_config.max_num_seqs ?? Number.POSITIVE_INFINITY;
  return workers.reduce((sum, { dataParallelSize }) => sum + ofRank * dataParallelSize, 0);
}

/** Interval at which a model's wish for a worker is repeated. */
const WANTED_EVERY_MS = 5000;

/**
 * Requests whose model has no worker now, oldest first. Each waits for workers, for at most `timeoutMs`. The queue does
 * not poll: its owner calls `look` when models or workers have changed. At any time no more requests leave the queue
 * than the workers take. So the first worker to come is not flooded, and later workers find requests.
 *
 * | Event for a waiting request | Effect |
 * |---|---|
 * | its workers have a place | it leaves, and holds the place until it is over |
 * | its workers are full, or there are none | it waits |
 * | its time has passed | it leaves if there are workers, otherwise it fails |
 */
export class ColdStartQueue {
  readonly #options: ColdStartOptions;
  readonly #requestsMax: number;
  readonly #queues = new Map<string, ModelQueue>(); // a queue leaves with its last request
  /** Requests that have left the queue and are not over, by their holder. */
  readonly #holders = new Map<object, Held>();
  /** Number of those requests, by model. */
  readonly #taken = new Map<string, number>();

  constructor(options: ColdStartOptions) {
    this.#options = options;
    this.#requestsMax = options.requestsMax ?? 256;
  }

  /** Number of waiting requests of all models. */
  get count(): number {
    let count = 0;
    for (const { waiting } of this.#queues.values()) count += waiting.size;
    return count;
  }

  /** Models with waiting requests. */
  get models(): readonly string[] {
    return [...this.#queues.keys()];
  }

  /** Returns the number of waiting requests of one model. */
  countOf(model: string): number {
    return this.#queues.get(model)?.waiting.size ?? 0;
  }

  /** Returns whether requests of the model wait. New requests must queue behind them. */
  isHolding(model: string): boolean {
    return this.#queues.has(model);
  }

  /**
   * Resolves with the workers that `find` returns when they have a place. `holder` holds the place until it is `over`.
   * Rejects with `service_unavailable` if the queue is full or the time has passed, with `server_overloaded` if the
   * queue is full although there are workers, and with the signal's reason when it aborts.
   */
  until<Found extends WorkerCapacity>(
    { model, isStream = true, find, holder }: HeldRequest<Found>,
    signal: AbortSignal,
  ): Promise<Found> {
    this.over(holder); // a request that has lost its worker gives up its place before it waits again
    if (signal.aborted) return Promise.reject(signal.reason);
    const queue = this.#queueOf(model);
    if (queue.waiting.size >= this.#requestsMax) {
      this.#options.observer.held(model, 'refused', 0);
      const isThere = find() !== undefined;
      const refusal = isThere ? workerError('ResourceExhausted') : this.#failure(model, queue); // before `#leave`
      this.#leave(model, queue);
      return Promise.reject(refusal);
    }
    const { timeoutMs, unaryTimeoutMs = timeoutMs } = this.#options;
    const boundMs = isStream ? timeoutMs : Math.min(timeoutMs, unaryTimeoutMs);
    return this.#wait({ model, find, holder }, queue, boundMs, signal);
  }

  /** Frees the place of `holder`, whose request has ended or failed. Does nothing if it has no place. */
  over(holder: object): void {
    const held = this.#holders.get(holder);
    if (held === undefined) return;
    this.#holders.delete(holder);
    held.signal.removeEventListener('abort', held.onAbort);
    this.#count(held.model, -1);
    this.#lookAt(held.model);
  }

  /** Lets waiting requests leave, oldest first, after models or workers have changed. */
  look(): void {
    for (const model of [...this.#queues.keys()]) this.#lookAt(model);
  }

  #lookAt(model: string): void {
    for (const request of [...(this.#queues.get(model)?.waiting ?? [])]) request.look();
  }

  #wait<Found extends WorkerCapacity>(
    { model, find, holder }: HeldRequest<Found>,
    queue: ModelQueue,
    boundMs: number,
    signal: AbortSignal,
  ): Promise<Found> {
    const { clock, observer } = this.#options;
    const sinceMs = clock.nowMs();
    return new Promise((resolve, reject) => {
      const end = (outcome: ColdStartOutcome, settle: () => void): void => {
        timer.cancel();
        signal.removeEventListener('abort', giveUp);
        queue.waiting.delete(request);
        this.#leave(model, queue);
        observer.held(model, outcome, clock.nowMs() - sinceMs);
        settle();
      };
      const giveUp = (): void => end('cancelled', () => reject(signal.reason));
      const serve = (found: Found): void => {
        this.#take(model, holder, signal);
        end('served', () => resolve(found));
      };
      const timer = clock.after(boundMs, () => {
        const found = find();
        // A full worker has a queue of its own, so the request need not fail.
        if (found !== undefined) serve(found);
        else end('timeout', () => reject(this.#failure(model, queue)));
      });
      const request: Waiting = {
        untilMs: sinceMs + boundMs,
        atMs: clock.wallMs(),
        look: () => {
          const found = find();
          if (found !== undefined && (this.#taken.get(model) ?? 0) < found.capacity) serve(found);
        },
      };
      signal.addEventListener('abort', giveUp, { once: true });
      queue.waiting.add(request);
      observer.holding(model, queue.waiting.size);
      request.look(); // earlier requests may wait for other workers
      if (queue.waiting.size === 1 && queue.waiting.has(request)) this.#want(model, queue);
    });
  }

  #take(model: string, holder: object, signal: AbortSignal): void {
    const onAbort = (): void => this.over(holder);
    this.#holders.set(holder, { model, signal, onAbort });
    signal.addEventListener('abort', onAbort, { once: true });
    this.#count(model, 1);
  }

  #count(model: string, change: 1 | -1): void {
    const taken = (this.#taken.get(model) ?? 0) + change;
    if (taken > 0) this.#taken.set(model, taken);
    else this.#taken.delete(model);
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

  /** Returns the failure of a request. `Retry-After` is the time until the oldest waiting request fails. */
  #failure(model: string, { waiting }: ModelQueue): ServeError {
    const [oldest] = waiting;
    const leftMs = oldest === undefined ? 0 : oldest.untilMs - this.#options.clock.nowMs();
    const retryAfterMs = Math.max(RETRY_AFTER_MS_MIN, leftMs);
    const message = `Model \`${model}\` has no worker yet. Please retry shortly.`;
    return new ServeError('service_unavailable', message, { retryAfterMs });
  }
}

const RETRY_AFTER_MS_MIN = 1000;

interface Waiting {
  /** `Clock.nowMs` at which its time has passed. */
  readonly untilMs: number;
  /** Unix time at which it came. */
  readonly atMs: number;
  look(): void;
}

interface Held {
  readonly model: string;
  readonly signal: AbortSignal;
  onAbort(): void;
}

interface ModelQueue {
  /** Requests in order of arrival. */
  readonly waiting: Set<Waiting>;
  readonly wanted: Timer;
}
