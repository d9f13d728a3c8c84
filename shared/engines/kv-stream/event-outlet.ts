import type { Logger } from '../../telemetry/index.ts';
import type { KvEvent } from '../types.ts';

/** Problems of one engine that are logged. */
const PROBLEMS_MAX = 100;

export interface EventOutletOptions {
  readonly logger: Logger;
  /** Batches or events that never became events of ours. */
  onDropped(count: number): void;
  /** Events that can be used have come. */
  onCame?(): void;
}

/** Where the KV events of an engine leave for whoever listens, and where it is said what did not become one. */
export class EventOutlet {
  readonly #options: EventOutletOptions;
  /** What was logged: each problem once. */
  readonly #told = new Set<string>();
  #listener: ((events: readonly KvEvent[]) => void) | undefined;
  /** What came before somebody listened. */
  #early: (readonly KvEvent[])[] | undefined = [];

  constructor(options: EventOutletOptions) {
    this.#options = options;
  }

  listen(listener: (events: readonly KvEvent[]) => void): void {
    this.#listener = listener;
    for (const events of this.#early ?? []) listener(events);
    this.#early = undefined;
  }

  /** Nobody hears of what comes from now on. */
  close(): void {
    this.#listener = undefined;
    this.#early = undefined;
  }

  emit(events: readonly (KvEvent | undefined)[]): void {
    const told = events.filter((event) => event !== undefined);
    if (told.length === 0) return;
    this.#options.onCame?.();
    if (this.#listener !== undefined) this.#listener(told);
    else this.#early?.push(told);
  }

  drop(count: number, why: string): void {
    this.#options.onDropped(count);
    this.tell(`events dropped: ${why}`);
  }

  tell(problem: string): void {
    if (this.#told.has(problem) || this.#told.size >= PROBLEMS_MAX) return;
    this.#told.add(problem);
    this.#options.logger.warn('KV events of the engine', { problem });
  }
}
