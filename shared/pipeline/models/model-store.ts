import type { Clock } from '../../clock/index.ts';
import { reasonOf, ServeError } from '../../errors/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { RoutableModel } from './routable-model.ts';

/** Opens the model's files, that its card names. Rejects with a message that says what is wrong and what to do. */
export type OpenModel = (model: Pick<RoutableModel, 'card' | 'workers'>) => Promise<LoadedModel>;

export interface ModelStoreOptions {
  readonly open: OpenModel;
  readonly clock: Clock;
  /** Told of a failed attempt, and of those after it only when they fail for another reason. */
  readonly onFailure: (model: string, reason: string) => void;
  /** Models kept loaded; the one used longest ago leaves first. @default 16 */
  readonly modelsMax?: number;
  /** A failed load is not tried again sooner; twice as long after each further failure, up to a minute. @default 5000 */
  readonly retryAfterMs?: number;
}

interface Slot {
  readonly loaded: Promise<LoadedModel>;
  /** Failed loads in a row, this one included. */
  failures: number;
  /** Why the last of them failed. */
  reason: string | undefined;
  /** `Clock.nowMs` from which on it is loaded anew; infinite unless it has failed. */
  retryAtMs: number;
}

const RETRY_MS_MAX = 60_000;

/** Tokenizers and templates of the models in discovery, loaded once per card checksum. */
export class ModelStore {
  readonly #options: Required<ModelStoreOptions>;
  readonly #slots: BoundedMap<string, Slot>; // by card checksum

  constructor({ modelsMax = 16, retryAfterMs = 5000, ...options }: ModelStoreOptions) {
    this.#options = { ...options, modelsMax, retryAfterMs };
    this.#slots = new BoundedMap(modelsMax);
  }

  /** The loaded model. Rejects with `service_unavailable` when it cannot be opened. */
  get(model: RoutableModel): Promise<LoadedModel> {
    const slot = this.#slots.get(model.mdcSum);
    if (slot === undefined || this.#options.clock.nowMs() >= slot.retryAtMs) return this.#load(model, slot);
    this.#slots.set(model.mdcSum, slot); // used last
    return slot.loaded;
  }

  /** Starts loading what is not loaded yet, so that the first request does not wait for it. Pushes nothing out. */
  prefetch(models: readonly RoutableModel[]): void {
    for (const model of models) {
      if (this.#slots.size >= this.#options.modelsMax) return;
      const isServed = model.workers.length > 0; // before that there is nobody to fetch it from
      if (!isServed || model.card.model_input !== 'Tokens' || this.#slots.has(model.mdcSum)) continue;
      this.#load(model).catch(() => undefined); // reported by onFailure; the next request reads the slot
    }
  }

  /** @param before the attempt that failed */
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
