import type { RoutableModel } from './routable-model.ts';

interface ModelRenamingOptions {
  /** Called once for each further model, which keeps its own name. */
  readonly onOther?: ((model: string, renamed: string) => void) | undefined;
}

/** Largest number of further models that are remembered as reported. */
const TOLD_MAX = 1000;

/**
 * Gives one model the name that an operator chose (`--model-name`), in place of its own name and its aliases. A model
 * that already has the name comes first, then the one that was offered first. It keeps the name for as long as it is
 * known. Adapters and further models keep their own names.
 */
export class ModelRenaming {
  /** Name that clients see. */
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
   * @param remembered the last known model of the chosen name, which keeps the name while it may come back
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

  /**
   * Returns the model as clients see it; undefined for another name of the renamed model, which clients no longer see.
   */
  shown(model: RoutableModel): RoutableModel | undefined {
    if (model.primaryName !== this.#ownName) return model;
    return model.name === model.primaryName ? { ...model, name: this.name, primaryName: this.name } : undefined;
  }

  /** Returns the name that clients use for the model. @param ownName its name at its workers */
  shownNameOf(ownName: string): string {
    return ownName === this.#ownName ? this.name : ownName;
  }

  /** Returns the name in `models` for the name of a client; undefined if no client may use that name. */
  ownNameOf(name: string): string | undefined {
    if (name === this.name && this.#ownName !== undefined) return this.#ownName;
    return name === this.#ownName ? undefined : name;
  }
}

/** Compares by age: the model that was offered first comes first, in the same order at every frontend. */
function byAge(one: RoutableModel, other: RoutableModel): number {
  return one.createdSecs - other.createdSecs || (one.name < other.name ? -1 : 1);
}
