import { isInhibiting, type ServeError, toServeError } from '../../errors/index.ts';
import type { EngineRequest, RoutingHints } from '../../protocol/index.ts';
import type { Reservation, RouteRequest, WorkerPool } from '../../router/index.ts';
import { inSpan } from '../../telemetry/index.ts';
import type { Worker, WorkersOfPool } from '../models/routable-model.ts';
import { isSameProcess } from '../models/worker-sets.ts';
import type { StagePhase } from '../pipeline.ts';
import { capacityOf, type WorkerCapacity } from './cold-start-queue.ts';
import type { DispatchContext, RoutedRequest, RunContext } from './run-context.ts';

const NO_WORKERS: ReadonlySet<string> = new Set();
const NO_IDS: readonly string[] = [];
/** Place of a request that will not take a worker of its set, because another set serves it. */
const ELSEWHERE: WorkerCapacity = { capacity: Number.POSITIVE_INFINITY };

/** The workers of a pool that may still take one request in one stage. The router chooses among them. */
export class WorkerEligibility {
  readonly #context: DispatchContext;
  readonly #request: RoutedRequest;
  /** Workers that failed the request, by id; undefined until the first failure, because most requests have none. */
  #failed: Map<string, Worker> | undefined;
  /** Workers that once could not get the blocks of a prefill worker. */
  #suspects: Set<string> | undefined;

  constructor(context: DispatchContext, request: RoutedRequest) {
    this.#context = context;
    this.#request = request;
  }

  /** Excludes a worker that failed the request, as long as its id has that address. */
  failedAt(worker: Worker): void {
    this.#failed ??= new Map();
    this.#failed.set(worker.id, worker);
  }

  /** Notes that a worker could not get the blocks of a prefill worker. The second time it is excluded. */
  handoffLostAt(worker: Worker): void {
    if (this.#suspects?.has(worker.id)) this.failedAt(worker);
    this.#suspects ??= new Set();
    this.#suspects.add(worker.id);
  }

  /** Returns whether a worker has neither failed the request nor fallen silent. */
  isUntried(worker: Worker): boolean {
    return !this.#hasFailed(worker) && !this.#context.stalledWorkers.has(worker);
  }

  #hasFailed(worker: Worker): boolean {
    const failed = this.#failed?.get(worker.id);
    return failed !== undefined && isSameProcess(failed, worker);
  }

  /**
   * Returns the workers to exclude: those that failed, are silent, are named by `unreachable`, or are full while
   * another is left.
   *
   * @param unreachable those of `workers` that cannot exchange blocks with the worker of the other stage
   */
  excluded(workers: readonly Worker[], unreachable: readonly string[]): ReadonlySet<string> {
    const { stalledWorkers, fullWorkers } = this.#context;
    const isTried = this.#failed !== undefined || stalledWorkers.size > 0;
    const tried = isTried ? workers.filter((worker) => !this.isUntried(worker)).map(({ id }) => id) : NO_IDS;
    const isPlain = tried.length === 0 && unreachable.length === 0;
    const excluded = isPlain ? NO_WORKERS : new Set([...tried, ...unreachable]);
    if (fullWorkers.isEmpty) return excluded;
    const open = workers.filter(({ id }) => !excluded.has(id));
    const full = open.filter(({ id }) => fullWorkers.has(id));
    // If all are full, one of them refuses the request, or has a place again.
    if (full.length === 0 || full.length === open.length) return excluded;
    return new Set([...excluded, ...full.map(({ id }) => id)]);
  }

  /** Returns the router's request for a worker of the pool. @param routing hints in place of the request's own */
  route(
    request: EngineRequest,
    { pool, workers }: WorkersOfPool,
    unreachable: readonly string[],
    routing: RoutingHints = request.routing,
  ): RouteRequest {
    const { model, messages, media, policyClass } = this.#request;
    return {
      id: request.id,
      pool,
      routing,
      override: request.routerConfigOverride,
      tokenIds: request.input.kind === 'tokens' ? request.input.tokenIds : undefined,
      messages,
      ...(media && { prompt: media.hashedFor(pool, routing), home: media.home }),
      excluded: this.excluded(workers, unreachable),
      busy: this.#context.busyOf(model, workers),
      policyClass,
    };
  }

