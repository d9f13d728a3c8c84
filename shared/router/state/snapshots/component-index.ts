import type { Clock, Random, Timer } from '../../../clock/index.ts';
import type { EventLog } from '../../../planes/event/index.ts';
import type { LeaseHolder } from '../lease-holder.ts';
import type { RouterState, StateName } from '../types.ts';
import { type ComponentFeed, type ComponentPool, foldComponent } from './component-fold.ts';
import { type HydratedFrom, IndexReader } from './index-reader.ts';
import { Snapshotter } from './snapshotter.ts';
import type { FoldedIndex, SnapshotStore } from './types.ts';

export interface ComponentIndexOptions {
  readonly state: RouterState;
  /** Namespace and component. */
  readonly name: StateName;
  /** Opens the log; waits while its server is away. */
  readonly openLog: (signal: AbortSignal) => Promise<EventLog>;
  readonly store: SnapshotStore;
  readonly lease: LeaseHolder;
  /** Worker sets with workers of this component. */
  pools(): readonly ComponentPool[];
  readonly clock: Clock;
  readonly random: Random;
  /** Forgets the snapshot that is stored, and begins with what the workers hold. @default false */
  readonly resets?: boolean;
  /** @default 60_000 */
  readonly snapshotIntervalMs?: number;
  /** Messages between two snapshots, at most; null = time alone decides. @default 1_000_000 */
  readonly snapshotMessagesMax?: number | null;
  /** Without a log for so long, the workers are asked for what they hold; a snapshot may take longer. @default 2000 */
  readonly patienceMs?: number;
  /** The index was made anew. */
  onHydrated(from: HydratedFrom): void;
  onSnapshot(): void;
  /** The log cannot be followed: the workers are asked instead. Told once, until the log is there. */
  onWithoutLog(): void;
  onProblem(part: 'log' | 'snapshots', problem: unknown): void;
}

const PATIENCE_MS = 2000;

/**
 * The indexes of one component's worker sets, kept at the head of its event log: hydrated from the newest snapshot, written
 * to a new one while the lease is held. Where the log cannot be had, the workers' own dumps do.
 */
export class ComponentIndex {
  readonly #options: ComponentIndexOptions;
  readonly #log: EventLog;
  #reader: IndexReader | undefined;
  #snapshotter: Snapshotter | undefined;
  #patience: Timer | undefined;

  constructor(options: ComponentIndexOptions) {
    this.#options = options;
    this.#log = logOnDemand(options.openLog);
  }

  /** Whether the indexes are at the head of the log, dumps of single ranks aside. */
  get isFollowing(): boolean {
    return this.#reader?.position !== undefined;
  }

  /** Begins to fill the indexes; `feed` follows the event ids of each rank. */
  start(feed: ComponentFeed & { restoreAll(): void }): void {
    const index = this.#noticing(foldComponent(feed, () => this.#options.pools()));
    this.#reader = this.#openReader(index);
    this.#snapshotter = this.#openSnapshotter(index, this.#reader);
    this.#awaitLog(this.#reader, () => feed.restoreAll());
    this.#reader.start();
    this.#snapshotter.start();
  }

  /** A snapshot that is on its way is waited for, however long it takes: the store gives up one that has stopped coming. */
  #awaitLog(reader: IndexReader, restoreAll: () => void): void {
    const { clock, patienceMs = PATIENCE_MS, onWithoutLog } = this.#options;
    this.#patience = clock.after(patienceMs, () => {
      if (this.isFollowing) return;
      if (reader.isHydrating) {
        this.#awaitLog(reader, restoreAll);
        return;
      }
      onWithoutLog();
      restoreAll();
    });
  }

  async stop(): Promise<void> {
    this.#patience?.cancel();
    await this.#snapshotter?.stop();
    await this.#reader?.stop();
  }

  #openReader(index: FoldedIndex): IndexReader {
    const { state, name: pointer, store, clock, random, resets: dropsPointer = false, onProblem } = this.#options;
    const onLogProblem = (problem: unknown): void => onProblem('log', problem);
    const common = { state, pointer, store, log: this.#log, index, clock, random };
    return new IndexReader({ ...common, dropsPointer, onProblem: onLogProblem });
  }

  #openSnapshotter(index: FoldedIndex, reader: IndexReader): Snapshotter {
    const { state, name: pointer, store, lease, clock, random, onSnapshot, onProblem } = this.#options;
    const { snapshotIntervalMs: intervalMs, snapshotMessagesMax: messagesMax } = this.#options;
    return new Snapshotter({
      ...{ state, pointer, store, lease, index, reader, clock, random, onSnapshot, log: this.#log },
      ...(intervalMs === undefined ? {} : { intervalMs }),
      ...(messagesMax === undefined ? {} : { messagesMax: messagesMax ?? Number.POSITIVE_INFINITY }),
      onProblem: (problem) => onProblem('snapshots', problem),
    });
  }

  #noticing(index: FoldedIndex): FoldedIndex {
    const { onHydrated } = this.#options;
    return {
      ...index,
      async load(...snapshot) {
        await index.load(...snapshot);
        onHydrated('snapshot');
      },
      clear() {
        index.clear();
        onHydrated('dumps');
      },
    };
  }
}

/** A log that is opened by its first use, and by each further one until that succeeds. */
function logOnDemand(open: (signal: AbortSignal) => Promise<EventLog>): EventLog {
  let opened: EventLog | undefined;
  const get = async (signal: AbortSignal): Promise<EventLog> => {
    opened ??= await open(signal);
    return opened;
  };
  return {
    state: async (signal) => (await get(signal)).state(signal),
    async *read(fromSequence, signal) {
      yield* (await get(signal)).read(fromSequence, signal);
    },
    follow: async (fromSequence, listener, signal) => (await get(signal)).follow(fromSequence, listener, signal),
    purge: async (sequence, signal) => (await get(signal)).purge(sequence, signal),
  };
}
