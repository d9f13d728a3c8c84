import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { KvEvent } from '../types.ts';
import type { EventBatch } from './engine-events.ts';
import { EventNormaliser } from './event-normaliser.ts';
import type { RankSource } from './event-sources.ts';
import { RankStream } from './rank-stream.ts';

export interface EventRelayOptions {
  readonly sources: readonly RankSource[];
  readonly blockSizeTokens: number;
  /** Salt of blocks whose event names none. @default none */
  readonly cacheSalt?: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Longest wait for one answer of a replay. Default 2000. */
  readonly replayTimeoutMs?: number | undefined;
  /** Batches or events that never became events of ours. */
  onDropped(count: number): void;
  /** Events that can be used have come. */
  onCame?(): void;
}

interface Rank {
  readonly normaliser: EventNormaliser;
  readonly stream: RankStream;
}

/** Relays the KV events of every rank of an engine, one call for each engine step. */
export class EventRelay {
  readonly #options: EventRelayOptions;
  readonly #ranks: readonly Rank[];
  /** Reasons for which events were dropped; each is logged once. Bounded by the reasons that there are. */
  readonly #told = new Set<string>();
  #listener: ((events: readonly KvEvent[]) => void) | undefined;
  /** What came before somebody listened. */
  #early: KvEvent[][] | undefined = [];

  constructor(options: EventRelayOptions) {
    this.#options = options;
    this.#ranks = options.sources.map((source) => this.#createRank(source));
  }

  /** Where the subscribers listen, by rank, when they are the ones that bind. */
  get boundEndpoints(): readonly (string | undefined)[] {
    return this.#ranks.map(({ stream }) => stream.boundEndpoint);
  }

  /** Subscribes. Rejects when an endpoint cannot be had. */
  async open(): Promise<void> {
    await Promise.all(this.#ranks.map(({ stream }) => stream.open()));
  }

  /** Asks for what the engine has said before. */
  catchUp(): void {
    for (const { stream } of this.#ranks) stream.catchUp();
  }

  /** The engine's process is a new one. */
  restart(): void {
    for (const { stream } of this.#ranks) stream.restart();
  }

  /** The engine was told to forget everything, and has: some say so only with their next step. */
  clear(): void {
    for (const { normaliser } of this.#ranks) this.#emit([normaliser.clear()]);
  }

  listen(listener: (events: readonly KvEvent[]) => void): void {
    this.#listener = listener;
    for (const events of this.#early ?? []) listener(events);
    this.#early = undefined;
  }

  async close(): Promise<void> {
    this.#listener = undefined;
    this.#early = undefined;
    await Promise.all(this.#ranks.map(({ stream }) => stream.close()));
  }

  #createRank(source: RankSource): Rank {
    const { blockSizeTokens, cacheSalt, clock, replayTimeoutMs } = this.#options;
    const { dpRank } = source;
    const onUnusable = (why: string): void => this.#drop(1, why);
    const normaliser = new EventNormaliser({ dpRank, blockSizeTokens, cacheSalt, onUnusable });
    const stream = new RankStream({
      source,
      clock,
      replayTimeoutMs,
      onBatch: (batch) => this.#batch(normaliser, batch),
      onRestart: () => this.#emit([normaliser.clear()]),
      onLost: (batches) => this.#drop(batches, 'lost on the way, and the engine has forgotten them'),
      onProblem: (problem) => this.#tell(reasonOf(problem)),
    });
    return { normaliser, stream };
  }

  #batch(normaliser: EventNormaliser, batch: EventBatch): void {
    if (batch.unreadable > 0) this.#drop(batch.unreadable, 'of a kind or shape that is not known');
    this.#emit(
      batch.events.map((event) => {
        try {
          return normaliser.apply(event);
        } catch (problem) {
          this.#drop(1, reasonOf(problem)); // one event that cannot be named must not end those that follow
          return undefined;
        }
      }),
    );
  }

  #emit(events: readonly (KvEvent | undefined)[]): void {
    const told = events.filter((event) => event !== undefined);
    if (told.length === 0) return;
    this.#options.onCame?.();
    if (this.#listener !== undefined) this.#listener(told);
    else this.#early?.push(told);
  }

  #drop(count: number, why: string): void {
    this.#options.onDropped(count);
    this.#tell(`events dropped: ${why}`);
  }

  #tell(problem: string): void {
    if (this.#told.has(problem) || this.#told.size >= 100) return;
    this.#told.add(problem);
    this.#options.logger.warn('KV events of the engine', { problem });
  }
}
