import type { Clock } from '../clock/index.ts';
import { type EndedRequest, Hour, STEP_MS, STEPS } from './hour.ts';

/**
 * Models with an hour of their own. Requests of further models count only in the sum, until a model has had no requests
 * for an hour.
 */
const MODELS_MAX = 32;

/** The last hour of all models together, and of each of up to 32 models. */
export class Hours {
  readonly #clock: Clock;
  readonly #all: Hour;
  readonly #models = new Map<string, Hour>();
  readonly #outputTokensOf: (model: string) => number;
  /** Output tokens of each model that are counted already. */
  readonly #counted = new Map<string, number>(); // at most MODELS_MAX
  /** Numbers of workers, each with the time from which it holds; the oldest first, at most one in a step. */
  readonly #workers: { readonly fromMs: number; readonly count: number }[] = [];

  /** @param outputTokensOf returns the output tokens of a model so far */
  constructor(clock: Clock, outputTokensOf: (model: string) => number) {
    this.#clock = clock;
    this.#all = new Hour(clock);
    this.#outputTokensOf = outputTokensOf;
  }

  ended(model: string, request: EndedRequest): void {
    this.#all.ended(request);
    const own = this.#ownOf(model);
    own?.ended(request);
    if (own === undefined) this.#all.produced(request.outputTokens ?? 0);
    else this.countTokens(model);
  }

  /** Counts the output tokens of a model since the last call. */
  countTokens(model: string): void {
    const own = this.#ownOf(model);
    if (own === undefined) return;
    const now = this.#outputTokensOf(model);
    const tokens = now - (this.#counted.get(model) ?? 0);
    this.#counted.set(model, now);
    own.produced(tokens);
    this.#all.produced(tokens);
  }

  /** Notes how many workers there are from now on. */
  noteWorkers(count: number): void {
    const nowMs = this.#clock.nowMs();
    const last = this.#workers.at(-1);
    if (last !== undefined && nowMs - last.fromMs < STEP_MS) this.#workers.pop();
    this.#workers.push({ fromMs: last === undefined || nowMs - last.fromMs >= STEP_MS ? nowMs : last.fromMs, count });
    if (this.#workers.length > STEPS) this.#workers.shift();
  }

  /** Returns the hour of a model; of all models if the name is undefined or has no hour of its own. */
  of(model: string | undefined): Hour {
    return (model === undefined ? undefined : this.#models.get(model)) ?? this.#all;
  }

  /** Returns the hour of a model if it has one. */
  own(model: string): Hour | undefined {
    return this.#models.get(model);
  }

  /**
   * Returns the numbers of workers at the ends of the last `steps` steps that have ended; null before the first number.
   */
  workers(steps: number): readonly (number | null)[] {
    const lastMs = Math.floor(this.#clock.nowMs() / STEP_MS) * STEP_MS;
    let at = 0;
    let count: number | null = null;
    return Array.from({ length: steps }, (_, step) => {
      const endMs = lastMs - (steps - 1 - step) * STEP_MS;
      while (at < this.#workers.length && this.#workers[at]!.fromMs <= endMs) count = this.#workers[at++]!.count;
      return count;
    });
  }

  #ownOf(model: string): Hour | undefined {
    const known = this.#models.get(model);
    if (known !== undefined || model === '') return known; // no model was named
    if (this.#models.size >= MODELS_MAX) {
      const over = [...this.#models].find(([, hour]) => hour.isOver)?.[0];
      if (over === undefined) return undefined;
      this.#models.delete(over);
      this.#counted.delete(over);
      this.#counted.set(model, this.#outputTokensOf(model)); // its earlier ones are in the sum already
    }
    const own = new Hour(this.#clock);
    this.#models.set(model, own);
    return own;
  }
}
