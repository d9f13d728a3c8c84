import { isInhibiting, type ServeError, toServeError } from '../../errors/index.ts';
import type { EngineRequest, RoutingHints } from '../../protocol/index.ts';
import type { Reservation, RouteRequest, WorkerPool } from '../../router/index.ts';
import { inSpan } from '../../telemetry/index.ts';
import type { Worker, WorkersOfPool } from '../models/routable-model.ts';
import type { StagePhase } from '../pipeline.ts';
import { capacityOf, type WorkerCapacity } from './cold-start-queue.ts';
import type { DispatchContext, RoutedRequest, RunContext } from './run-context.ts';

const NOBODY: ReadonlySet<string> = new Set();

/** Which workers of a pool may still take one request, for each of its legs: the router chooses among them. */
export class WorkerEligibility {
  readonly #context: DispatchContext;
  readonly #request: RoutedRequest;
  /** Present from the first failure on: most requests have none. */
  #failed: Set<string> | undefined;
  #suspects: Set<string> | undefined;

  constructor(context: DispatchContext, request: RoutedRequest) {
    this.#context = context;
    this.#request = request;
  }

  /** It gets the request no more. */
  failedAt(workerId: string): void {
    this.#failed ??= new Set();
    this.#failed.add(workerId);
  }

  /** It could not get the blocks that a prefill worker computed: the second time that is its own fault. */
  handoffLostAt(workerId: string): void {
    if (this.#suspects?.has(workerId)) this.failedAt(workerId);
    this.#suspects ??= new Set();
    this.#suspects.add(workerId);
  }

  /** Whether a worker has neither failed the request nor fallen silent. */
  isUntried(workerId: string): boolean {
    return this.#failed?.has(workerId) !== true && !this.#context.stalledWorkers.has(workerId);
  }

  /**
   * Those that failed, that are silent, that `unreachable` names, or that are full while another is left.
   *
   * @param unreachable those of `workers` between whom and the other leg no blocks may go
   */
  excluded(workers: readonly Worker[], unreachable: readonly string[]): ReadonlySet<string> {
    const { stalledWorkers, fullWorkers } = this.#context;
    const failed = this.#failed ?? NOBODY;
    const isPlain = stalledWorkers.size === 0 && unreachable.length === 0;
    const excluded = isPlain ? failed : new Set([...failed, ...stalledWorkers, ...unreachable]);
    if (fullWorkers.isEmpty) return excluded;
    const open = workers.filter(({ id }) => !excluded.has(id));
    const full = open.filter(({ id }) => fullWorkers.has(id));
    // When all are full one of them says so, or has a place again.
    if (full.length === 0 || full.length === open.length) return excluded;
    return new Set([...excluded, ...full.map(({ id }) => id)]);
  }

  /** The question to the router which worker of the pool takes `request`. @param routing hints in place of the request's own */
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

  /** The router's answer, or a rejection as `Router.choose` has it. */
  async choose(span: 'route' | 'prefill_routing', route: RouteRequest): Promise<Reservation<Worker>> {
    const { router, clock, observer } = this.#context;
    const { span: parent, signal, headers } = this.#request;
    const startMs = clock.nowMs();
    const phase = phaseOf(route.pool.role);
    observer.stageEntered?.('route', phase);
    try {
      const reservation = await inSpan(parent, span, (part) =>
        // Where no spans are made, a router goes on from the client's trace, as workers do.
        router.choose({ ...route, traceparent: part?.context.traceparent ?? headers.traceparent }, signal),
      );
      observer.stage?.('route', clock.nowMs() - startMs);
      return reservation;
    } finally {
      observer.stageLeft?.('route', phase);
    }
  }
}

/** What workers of a pool do of a request. */
export function phaseOf(role: WorkerPool['role']): StagePhase {
  return role === 'prefill' || role === 'decode' ? role : 'aggregated';
}

/** Keeps new requests away from a worker for as long as its failure of one says something of the next. */
export function avoidAfter(
  {
    failedWorkers,
    fullWorkers,
    onUnreachable,
  }: Pick<DispatchContext, 'failedWorkers' | 'fullWorkers' | 'onUnreachable'>,
  workerId: string,
  error: ServeError,
): void {
  if (isInhibiting(error)) failedWorkers.add(workerId);
  if (error.worker === 'WorkerOverloaded') fullWorkers.add(workerId);
  if (error.worker === 'CannotConnect') onUnreachable?.(workerId);
}

/** Chooses the worker that answers one request, over again when one fails it; remembers those that did. */
export class WorkerChoice {
  readonly #context: RunContext;
  readonly #request: RoutedRequest;
  readonly #holder: object;
  readonly #isStream: boolean;
  readonly eligibility: WorkerEligibility;

  /**
   * @param holder who holds a place of the `ColdStartQueue`, if there is one
   * @param isStream whether the answer is streamed
   */
  constructor(context: RunContext, request: RoutedRequest, holder: object, isStream: boolean) {
    this.#context = context;
    this.#request = request;
    this.#holder = holder;
    this.#isStream = isStream;
    this.eligibility = new WorkerEligibility(context, request);
  }

  /** Whether somebody else than `workerId` could still be tried. */
  hasOtherThan(workerId: string | undefined): boolean {
    return this.#untried().some(({ id }) => id !== workerId);
  }

  /**
   * Waits where requests are held and nobody is left to take this one.
   *
   * @param namespace where the blocks of the prompt are, which do not leave it; undefined = nowhere yet
   */
  async choose(request: EngineRequest, namespace: string | undefined): Promise<Reservation<Worker>> {
    const { hold } = this.#context;
    const { model, signal } = this.#request;
    for (;;) {
      try {
        return await this.#ask(request, namespace);
      } catch (thrown) {
        const isAlone = hold !== undefined && toServeError(thrown).code === 'service_unavailable';
        if (!isAlone || this.#untried().length > 0) throw thrown;
        const find = (): WorkerCapacity | undefined => {
          const untried = this.#untried();
          return untried.length === 0 ? undefined : { capacity: capacityOf(model, untried) };
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
    return this.#context.poolOf(this.#request.model).workers.filter(({ id }) => this.eligibility.isUntried(id));
  }
}
