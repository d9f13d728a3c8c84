import type { Clock } from '../../clock/index.ts';
import type { CatalogueEntry } from '../../discovery/index.ts';
import { modelOf } from './join-cards.ts';
import type { ModelDirectoryOptions, RoutableModel } from './model-directory.ts';

/** Of an instance that is none: nothing serves the model as far as the catalogue knows. */
const NO_INSTANCE = '0';

/** The models of the fleet's catalogue, which outlive their workers: known also to a process that never saw one. */
export class CataloguedModels {
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #options: ModelDirectoryOptions;
  #models: ReadonlyMap<string, RoutableModel> = new Map();

  constructor(options: ModelDirectoryOptions) {
    this.#clock = options.clock;
    this.#options = options;
  }

  /** Takes over the entries, which are all in scope. */
  show(entries: readonly CatalogueEntry[]): void {
    const models = new Map<string, RoutableModel>();
    for (const { namespace, component, endpoint, card } of entries) {
      const name = card.display_name;
      const record = { type: 'Model', namespace, component, endpoint, instance_id: NO_INSTANCE, card } as const;
      const createdSecs = this.#models.get(name)?.createdSecs ?? Math.floor(this.#clock.wallMs() / 1000);
      const model = { ...modelOf(name, [{ record, endpoint: undefined }], this.#options), createdSecs };
      models.set(name, model);
      for (const alias of card.aliases) if (!models.has(alias)) models.set(alias, { ...model, name: alias });
    }
    this.#models = models;
  }

  /** The model of that name, without workers. */
  find(name: string): RoutableModel | undefined {
    return this.#models.get(name);
  }

  list(): Iterable<RoutableModel> {
    return this.#models.values();
  }
}
