import type { RouterConfigOverride, RoutingHints } from '../protocol/generation/index.ts';

/** What the router knows of a worker from its discovery records. */
export interface RoutableWorker {
  /** Instance id, lower-case hex. */
  readonly id: string;
  readonly dataParallelStartRank: number;
  readonly dataParallelSize: number;
  readonly deviceType: string | undefined;
  readonly taints: readonly string[];
}

/** One request, as far as routing it goes. */
export interface RouteRequest {
  readonly id: string;
  readonly routing: RoutingHints;
  readonly override: RouterConfigOverride | undefined;
  /** Prompt token ids, for prefix overlap; absent for models that take text or tensors. */
  readonly tokenIds: Uint32Array | undefined;
  /** Workers that this request must not go to again: they failed it. */
  readonly excluded: ReadonlySet<string>;
}

/** A decision that holds a place at the worker until it is released. */
export interface Reservation<Worker extends RoutableWorker = RoutableWorker> {
  readonly worker: Worker;
  /** Absent = the worker's own choice. */
  readonly dpRank: number | undefined;
  /** Leading prompt blocks that the worker is believed to hold. */
  readonly overlapBlocks: number;
  /** The first token came: the prompt is no longer load. Idempotent. */
  prefillDone(): void;
  /** The request left the worker. Idempotent. */
  release(): void;
}

export type RouterMode = 'round-robin' | 'random' | 'power-of-two' | 'least-loaded' | 'direct';

/** Chooses the worker for each request. One `choose()` for every mode and every place a decision can come from. */
export interface Router {
  readonly mode: RouterMode;
  /**
   * Picks one of `workers` and reserves a place there. May wait in a queue until `signal` aborts.
   * Fails with `ServeError`: `service_unavailable` without a routable worker, `invalid_value` for a pin that cannot be met.
   */
  choose<Worker extends RoutableWorker>(
    request: RouteRequest,
    workers: readonly Worker[],
    signal: AbortSignal,
  ): Promise<Reservation<Worker>>;
  /** The worker failed a request: it gets no new one for a while (runtime-and-workers.md, section 7.4). */
  inhibit(workerId: string): void;
  /** Forgets what is known of a worker that discovery added anew or removed. */
  forget(workerId: string): void;
}
