/** Loads above which a worker of a model counts as busy; undefined = that load does not matter. */
export interface BusyThresholdValues {
  /** Share of a worker's KV blocks in use, 0 to 1. */
  readonly decodeBlocksShare?: number | undefined;
  /** Prompt tokens that a worker still has to compute. */
  readonly prefillTokens?: number | undefined;
  /** The same as a multiple of the worker's `max_num_batched_tokens`. */
  readonly prefillTokensFraction?: number | undefined;
}

/** More models than that with thresholds of their own are not kept; the one set longest ago leaves. */
const MODELS_MAX = 1024;

/** The busy thresholds of every model: what the process was started with, and what was set since. */
export class BusyThresholds {
  readonly #defaults: BusyThresholdValues;
  readonly #set = new Map<string, BusyThresholdValues>();

  constructor(defaults: BusyThresholdValues = {}) {
    this.#defaults = defaults;
  }

  /** @param model primary name */
  of(model: string): BusyThresholdValues {
    return this.#set.get(model) ?? this.#defaults;
  }

  /** Replaces the values that are given and keeps the others. @param model primary name */
  set(model: string, values: BusyThresholdValues): BusyThresholdValues {
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
    const merged: BusyThresholdValues = { ...this.of(model), ...given };
    this.#set.delete(model);
    this.#set.set(model, merged);
    for (const [oldest] of this.#set) {
      if (this.#set.size <= MODELS_MAX) break;
      this.#set.delete(oldest);
    }
    return merged;
  }
}
