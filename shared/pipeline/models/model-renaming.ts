import type { RoutableModel } from './routable-model.ts';

interface ModelRenamingOptions {
  /** Told once of each further model, which keeps its own name. */
  readonly onOther?: ((model: string, renamed: string) => void) | undefined;
}

/** Others that are remembered as told. */
const TOLD_MAX = 1000;

/**
 * Gives one model the name that an operator chose (`--model-name`), in place of its own and of its aliases: one that is called so
 * already, else the one that was offered first, for as long as it is known. Adapters and further models keep theirs.
 */
export class ModelRenaming {
  /** What clients see. */
  readonly name: string;
  readonly #onOther: ModelRenamingOptions['onOther'];
  readonly #told = new Set<string>();
  #ownName: string | undefined;

  constructor(name: string, { onOther }: ModelRenamingOptions = {}) {
    this.name = name;
    this.#onOther = onOther;
  }

  /**
   * Chooses among `models`, which have their own names.
   * @param remembered the model of the chosen name as it was known last: it keeps the name while it may come back
   */
  choose(models: readonly RoutableModel[], remembered: RoutableModel | undefined): void {
    const candidates = models.filter(({ name, primaryName, card }) => name === primaryName && card.lora === undefined);
    const own = candidates.find(({ name }) => name === this.name);
    const kept = candidates.find(({ name }) => name === this.#ownName);
    const oldest = remembered === undefined ? candidates.toSorted(byAge)[0] : undefined;
    this.#ownName = (own ?? kept ?? oldest)?.name ?? this.#ownName;
    for (const { name } of candidates) {
      if (name === this.#ownName || this.#told.has(name) || this.#told.size >= TOLD_MAX) continue;
      this.#told.add(name);
      this.#onOther?.(name, this.#ownName ?? this.name);
    }
  }

  /** The model as clients see it; undefined for what they see no more: another name of the renamed one. */
  shown(model: RoutableModel): RoutableModel | undefined {
    if (model.primaryName !== this.#ownName) return model;
    return model.name === model.primaryName ? { ...model, name: this.name, primaryName: this.name } : undefined;
  }

  /** What clients call the model that is named so. */
  shownNameOf(ownName: string): string {
    return ownName === this.#ownName ? this.name : ownName;
  }

  /** The name by which `models` knows what clients ask for as `name`; undefined where nobody may ask so. */
  ownNameOf(name: string): string | undefined {
    if (name === this.name && this.#ownName !== undefined) return this.#ownName;
    return name === this.#ownName ? undefined : name;
  }
}

/** The one that was offered first comes first, at every frontend alike. */
function byAge(one: RoutableModel, other: RoutableModel): number {
  return one.createdSecs - other.createdSecs || (one.name < other.name ? -1 : 1);
}
