import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { DiscoveryError } from '../options.ts';
import type { ShownModels } from '../types.ts';
import type { Fleet } from './fleet/members.ts';
import { modelsAskedAs, shows, type ViewIndex } from './fleet/view-index.ts';

/**
 * Models of the fleet that a process shows: those that a caller asked for, or all of them once a caller asked for all.
 */
export class AskedModels {
  /** Own names of these models; undefined = all. At most as many as the fleet has. */
  #models: Set<string> | undefined = new Set();
  #shown: ReadonlySet<string> | undefined = new Set();
  #index: ViewIndex | undefined;
  #count = 0;

  /**
   * Current set of asked models. A reading that begins with this set calls `shown` with it at its end. Undefined = all.
   */
  get models(): ReadonlySet<string> | undefined {
    return this.#models && new Set(this.#models);
  }

  /** Counter that each newly asked model increments. */
  get count(): number {
    return this.#count;
  }

  /** Takes the index of a reading. Without an index no model can be left out, so all models are shown. */
  read(index: ViewIndex | undefined): void {
    this.#index = index;
    if (index !== undefined || this.#models === undefined) return;
    this.#models = undefined;
    this.#count++;
    this.#shown = undefined; // everything has been read
  }

  /** Adds the models with that name, or all. Returns false if no model has the name. */
  ask(name: string | undefined): boolean {
    if (this.#models === undefined) return true;
    if (name === undefined) {
      this.#models = undefined;
      this.#count++;
      return true;
    }
    const meant = this.#meantBy(name);
    for (const model of meant) {
      if (this.#models.has(model)) continue;
      this.#models.add(model);
      this.#count++;
    }
    return meant.size > 0;
  }

  /**
   * Returns whether all models with that name are shown, or all models if there is no name. False for an unknown name.
   */
  isShown(name: string | undefined): boolean {
    if (this.#shown === undefined) return true;
    if (name === undefined) return false;
    const meant = this.#meantBy(name);
    for (const model of meant) if (!this.#shown.has(model)) return false;
    return meant.size > 0;
  }

  /** Notes that the watches now show a reading that contains `models`. */
  shown(models: ReadonlySet<string> | undefined): void {
    if (this.#shown !== undefined) this.#shown = models;
  }

  /** Whether a caller asked for the model with that own name. */
  covers(model: string): boolean {
    return this.#models?.has(model) !== false;
  }

  /** Returns the records of `fleet` that are shown. */
  partOf(fleet: Fleet): Fleet {
    if (this.#models === undefined || this.#index === undefined) return fleet;
    const isShown = shows(this.#index, this.#models);
    return new Map([...fleet].filter(([, member]) => isShown(member)));
  }

  #meantBy(name: string): ReadonlySet<string> {
    return this.#index === undefined ? NO_MODELS : modelsAskedAs(this.#index, name);
  }
}

const NO_MODELS: ReadonlySet<string> = new Set();

interface PartOptions {
  readonly clock: Clock;
  /** Longest time of `show`. */
  readonly timeoutMs: number;
  /** Whether the shown records are recent enough to conclude that no worker serves a model. */
  readonly isCurrent: () => boolean;
  /** Whether the table is known to be slow or unreachable, in which case no call waits for it. */
  readonly isAway: () => boolean;
  /**
   * Reads the asked models and shows them.
   *
   * @param isFurther whether the head of the last reading is recent enough to read more of the same view
   */
  readonly read: (isFurther: boolean, signal: AbortSignal) => Promise<void>;
}

/** Pause between two readings. A replica of the table has the parts that the view names after a few such pauses. */
const LAG_MS = 100;

/** Shows models as they are asked for. */
export class PartOfModels implements ShownModels {
  readonly #asked: AskedModels;
  readonly #options: PartOptions;

  constructor(asked: AskedModels, options: PartOptions) {
    this.#asked = asked;
    this.#options = options;
  }

  get isWhole(): boolean {
    return this.#asked.isShown(undefined);
  }

  show(name: string | undefined, signal?: AbortSignal): Promise<void> | undefined {
    if (this.#asked.isShown(name)) return undefined;
    const { clock, timeoutMs } = this.#options;
    const lateMessage = `what the discovery table has of a model was not read within ${timeoutMs} ms`;
    return withDeadline({ clock, timeoutMs, signal, lateMessage }, (patience) => this.#show(name, patience));
  }

  async #show(name: string | undefined, signal: AbortSignal): Promise<void> {
    const { clock, isCurrent } = this.#options;
    // Unknown to a view that is not current: a newer one may know it.
    if (!this.#asked.ask(name) && !isCurrent()) await this.#read(false, signal);
    if (!this.#asked.ask(name)) return; // no model has this name
    for (let times = 0; !this.#asked.isShown(name); times++) {
      if (times > 0) await clock.sleep(LAG_MS, signal);
      await this.#read(times === 0 && isCurrent(), signal);
    }
  }

  async #read(isFurther: boolean, signal: AbortSignal): Promise<void> {
    if (this.#options.isAway()) {
      throw new DiscoveryError('unavailable', 'the discovery table cannot be read now');
    }
    await this.#options.read(isFurther, signal);
  }
}