  /** Resolves with the router's answer, or rejects as `Router.choose` does. */
  async choose(span: 'route' | 'prefill_routing', route: RouteRequest): Promise<Reservation<Worker>> {
    const { router, clock, observer } = this.#context;
    const { span: parent, signal, headers } = this.#request;
    const startMs = clock.nowMs();
    const phase = phaseOf(route.pool.role);
    observer.stageEntered?.('route', phase);
    try {
      const reservation = await inSpan(parent, span, (part) =>
        // If no spans are made, a router continues the client's trace, as workers do.
        router.choose({ ...route, traceparent: part?.context.traceparent ?? headers.traceparent }, signal),
      );
      observer.stage?.('route', clock.nowMs() - startMs);
      return reservation;
    } finally {
      observer.stageLeft?.('route', phase);
    }
  }
}

/** Returns the part of a request that workers of a role do. */
export function phaseOf(role: WorkerPool['role']): StagePhase {
  return role === 'prefill' || role === 'decode' ? role : 'aggregated';
}

/** Keeps new requests away from a worker after a failure that the next request would probably meet, too. */
export function avoidAfter(
  {
    failedWorkers,
    fullWorkers,
    onUnreachable,
    isReplaced,
  }: Pick<DispatchContext, 'failedWorkers' | 'fullWorkers' | 'onUnreachable' | 'isReplaced'>,
  worker: Worker,
  error: ServeError,
): void {
  if (isReplaced?.(worker) === true) return; // the next request goes to another address
  if (isInhibiting(error)) failedWorkers.add(worker.id);
  if (error.worker === 'WorkerOverloaded') fullWorkers.add(worker.id);
  if (error.worker === 'CannotConnect') onUnreachable?.(worker.id);
}

/**
 * Chooses the worker that answers one request, and another after each failure. Remembers the workers that failed it.
 */
export class WorkerChoice {
  readonly #context: RunContext;
  readonly #request: RoutedRequest;
  readonly #holder: object;
  readonly #isStream: boolean;
  readonly eligibility: WorkerEligibility;

  /**
   * @param holder identity of the request in the `ColdStartQueue`, if there is one
   * @param isStream whether the answer is streamed
   */
  constructor(context: RunContext, request: RoutedRequest, holder: object, isStream: boolean) {
    this.#context = context;
    this.#request = request;
    this.#holder = holder;
    this.#isStream = isStream;
    this.eligibility = new WorkerEligibility(context, request);
  }

  /** Whether a worker could still be tried. */
  get hasUntried(): boolean {
    return this.#untried().length > 0;
  }

  /** Returns whether a worker other than `left` could still be tried. */
  hasOtherThan(left: Worker): boolean {
    return this.#untried().some((worker) => !isSameProcess(worker, left));
  }

  /**
   * Chooses a worker. If requests are held, waits while no worker is left to take this one, in its worker set or in
   * another.
   *
   * @param namespace that of the prompt's blocks, which they cannot leave; undefined = there are no blocks yet
   */
  async choose(request: EngineRequest, namespace: string | undefined): Promise<Reservation<Worker>> {
    const { hold } = this.#context;
    const { model, signal, elsewhere } = this.#request;
    for (;;) {
      try {
        return await this.#ask(request, namespace);
      } catch (thrown) {
        const mayWait = hold !== undefined && toServeError(thrown).code === 'service_unavailable';
        if (!mayWait || this.hasUntried || elsewhere?.() !== undefined) throw thrown;
        const find = (): WorkerCapacity | undefined => {
          const untried = this.#untried();
          if (untried.length > 0) return { capacity: capacityOf(model, untried) };
          return elsewhere?.() === undefined ? undefined : ELSEWHERE;
        };
        await hold.until({ model: model.primaryName, isStream: this.#isStream, find, holder: this.#holder }, signal);
      }
    }
  }

  #ask(request: EngineRequest, namespace: string | undefined): Promise<Reservation<Worker>> {
    const { pool, workers } = this.#context.poolOf(this.#request.model);
    const strangers = namespace === undefined ? [] : workers.filter(({ scope }) => scope.namespace !== namespace);
    const unreachable = strangers.map(({ id }) => id);
    return this.eligibility.choose('route', this.eligibility.route(request, { pool, workers }, unreachable));
  }

  #untried(): readonly Worker[] {
    return this.#context.poolOf(this.#request.model).workers.filter((worker) => this.eligibility.isUntried(worker));
  }
}
