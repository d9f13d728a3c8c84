import type { RequestNames } from '../../access/index.ts';
import type { Clock } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { LIMITS, type LimitName, ServeError } from '../../errors/index.ts';
import type { RequestCanceller } from '../../pipeline/index.ts';
import { requestKeyOf, requestNameOf } from '../../protocol/index.ts';

/** The response that a client reads, which hears when the client is gone. */
export interface Abandonable {
  /** Ends with `error`, before or after the head has left. */
  fail(error: ServeError): void;
  /** Releases timers and writes nothing more, because the client is gone. */
  abandon(): void;
}

interface Running {
  readonly id: string;
  readonly owner: string;
  readonly sink: Abandonable;
  readonly breakOff: (error: ServeError) => void;
  /** Built when a request is first looked up. */
  key: string | undefined;
}

/**
 * The requests of this process that have not ended, by the ids that the server gave them. An entry lives from the start
 * of the work to its end, so the requests in flight bound their number. Few requests are cancelled, so only a
 * cancellation searches for one.
 */
export class RunningRequests {
  readonly #running = new Set<Running>();

  /**
   * Adds a request.
   * @param id the server's own id; the one that a client chose (`x-request-id`) may name several requests.
   * @param owner the only owner that may cancel the request.
   * @param breakOff ends the work, and the response with the error in its dialect
   * @param sink the response that the client reads.
   * @returns a function that removes the request
   */
  add(id: string, owner: string, breakOff: (error: ServeError) => void, sink: Abandonable): () => void {
    const running: Running = { id, owner, sink, breakOff, key: undefined };
    this.#running.add(running);
    return () => {
      this.#running.delete(running);
    };
  }

  /** Returns whether a request of any owner runs under a response or request id. */
  has(id: string): boolean {
    return this.#find(id).length > 0;
  }

  /** Returns the response of the request that an owner runs under a response or request id. */
  sinkOf(id: string, owner: string): Abandonable | undefined {
    return this.#find(id).find((running) => running.owner === owner)?.sink;
  }

  /** Cancels the request that an owner runs under a response or request id. Returns false if there is none. */
  cancel(id: string, owner: string): boolean {
    const found = this.#find(id).filter((running) => running.owner === owner);
    for (const { breakOff } of found) breakOff(new ServeError('client_closed_request', 'Request cancelled'));
    return found.length > 0;
  }

  #find(id: string): readonly Running[] {
    const key = requestKeyOf(id);
    if (key === undefined) return [];
    return [...this.#running].filter((running) => {
      running.key ??= requestKeyOf(running.id);
      return running.key === key;
    });
  }

  /** Ends all requests with `error`, and returns their number. */
  breakOff(error: ServeError): number {
    const all = [...this.#running];
    for (const { breakOff } of all) breakOff(error);
    return all.length;
  }
}

/** Dependencies of finding a request by its id. */
interface CancelDeps {
  /** As in `InferenceDeps`. */
  readonly lookUp?: ((name: string | undefined) => Promise<void> | undefined) | undefined;
  readonly lifecycle: ServiceLifecycle;
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  readonly names?: RequestNames | undefined;
}

/**
 * Ends the request that an owner runs under `id`. In this process that is any id that the server gave it; in another
 * process it is the id of a response that is being streamed, which names its worker. Returns false if no request runs
 * under the id. An id that no edge has made for this owner costs no call.
 * @throws ServeError `service_unavailable` if no worker had it and some could not be asked, `server_overloaded` if too
 * many requests
 *   are cancelled at once
 */
export async function cancelRequest(
  { lifecycle, canceller, names, lookUp }: CancelDeps,
  id: string,
  owner: string,
): Promise<boolean> {
  const key = requestKeyOf(id);
  if (key === undefined) return false;
  if (lifecycle.running.cancel(id, owner)) return true;
  const suffix = requestNameOf(id);
  const named = suffix === undefined ? undefined : names?.read(key, suffix, owner);
  if (named === undefined || canceller === undefined) return false;
  await lookUp?.(undefined); // any worker may have it
  const { isCancelled, silent } = await canceller.cancel(named);
  if (isCancelled || silent === 0) return isCancelled;
  throw new ServeError('service_unavailable', `${silent} workers did not say whether they work on ${id}`, {
    retryAfterMs: 1000,
  });
}

/** How long a client must wait before it asks again: by then another process serves, or this one. */
const RETRY_MS = 1000;
/** Time within which this process sees workers that started together with it, in any discovery store. */
const NEW_MS = 5000;

/**
 * Stage in the life of a frontend process.
 *
 * | Stage | new inference requests | `/live` | `/health` |
 * |---|---|---|---|
 * | discovering | taken on, 503 if no model is known | 200 | 503 `not_ready` |
 * | waiting (for initial workers) | held if a time for it is set, then 503 | 200 | 503 `not_ready` |
 * | ready | taken on; at first 503 if no model is known (`isNew`) | 200 | 200 `healthy` |
 * | draining | 503 | 503 | 503 `not_ready` |
 * | stopping | 503 | 503 | 503 `shutting_down` |
 */
