import type { Clock } from '../../clock/index.ts';
import { reasonOf, ServeError } from '../../errors/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { RoutableModel } from './routable-model.ts';
import { setsOf } from './worker-sets.ts';

/** Opens the files that the model's card names. Rejects with a message that says what is wrong and what to do. */
export type OpenModel = (model: Pick<RoutableModel, 'card' | 'workers'>) => Promise<LoadedModel>;

export interface ModelStoreOptions {
  readonly open: OpenModel;
  readonly clock: Clock;
  /** Called after a failed attempt. Called after later attempts only if they fail for another reason. */
  readonly onFailure: (model: string, reason: string) => void;
  /** Largest number of loaded models; the one used longest ago leaves first. @default 16 */
  readonly modelsMax?: number;
  /** Pause after a failed load; doubles after each further failure, up to a minute. In milliseconds. @default 5000 */
  readonly retryAfterMs?: number;
}

interface Slot {
  readonly loaded: Promise<LoadedModel>;
  /** Failed loads in a row, including the present one. */
  failures: number;
  /** Why the last of them failed. */
  reason: string | undefined;
  /** `Clock.nowMs` from which the model is loaded again; infinite unless it has failed. */
  retryAtMs: number;
}

const RETRY_MS_MAX = 60_000;

/** Loads the tokenizers and templates of the models in discovery, once per card checksum. */
export class ModelStore {
  readonly #options: Required<ModelStoreOptions>;
  readonly #slots: BoundedMap<string, Slot>; // by card checksum

  constructor({ modelsMax = 16, retryAfterMs = 5000, ...options }: ModelStoreOptions) {
    this.#options = { ...options, modelsMax, retryAfterMs };
    this.#slots = new BoundedMap(modelsMax);
  }

  /** Returns the loaded model. Rejects with `service_unavailable` when it cannot be opened. */
  get(model: RoutableModel): Promise<LoadedModel> {
    const slot = this.#slots.get(model.mdcSum);
    if (slot === undefined || this.#options.clock.nowMs() >= slot.retryAtMs) return this.#load(model, slot);
    this.#slots.set(model.mdcSum, slot); // the last used slot is the newest
    return slot.loaded;
  }

  /** Starts loading models, so that the first request does not wait for it. Does not evict loaded models. */
  prefetch(models: readonly RoutableModel[]): void {
    for (const model of models.flatMap(setsOf)) {
      if (this.#slots.size >= this.#options.modelsMax) return;
      const isServed = model.workers.length > 0; // without a worker there is no source for its files
      if (!isServed || model.card.model_input !== 'Tokens' || this.#slots.has(model.mdcSum)) continue;
      this.#load(model).catch(() => undefined); // `onFailure` reports it, and the next request reads the slot
    }
  }

  /** Loads a model. @param before the attempt that failed */
  #load(model: RoutableModel, before?: Slot): Promise<LoadedModel> {
    const failures = before?.failures ?? 0;
    const { open, clock, onFailure } = this.#options;
    const retryAfterMs = Math.min(this.#options.retryAfterMs * 2 ** failures, RETRY_MS_MAX);
    const loaded = open(model).catch((cause: unknown) => {
      slot.failures++;
      slot.retryAtMs = clock.nowMs() + retryAfterMs;
      slot.reason = reasonOf(cause);
      if (slot.reason !== before?.reason) onFailure(model.name, slot.reason);
      const message = `Model \`${model.name}\` cannot be loaded by the frontend`;
      throw new ServeError('service_unavailable', message, { cause, retryAfterMs });
    });
    const slot: Slot = { loaded, failures, reason: before?.reason, retryAtMs: Number.POSITIVE_INFINITY };
    this.#slots.set(model.mdcSum, slot);
    return loaded;
  }
}
