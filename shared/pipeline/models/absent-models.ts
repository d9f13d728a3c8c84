import type { Clock } from '../../clock/index.ts';
import type { CatalogueEntry, ModelRecord } from '../../discovery/index.ts';
import { BoundedMap } from '../../records/index.ts';
import { type PlannedName, placeholderCard } from './planned-models.ts';
import { type ModelTerms, modelOf, type RoutableModel } from './routable-model.ts';

interface RememberedModelsOptions {
  readonly clock: Pick<Clock, 'nowMs'>;
  /** How long a name is remembered, in milliseconds; 0 = not at all. */
  readonly rememberedMs: number;
  /** Largest number of remembered names; the latest ones stay. */
  readonly rememberedMax: number;
  /** Returns whether the worker with that id is live, whatever it serves. */
  isWorkerLive(id: string): boolean;
}

interface Remembered {
  readonly model: RoutableModel;
  /** Ids of the workers that served it last. */
  readonly workerIds: readonly string[];
  /** `Clock.nowMs` */
  readonly untilMs: number;
}

/**
 * Remembers models that no worker serves any more, with their last state, for as long as their workers may come back.
 */
export class RememberedModels {
  readonly #options: RememberedModelsOptions;
  readonly #remembered: BoundedMap<string, Remembered>;

  constructor(options: RememberedModelsOptions) {
    this.#options = options;
    this.#remembered = new BoundedMap(options.rememberedMax);
  }

  /** Applies a change of the models: remembers those that have gone, and forgets those that are back. */
  change(before: ReadonlyMap<string, RoutableModel>, now: ReadonlyMap<string, RoutableModel>): void {
    const { clock, rememberedMs } = this.#options;
    for (const name of now.keys()) this.#remembered.delete(name);
    if (rememberedMs === 0) return;
    const untilMs = clock.nowMs() + rememberedMs;
    for (const [name, model] of before) {
      if (now.has(name)) continue;
      const workerIds = model.workers.map(({ id }) => id);
      this.#remembered.set(name, { model: { ...model, ...ABANDONED }, workerIds, untilMs });
    }
  }

  /**
   * Returns the model of that name, without workers. It does not return an adapter whose worker is live, because that
   * worker has unloaded it.
   */
  find(name: string): RoutableModel | undefined {
    const remembered = this.#remembered.get(name);
    if (remembered === undefined) return undefined;
    const { model, workerIds, untilMs } = remembered;
    if (untilMs <= this.#options.clock.nowMs()) {
      this.#remembered.delete(name);
      return undefined;
    }
    const isUnloaded = model.card.lora !== undefined && workerIds.some((id) => this.#options.isWorkerLive(id));
    return isUnloaded ? undefined : model;
  }

  /** Returns every model that `find` would find. */
  list(): readonly RoutableModel[] {
    if (this.#remembered.size === 0) return NONE;
    return [...this.#remembered.keys()].flatMap((name) => this.find(name) ?? NONE);
  }
}

const NONE: readonly RoutableModel[] = [];

/** Fields that are the same for every model that no worker serves. */
const ABANDONED = {
  workers: [],
  standing: [],
  otherSets: undefined,
  readiness: { isReady: false, reason: 'no worker', namespaces: {} },
} as const;

/** Instance id that stands for no instance in the catalogue: no worker serves the model. */
const NO_INSTANCE = '0';

/** Where the card of a model without workers stands. */
type AbsentCard = Pick<ModelRecord, 'namespace' | 'component' | 'endpoint' | 'card'>;

/**
 * Models of the fleet's catalogue, which outlive their workers, and models whose first workers a planner is to start. A
 * process knows them even if it has never seen their workers.
 */
export class CataloguedModels {
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #terms: ModelTerms;
  readonly #planned: readonly PlannedName[];
  #models: ReadonlyMap<string, RoutableModel> = new Map();

  /** @param planned models of planners, in scope; the first of a name counts */
  constructor(clock: Pick<Clock, 'wallMs'>, terms: ModelTerms, planned: readonly PlannedName[] = []) {
    this.#clock = clock;
    this.#terms = terms;
    this.#planned = planned;
    this.show([]);
  }

  /** Takes over the entries, which are all in scope. */
  show(entries: readonly CatalogueEntry[]): void {
    const models = new Map<string, RoutableModel>();
    for (const entry of entries) {
      const name = entry.card.display_name;
      const model = this.#absent(entry);
      models.set(name, model);
      for (const alias of entry.card.aliases) if (!models.has(alias)) models.set(alias, { ...model, name: alias });
    }
    for (const planned of this.#planned) {
      if (models.has(planned.model)) continue;
      const at = { namespace: planned.namespace, component: '', endpoint: '' };
      models.set(planned.model, { ...this.#absent({ ...at, card: placeholderCard(planned) }), isPlanned: true });
    }
    this.#models = models;
  }

  /** Returns the model of that name, without workers. */
  find(name: string): RoutableModel | undefined {
    return this.#models.get(name);
  }

  list(): Iterable<RoutableModel> {
    return this.#models.values();
  }

  #absent({ namespace, component, endpoint, card }: AbsentCard): RoutableModel {
    const name = card.display_name;
    const record = { type: 'Model', namespace, component, endpoint, instance_id: NO_INSTANCE, card } as const;
    const createdSecs = this.#models.get(name)?.createdSecs ?? Math.floor(this.#clock.wallMs() / 1000);
    return { ...modelOf(name, [{ record, endpoint: undefined }], this.#terms), createdSecs };
  }
}
