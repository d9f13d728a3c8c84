import { toServeError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Worker } from '../models/model-directory.ts';
import { capacityOf, type WorkerCapacity } from './cold-start-queue.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { WorkerEligibility } from './worker-eligibility.ts';

/** Chooses the worker that answers one request, over again when one fails it; remembers those that did. */
export class WorkerChoice {
  readonly #context: RunContext;
  readonly #request: RoutedRequest;
  readonly #holder: object;
  readonly eligibility: WorkerEligibility;

  /** @param holder who holds a place of the `ColdStartQueue`, if there is one */
  constructor(context: RunContext, request: RoutedRequest, holder: object) {
    this.#context = context;
    this.#request = request;
    this.#holder = holder;
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
        await hold.until(model.primaryName, find, this.#holder, signal);
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