export type ServiceStage = 'discovering' | 'waiting' | 'ready' | 'draining' | 'stopping';

/** Stage of the process and its inference responses in flight. */
export class ServiceLifecycle {
  /** Requests that can be cancelled by their ids. */
  readonly running = new RunningRequests();
  #stage: ServiceStage = 'discovering';
  #waitsFor: () => string | undefined = () => undefined;
  #inflight = 0;
  #idleWaiters: (() => void)[] = [];
  readonly #clock: Clock | undefined;
  readonly #onLimit: (limit: LimitName) => void;
  #discoveredMs: number | undefined;
  #heldMsMax = 0;
  #held = 0;
  readonly #followers = new Set<() => void>(); // one for each part of the process that follows it

  /**
   * @param clock measures the time for which the service is new; without a clock it is never new
   * @param onLimit called if a request finds no room among the held requests
   */
  constructor(clock?: Clock, onLimit: (limit: LimitName) => void = () => {}) {
    this.#clock = clock;
    this.#onLimit = onLimit;
  }

  get stage(): ServiceStage {
    return this.#stage;
  }

  /** Says what a service in the stage `waiting` waits for. */
  get waitsFor(): string | undefined {
    return this.#waitsFor();
  }

  /** Number of inference responses that have not ended. */
  get inflight(): number {
    return this.#inflight;
  }

  /** Whether the process is not about to end. */
  get isLive(): boolean {
    return this.#stage !== 'draining' && this.#stage !== 'stopping';
  }

  get isTakingRequests(): boolean {
    return this.isLive && this.#stage !== 'waiting';
  }

  /** Runs `tell` after every change of the stage, until the returned function is called. */
  follow(tell: () => void): () => void {
    this.#followers.add(tell);
    return () => void this.#followers.delete(tell);
  }

  /**
   * Whether there may be models that this process has not heard of: it has not read the fleet yet, or the workers may
   * have started at the same time. An unknown model may then exist.
   */
  get isNew(): boolean {
    if (this.#stage !== 'ready') return this.#stage === 'discovering';
    if (this.#clock === undefined || this.#discoveredMs === undefined) return false;
    return this.#clock.nowMs() - this.#discoveredMs < NEW_MS;
  }

  /**
   * Takes no requests before `discovered`.
   * @param heldMsMax how long requests wait for it before they are refused
   */
  waiting(waitsFor: () => string | undefined, heldMsMax = 0): void {
    if (!this.isLive) return;
    this.#waitsFor = waitsFor;
    this.#heldMsMax = heldMsMax;
    this.#enter('waiting');
  }

  discovered(): void {
    if (!this.isLive) return;
    this.#discoveredMs ??= this.#clock?.nowMs();
    this.#enter('ready');
  }

  /**
   * Holds a request while the first workers come up; undefined if requests are not held. Resolves when requests are
   * taken, or when that will not happen soon, and never rejects.
   * @param client that may leave meanwhile. Its signal is created when it is first read, so this reads it only if the
   * request is held.
   */
  hold(client: { readonly closed: AbortSignal }): Promise<void> | undefined {
    const clock = this.#clock;
    if (this.#stage !== 'waiting' || this.#heldMsMax === 0 || clock === undefined) return undefined;
    if (this.#held >= LIMITS.held_requests.max) {
      this.#onLimit('held_requests');
      return undefined;
    }
    this.#held++;
    let release = (): void => {};
    const over = new Promise<void>((resolve) => {
      const timer = clock.after(this.#heldMsMax, resolve);
      const unfollow = this.follow(() => {
        if (this.#stage !== 'waiting') resolve();
      });
      release = () => {
        timer.cancel();
        unfollow();
        this.#held--;
      };
    });
    return untilAborted(over, client.closed)
      .catch(() => {}) // the caller checks whether the client is still there
      .finally(release);
  }

  /** Refuses new inference requests; requests in flight go on. */
  drain(): void {
    if (this.isLive) this.#enter('draining');
  }

  stop(): void {
    this.#enter('stopping');
  }

  #enter(stage: ServiceStage): void {
    this.#stage = stage;
    for (const tell of this.#followers) tell();
  }

  /** Stops, ends the inference responses in flight with an error, and returns their number. */
  cut(): number {
    this.stop();
    return this.running.breakOff(
      new ServeError('service_unavailable', 'Service is shutting down', { retryAfterMs: RETRY_MS }),
    );
  }

  entered(): void {
    this.#inflight++;
  }

  left(): void {
    this.#inflight--;
    if (this.#inflight > 0) return;
    const waiters = this.#idleWaiters;
    this.#idleWaiters = [];
    for (const wake of waiters) wake();
  }

  /** Resolves with true when no inference response is in flight any more, with false after `deadlineMs`. */
  idle(clock: Clock, deadlineMs: number): Promise<boolean> {
    if (this.#inflight === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = clock.after(deadlineMs, () => resolve(false));
      this.#idleWaiters.push(() => {
        timer.cancel();
        resolve(true);
      });
    });
  }
}
