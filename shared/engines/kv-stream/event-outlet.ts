import type { Logger } from '../../telemetry/index.ts';
import type { KvEvent } from '../types.ts';

/** Number of distinct problems of one engine that are logged. */
const PROBLEMS_MAX = 100;

export interface EventOutletOptions {
  readonly logger: Logger;
  /** Called for batches or events that could not be converted. */
  onDropped(count: number): void;
  /** Called when usable events have arrived. */
  onCame?(): void;
}

/** Passes on the converted KV events of an engine to the listener, and reports events that could not be converted. */
export class EventOutlet {
  readonly #options: EventOutletOptions;
  /** Problems that were logged; each is logged once. */
  readonly #logged = new Set<string>();
  #listener: ((events: readonly KvEvent[]) => void) | undefined;
  /** Events from before there was a listener. */
  #early: (readonly KvEvent[])[] | undefined = [];

  constructor(options: EventOutletOptions) {
    this.#options = options;
  }

  listen(listener: (events: readonly KvEvent[]) => void): void {
    this.#listener = listener;
    for (const events of this.#early ?? []) listener(events);
    this.#early = undefined;
  }

  /** Drops all events from now on. */
  close(): void {
    this.#listener = undefined;
    this.#early = undefined;
  }

  emit(events: readonly (KvEvent | undefined)[]): void {
    const usable = events.filter((event) => event !== undefined);
    if (usable.length === 0) return;
    this.#options.onCame?.();
    if (this.#listener !== undefined) this.#listener(usable);
    else this.#early?.push(usable);
  }

  drop(count: number, why: string): void {
    this.#options.onDropped(count);
    this.warn(`events dropped: ${why}`);
  }

  warn(problem: string): void {
    if (this.#logged.has(problem) || this.#logged.size >= PROBLEMS_MAX) return;
    this.#logged.add(problem);
    this.#options.logger.warn('KV events of the engine', { problem });
  }
}
