import { toServeError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';
import type { Reservation, RouteRequest } from '../../router/index.ts';
import { inSpan, type Span } from '../../telemetry/index.ts';
import { passingOverFull } from '../health/full-workers.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';
import { placesOf } from '../models/places.ts';
import type { Takers } from './hold.ts';
import type { RunContext } from './run-context.ts';

/** Chooses the worker of one request, over again when one fails it; remembers those that did. */
export class WorkerChoice {
  readonly #context: RunContext;
  readonly #model: RoutableModel;
  readonly #policyClass: string | undefined;
  readonly #holder: object;
  readonly #span: Span | undefined;
  readonly #signal: AbortSignal;
  readonly #failed = new Set<string>();
  /** Workers that once could not get the blocks of the prompt: the second time it is their own fault. */
  readonly #suspects = new Set<string>();

  /**
   * @param holder who holds a place of the `Hold`, if there is one
   * @param span of the request, where spans are made
   */
  constructor(
    context: RunContext,
    model: RoutableModel,
    policyClass: string | undefined,
    holder: object,
    span: Span | undefined,
    signal: AbortSignal,
  ) {
    this.#context = context;
    this.#model = model;
    this.#policyClass = policyClass;
    this.#holder = holder;
    this.#span = span;
    this.#signal = signal;
  }

  /** It gets the request no more. */
  failedAt(workerId: string): void {
    this.#failed.add(workerId);
  }

  /** It could not get the blocks that a prefill worker computed. */
  handoffLostAt(workerId: string): void {
    if (this.#suspects.has(workerId)) this.#failed.add(workerId);
    this.#suspects.add(workerId);
  }

  /** Whether somebody else than `workerId` could still be tried. */
  hasOtherThan(workerId: string | undefined): boolean {
    return this.#context.workersOf(this.#model).some(({ id }) => id !== workerId && this.#isUntried(id));
  }

  /**
   * Waits where requests are held and nobody is left to take this one.
   *
   * @param namespace where the blocks of the prompt are, which do not leave it; undefined = nowhere yet
   */
  async choose(request: EngineRequest, namespace: string | undefined): Promise<Reservation<Worker>> {
    const { hold, workersOf } = this.#context;
    for (;;) {
      try {
        return await this.#ask(request, namespace);
      } catch (thrown) {
        const isAlone = hold !== undefined && toServeError(thrown).code === 'service_unavailable';
        const untried = (): readonly Worker[] => workersOf(this.#model).filter(({ id }) => this.#isUntried(id));
        if (!isAlone || untried().length > 0) throw thrown;
        const find = (): Takers | undefined => {
          const takers = untried();
          return takers.length === 0 ? undefined : { places: placesOf(this.#model, takers) };
        };
        await hold.until(this.#model.primaryName, find, this.#holder, this.#signal);
      }
    }
  }

  async #ask(request: EngineRequest, namespace: string | undefined): Promise<Reservation<Worker>> {
    const { router, clock, observer, workersOf, busyOf } = this.#context;
    const startMs = clock.nowMs();
    const workers = workersOf(this.#model);
    const route: RouteRequest = {
      id: request.id,
      pool: this.#model.pool,
      routing: request.routing,
      override: request.routerConfigOverride,
      tokenIds: request.input.kind === 'tokens' ? request.input.tokenIds : undefined,
      excluded: this.#excludedOf(workers, namespace),
      busy: busyOf(this.#model, workers),
      policyClass: this.#policyClass,
    };
    const reservation = await inSpan(this.#span, 'route', () => router.choose(route, workers, this.#signal));
    observer.stage('route', clock.nowMs() - startMs);
    return reservation;
  }

  #excludedOf(workers: readonly Worker[], namespace: string | undefined): ReadonlySet<string> {
    const { stalledWorkers, fullWorkers } = this.#context;
    const strangers = namespace === undefined ? [] : workers.filter(({ scope }) => scope.namespace !== namespace);
    const isPlain = stalledWorkers.size === 0 && strangers.length === 0;
    const excluded = isPlain
      ? this.#failed
      : new Set([...this.#failed, ...stalledWorkers, ...strangers.map(({ id }) => id)]);
    return passingOverFull(excluded, workers, fullWorkers);
  }

  #isUntried(workerId: string): boolean {
    return !this.#failed.has(workerId) && !this.#context.stalledWorkers.has(workerId);
  }
}
