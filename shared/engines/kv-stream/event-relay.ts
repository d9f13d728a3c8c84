import { reasonOf } from '../../errors/index.ts';
import type { KvEvent } from '../types.ts';
import type { EventBatch } from './engine-events.ts';
import { EventNormaliser } from './event-normaliser.ts';
import { EventOutlet, type EventOutletOptions } from './event-outlet.ts';
import type { RankSource } from './event-sources.ts';
import { RankStream } from './rank-stream.ts';

export interface EventRelayOptions extends EventOutletOptions {
  readonly sources: readonly RankSource[];
  readonly blockSizeTokens: number;
  /** Salt of blocks whose event names none. @default none */
  readonly cacheSalt?: string | undefined;
  /** Longest wait for one answer of a replay. Default 2000. */
  readonly replayTimeoutMs?: number | undefined;
}

interface Rank {
  readonly normaliser: EventNormaliser;
  readonly stream: RankStream;
}

/** Relays the KV events of every rank of an engine, with one call for each engine step. */
export class EventRelay {
  readonly #options: EventRelayOptions;
  readonly #ranks: readonly Rank[];
  readonly #outlet: EventOutlet;

  constructor(options: EventRelayOptions) {
    this.#options = options;
    this.#outlet = new EventOutlet(options);
    this.#ranks = options.sources.map((source) => this.#createRank(source));
  }

  /** Subscribes. Rejects when an endpoint cannot be opened. */
  async open(): Promise<void> {
    await Promise.all(this.#ranks.map(({ stream }) => stream.open()));
  }

  /** Requests the engine's earlier events. */
  catchUp(): void {
    for (const { stream } of this.#ranks) stream.catchUp();
  }

  /** Handles a new process of the engine. */
  restart(): void {
    for (const { stream } of this.#ranks) stream.restart();
  }

  /**
   * Handles a request to clear the cache that the engine has carried out: some engines report it only with their next
   * step.
   */
  clear(): void {
    for (const { normaliser } of this.#ranks) this.#outlet.emit([normaliser.clear()]);
  }

  listen(listener: (events: readonly KvEvent[]) => void): void {
    this.#outlet.listen(listener);
  }

  async close(): Promise<void> {
    this.#outlet.close();
    await Promise.all(this.#ranks.map(({ stream }) => stream.close()));
  }

  #createRank(source: RankSource): Rank {
    const { blockSizeTokens, cacheSalt, replayTimeoutMs } = this.#options;
    const { dpRank } = source;
    const onUnusable = (why: string): void => this.#outlet.drop(1, why);
    const normaliser = new EventNormaliser({ dpRank, blockSizeTokens, cacheSalt, onUnusable });
    const stream = new RankStream({
      source,
      replayTimeoutMs,
      onBatch: (batch) => this.#batch(normaliser, batch),
      onRestart: () => this.#outlet.emit([normaliser.clear()]),
      onLost: (batches) => this.#outlet.drop(batches, 'lost in transit, and no longer kept by the engine'),
      onProblem: (problem) => this.#outlet.warn(reasonOf(problem)),
    });
    return { normaliser, stream };
  }

  #batch(normaliser: EventNormaliser, batch: EventBatch): void {
    if (batch.unreadable > 0) this.#outlet.drop(batch.unreadable, 'of an unknown kind or form');
    this.#outlet.emit(
      batch.events.map((event) => {
        try {
          return normaliser.apply(event);
        } catch (problem) {
          this.#outlet.drop(1, reasonOf(problem)); // an event that cannot be converted must not stop the later ones
          return undefined;
        }
      }),
    );
  }
}
