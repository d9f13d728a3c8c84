import type { Random } from '../../clock/index.ts';
import type { ModelType } from '../../discovery/index.ts';
import type { ServeError } from '../../errors/index.ts';
import { ENDPOINTS, type GenerationRequest, type GenerationSink, isPinned } from '../../protocol/index.ts';
import { modelNotFound, modelNotReady } from '../models/model-errors.ts';
import type { RoutableModel } from '../models/routable-model.ts';
import { chooseOtherSet, chooseSet } from '../models/worker-sets.ts';
import { servesType } from '../pipeline.ts';
import type { PipelineOptions } from '../pipeline-options.ts';
import { capacityOf, type WorkerCapacity } from './cold-start-queue.ts';
import type { PlaceOptions } from './placing.ts';

/** Finds the models that requests name, and chooses their worker sets. */
export class ModelFinder {
  readonly #models: PipelineOptions['models'];
  readonly #hold: PipelineOptions['hold'];
  readonly #random: Pick<Random, 'below'>;

  constructor({ models, hold }: Pick<PipelineOptions, 'models' | 'hold'>, random: Pick<Random, 'below'>) {
    this.#models = models;
    this.#hold = hold;
    this.#random = random;
  }

  /** Returns a model whose card is known. @throws ServeError `model_not_found`, `service_unavailable` */
  withCard(name: string): RoutableModel {
    const model = this.#models.known(name);
    if (model === undefined) throw this.#notFound(name);
    if (model.isPlanned) throw modelNotReady(name);
    return model;
  }

  /**
   * Finds the model of a request, and chooses one of its worker sets. Rejects with a ServeError `model_not_found` or
   * `service_unavailable`.
   * @param holder identity of the request in the queue of requests that wait for workers
   */
  async setFor(
    asked: GenerationRequest,
    holder: GenerationSink,
    { signal, admits }: Pick<PlaceOptions, 'signal'> & Partial<PlaceOptions>,
  ): Promise<RoutableModel> {
    const type = ENDPOINTS[asked.endpoint].modelType;
    const named = await this.#modelFor(asked, type, holder, signal);
    return chooseSet(named, { type, routing: asked.routing, admits }, this.#random);
  }

  /**
   * Returns another worker set for a request; undefined if there is none, or if the request names its worker.
   * @param tried checksums of the cards of worker sets that could not serve it
   */
  otherSet(asked: GenerationRequest, tried: ReadonlySet<string>): RoutableModel | undefined {
    const now = this.#models.find(asked.model);
    if (now === undefined || isPinned(asked)) return undefined;
    return chooseOtherSet(now, ENDPOINTS[asked.endpoint].modelType, tried, this.#random);
  }

  /**
   * Returns the model that the request names, as soon as it can be served.
   * @throws ServeError `model_not_found`, `service_unavailable`
   */
  async #modelFor(
    { model: name, stream: isStream }: GenerationRequest,
    type: ModelType,
    sink: GenerationSink,
    signal: AbortSignal,
  ): Promise<RoutableModel> {
    const model = this.#models.known(name);
    if (model === undefined || !servesType(model, type)) throw this.#notFound(name, type);
    const hold = this.#hold;
    if (hold === undefined || (model.readiness.isReady && !hold.isHolding(model.primaryName))) {
      if (!model.readiness.isReady) throw modelNotReady(name);
      return model;
    }
    const find = (): (WorkerCapacity & { readonly ready: RoutableModel }) | undefined => {
      const ready = this.#models.find(name);
      return ready?.readiness.isReady === true ? { ready, capacity: capacityOf(ready, ready.workers) } : undefined;
    };
    const { ready } = await hold.until({ model: model.primaryName, isStream, find, holder: sink }, signal);
    if (!servesType(ready, type)) throw this.#notFound(name, type); // a planned model takes any kind
    // Its worker takes the body itself, and the request was read as one that is not passed on.
    if (model.isPlanned && type === 'Embedding' && ready.card.model_input === 'Text') throw modelNotReady(name);
    return ready;
  }

  #notFound(name: string, type?: ModelType): ServeError {
    const { isPart } = this.#models;
    return modelNotFound(this.#models.list(), { name, type, param: 'model', isPart, refused: this.#models.refused() });
  }
}
