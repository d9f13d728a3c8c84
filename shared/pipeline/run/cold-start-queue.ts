import type { Clock, Timer } from '../../clock/index.ts';
import { ServeError, workerError } from '../../errors/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';

/** Told of the requests that wait for a worker. Durations in milliseconds. */
export interface ColdStartObserver {
  /** So many requests of the model wait, 0 = none any more. */
  holding(model: string, count: number): void;
  /** Somebody should start a worker: told for the first request of a model, then every 5 s while any waits. */
  wanted(model: string, count: number, oldestAtMs: number): void;
  /** A request waits no more. */
  held(model: string, outcome: ColdStartOutcome, waitedMs: number): void;
}

/** `refused` = there was no room to wait. */
export type ColdStartOutcome = 'served' | 'timeout' | 'cancelled' | 'refused';

export interface ColdStartOptions {
  readonly clock: Clock;
  /** Longest wait of one request. */
  readonly timeoutMs: number;
  /** Longest wait of one whose answer is not streamed: nothing is heard of it meanwhile. @default `timeoutMs` */
  readonly unaryTimeoutMs?: number;
  /** Requests of one model that wait at a time. @default 256 */
  readonly requestsMax?: number;
  readonly observer: ColdStartObserver;
}

/** What a held request waits for: workers, and how many requests they take at once. */
export interface WorkerCapacity {
  readonly capacity: number;
}

/** A request that waits. */
export interface HeldRequest<Found extends WorkerCapacity> {
  readonly model: string;
  /** Whether its answer is streamed. @default true */
  readonly isStream?: boolean;
  /** What it waits for. */
  readonly find: () => Found | undefined;
  /** Who keeps its place. */
  readonly holder: object;
}

/** Requests that `workers` of `model` take at once, as its card says; no bound where it does not. */
export function capacityOf(model: RoutableModel, workers: readonly Worker[]): number {
  const ofRank = model.card.runtime_config.max_num_seqs ?? Number.POSITIVE_INFINITY;
  return workers.reduce((sum, { dataParallelSize }) => sum + ofRank * dataParallelSize, 0);
}

/** A model's wish for a worker is repeated this often. */
const WANTED_EVERY_MS = 5000;

/**
 * Requests whose model has no worker now, oldest first. Each waits until what it needs is
 * there, for at most the bound; nothing is polled: `look` says that something has changed. No more go on at a time than
 * the workers take, so that the first one to come is not flooded and the next ones find work; the rest waits its turn.
 *
 * | A request | its workers have a place | they have none, or none is there | the bound passes |
 * |---|---|---|---|
 * | waits | goes on and takes the place until it is over | waits | goes on if they are there, else fails |
 */
export class ColdStartQueue {
  readonly #options: ColdStartOptions;
  readonly #requestsMax: number;
  readonly #queues = new Map<string, ModelQueue>(); // a queue leaves with its last request
  /** Who went on from here and is not over. */
  readonly #holders = new Map<object, Held>();
  /** How many they are, by model. */
  readonly #taken = new Map<string, number>();

  constructor(options: ColdStartOptions) {
    this.#options = options;
    this.#requestsMax = options.requestsMax ?? 256;
  }

  /** Requests that wait, of all models. */
  get count(): number {
    let count = 0;
    for (const { waiting } of this.#queues.values()) count += waiting.size;
    return count;
  }

  /** Requests that wait, of one model. */
  countOf(model: string): number {
    return this.#queues.get(model)?.waiting.size ?? 0;
  }

  /** Whether requests of the model wait: new ones get in line. */
  isHolding(model: string): boolean {
    return this.#queues.has(model);
  }

  /**
   * Resolves with what `find` gives once that is not undefined and has a place, which `holder` keeps until it is `over`.
   * Rejects when the queue is full or the bound has passed (`service_unavailable`; `server_overloaded` when the queue is
   * full of requests for workers that are there), and with the signal's reason when it aborts.
   */
  until<Found extends WorkerCapacity>(
    { model, isStream = true, find, holder }: HeldRequest<Found>,
    signal: AbortSignal,
  ): Promise<Found> {
    this.over(holder); // one that has lost its worker waits without a place
    if (signal.aborted) return Promise.reject(signal.reason);
    const queue = this.#queueOf(model);
    if (queue.waiting.size >= this.#requestsMax) {
      this.#options.observer.held(model, 'refused', 0);
      const isThere = find() !== undefined;
      const refusal = isThere ? workerError('ResourceExhausted') : this.#failure(model, queue); // before it is forgotten
      this.#leave(model, queue);
      return Promise.reject(refusal);
    }
    const { timeoutMs, unaryTimeoutMs = timeoutMs } = this.#options;
    const boundMs = isStream ? timeoutMs : Math.min(timeoutMs, unaryTimeoutMs);
    return this.#wait({ model, find, holder }, queue, boundMs, signal);
  }

  /** `holder` needs its place no more: it has ended, or has failed. Nothing for one that has none. */
  over(holder: object): void {
    const held = this.#holders.get(holder);
    if (held === undefined) return;
    this.#holders.delete(holder);
    held.signal.removeEventListener('abort', held.onAbort);
    this.#count(held.model, -1);
    this.#lookAt(held.model);
  }

  /** Models or workers have changed: goes through the requests that wait, oldest first. */
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
      const goOn = (found: Found): void => {
        this.#take(model, holder, signal);
        end('served', () => resolve(found));
      };
      const timer = clock.after(boundMs, () => {
        const found = find();
        // A worker that is there and full has a queue of its own: that is no reason to fail.
        if (found !== undefined) goOn(found);
        else end('timeout', () => reject(this.#failure(model, queue)));
      });
      const request: Waiting = {
        untilMs: sinceMs + boundMs,
        atMs: clock.wallMs(),
        look: () => {
          const found = find();
          if (found !== undefined && (this.#taken.get(model) ?? 0) < found.capacity) goOn(found);
        },
      };
      signal.addEventListener('abort', giveUp, { once: true });
      queue.waiting.add(request);
      observer.holding(model, queue.waiting.size);
      request.look(); // those before it may wait for something else
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

  /** `Retry-After` is what is left until the oldest request gives up: by then a worker should be there. */
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
  /** When its bound passes, by `Clock.nowMs`. */
  readonly untilMs: number;
  /** When it came, as Unix time. */
  readonly atMs: number;
  look(): void;
}

interface Held {
  readonly model: string;
  readonly signal: AbortSignal;
  onAbort(): void;
}

interface ModelQueue {
  /** In order of arrival. */
  readonly waiting: Set<Waiting>;
  readonly wanted: Timer;
}
