import type { RequestNames } from '../../access/index.ts';
import type { Clock } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { LIMITS, type LimitName, ServeError } from '../../errors/index.ts';
import type { RequestCanceller } from '../../pipeline/index.ts';
import { requestKeyOf, requestNameOf } from '../../protocol/index.ts';

/** What the client of a dialect reads; it is told when nobody does any more. */
export interface Abandonable {
  /** Ends with `error`, before or after the head has left. */
  fail(error: ServeError): void;
  /** The client has gone: release timers, write nothing. */
  abandon(): void;
}

interface Running {
  readonly id: string;
  readonly owner: string;
  readonly sink: Abandonable;
  readonly breakOff: (error: ServeError) => void;
  /** Made when somebody first looks for a request. */
  key: string | undefined;
}

/**
 * The requests of this process that have not ended, by the ids that the server gave them. Bounded by the responses under
 * way: an entry lives from the start of the work to its end. All come and go, few are cancelled: those are searched for.
 */
export class RunningRequests {
  readonly #running = new Set<Running>();

  /**
   * @param id the server's own; what a client chose (`x-request-id`) need not be its alone
   * @param owner who alone may cancel it
   * @param breakOff ends work and response, which tells the error in its dialect
   * @param sink what its client reads
   * @returns takes the request out again
   */
  add(id: string, owner: string, breakOff: (error: ServeError) => void, sink: Abandonable): () => void {
    const running: Running = { id, owner, sink, breakOff, key: undefined };
    this.#running.add(running);
    return () => {
      this.#running.delete(running);
    };
  }

  /** Whether something runs under a response or request id, whoever's it is. */
  has(id: string): boolean {
    return this.#find(id).length > 0;
  }

  /** What its client reads of what an owner runs under a response or request id. */
  sinkOf(id: string, owner: string): Abandonable | undefined {
    return this.#find(id).find((running) => running.owner === owner)?.sink;
  }

  /** Cancels what an owner runs under a response or request id; false when nothing does. */
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

  /** Ends all of them with `error`; returns how many. */
  breakOff(error: ServeError): number {
    const all = [...this.#running];
    for (const { breakOff } of all) breakOff(error);
    return all.length;
  }
}

/** What finds a request by its id. */
interface CancelDeps {
  /** As in `InferenceDeps`. */
  readonly lookUp?: ((name: string | undefined) => Promise<void> | undefined) | undefined;
  readonly lifecycle: ServiceLifecycle;
  readonly canceller?: Pick<RequestCanceller, 'cancel'> | undefined;
  readonly names?: RequestNames | undefined;
}

/**
 * Ends what an owner runs under `id`: in this process by any id that the server gave it, elsewhere by that of a response that
 * is being streamed, which names its worker. False when nothing runs under it; an id that no edge has made for this owner
 * costs no call.
 * @throws ServeError `service_unavailable` when nobody had it and some could not be asked, `server_overloaded` when too many
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

/** When a client may ask again: another process serves by then, or this one. */
const RETRY_MS = 1000;
/** Workers that were started together with this process are seen by it within so long, whatever the discovery store. */
const NEW_MS = 5000;

/**
 * Where a frontend process is in its life.
 *
 * | Stage | new inference requests | `/live` | `/health` |
 * |---|---|---|---|
 * | discovering | taken on, 503 where no model is known | 200 | 503 `not_ready` |
 * | waiting (for initial workers) | held where a time for it is given, then 503 | 200 | 503 `not_ready` |
 * | ready | taken on; at first 503 where no model is known (`isNew`) | 200 | 200 `healthy` |
 * | draining | 503 | 503 | 503 `not_ready` |
 * | stopping | 503 | 503 | 503 `shutting_down` |
 */
export type ServiceStage = 'discovering' | 'waiting' | 'ready' | 'draining' | 'stopping';

/** Stage of the process and the inference responses under way. */
export class ServiceLifecycle {
  /** Those of them that can be cancelled by their ids. */
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
   * @param clock by which the service is new for a while; without one it is not
   * @param onLimit a request found no room among those that are held
   */
  constructor(clock?: Clock, onLimit: (limit: LimitName) => void = () => {}) {
    this.#clock = clock;
    this.#onLimit = onLimit;
  }

  get stage(): ServiceStage {
    return this.#stage;
  }

  /** What a service that waits is waiting for. */
  get waitsFor(): string | undefined {
    return this.#waitsFor();
  }

  /** Inference responses that have not ended. */
  get inflight(): number {
    return this.#inflight;
  }

  /** The process is not about to end. */
  get isLive(): boolean {
    return this.#stage !== 'draining' && this.#stage !== 'stopping';
  }

  get isTakingRequests(): boolean {
    return this.isLive && this.#stage !== 'waiting';
  }

  /** Runs `tell` after every change of the stage, until the function that is returned is called. */
  follow(tell: () => void): () => void {
    this.#followers.add(tell);
    return () => void this.#followers.delete(tell);
  }

  /**
   * Whether models may be served that this process has not heard of: the fleet was not read yet, or its workers may have been
   * started at the same time. That no model is known says nothing then.
   */
  get isNew(): boolean {
    if (this.#stage !== 'ready') return this.#stage === 'discovering';
    if (this.#clock === undefined || this.#discoveredMs === undefined) return false;
    return this.#clock.nowMs() - this.#discoveredMs < NEW_MS;
  }

  /**
   * Takes no requests before `discovered`.
   * @param heldMsMax requests that come are held so long for it, before they are refused
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
   * Holds a request while the first workers come up; undefined where nothing is held. Resolves when requests are taken, or
   * will not be soon, and never rejects.
   * @param client that may leave meanwhile; its signal, which is made when somebody asks for it, is asked for if it is held
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
      .catch(() => {}) // whoever held it looks at the client
      .finally(release);
  }

  /** Refuses new inference requests; those under way go on. */
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

  /** Stops, and ends the inference responses that are still under way with an error; returns how many. */
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

  /** Resolves with true when no inference response is under way any more, with false after `deadlineMs`. */
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
