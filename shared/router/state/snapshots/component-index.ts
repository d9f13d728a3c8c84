import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Random, Timer } from '../../../clock/index.ts';
import type { EventLog } from '../../../planes/index.ts';
import type { BlockIndex } from '../../block-index/block-index.ts';
import type { LoadedBlockIndex } from '../../block-index/snapshot.ts';
import type { EventSource, KvEventFeed, RankPlace } from '../../feed/kv-event-feed.ts';
import type { LeaseHolder } from '../lease-holder.ts';
import type { RankId, RouterState, StateName } from '../router-state.ts';
import { type HydratedFrom, IndexReader } from './index-reader.ts';
import type { FoldedIndex, SnapshotStore } from './snapshot.ts';
import { Snapshotter } from './snapshotter.ts';

export interface ComponentIndexOptions {
  readonly state: RouterState;
  /** Namespace and component. */
  readonly name: StateName;
  /** Opens the log; waits while its server is away. */
  readonly openLog: (signal: AbortSignal) => Promise<EventLog>;
  /** Closed with the index. */
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
export class ComponentIndex implements EventSource {
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
    const index = foldComponent(feed, () => this.#options.pools());
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
    await this.#options.store.close();
  }

  #openReader(index: FoldedIndex): IndexReader {
    const { state, name: pointer, store, clock, random, resets = false, onHydrated, onProblem } = this.#options;
    return new IndexReader({
      ...{ state, pointer, store, log: this.#log, index, clock, random, onHydrated },
      dropsPointer: resets,
      onProblem: (problem) => onProblem('log', problem),
    });
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

/** A worker set as far as snapshots of a component go. */
export interface ComponentPool {
  /** Names the set to every router: its role and key. */
  readonly name: string;
  readonly workerIds: ReadonlySet<string>;
  /** Whether all its workers publish on this component's log. Others are left to their workers' dumps. */
  readonly isWhole: boolean;
  readonly index: BlockIndex;
}

/** Whoever follows the event ids of each rank of the component (`KvEventFeed`). */
export type ComponentFeed = Pick<KvEventFeed, 'apply' | 'places' | 'resume' | 'ranks' | 'recover'>;

/** All worker sets whose events are in one log, as `IndexReader` and `Snapshotter` see them. */
export function foldComponent(feed: ComponentFeed, pools: () => readonly ComponentPool[]): FoldedIndex {
  /** Replaces whole pools by what was read of them, and forgets of the others what came from this component. */
  function replace(read: ReadonlyMap<BlockIndex, LoadedBlockIndex>, cursors: readonly RankPlace[]): void {
    const held = new Set<string>();
    for (const { index, isWhole, workerIds } of pools()) {
      const next = read.get(index);
      if (isWhole) index.replaceBy(next);
      else clearRanks(index, feed.ranks(), workerIds);
      if (isWhole && next !== undefined) for (const workerId of workerIds) held.add(workerId);
    }
    feed.resume(cursors.filter(({ workerId }) => held.has(workerId)));
  }

  return {
    apply: (envelope) => feed.apply(envelope),
    cursors: () => placesOf(feed, pools()),
    // Each is as of its first chunk, none older than the cursors: events that are in it already change nothing when they come again.
    write: () => wholeOf(pools()).map(({ name, index }) => ({ name, chunks: index.snapshot() })),
    async load(indexes, cursors, signal) {
      signal.throwIfAborted();
      const read = new Map<BlockIndex, LoadedBlockIndex>();
      for (const { name, index, isWhole } of pools()) {
        const bytes = indexes.get(name);
        if (isWhole && bytes !== undefined) read.set(index, await inSlices(index.read(bytes), signal));
      }
      replace(read, cursors); // all in one turn, with the pools as they are now
    },
    clear: () => replace(new Map(), []),
    ranks: () => feed.ranks(),
    recover: ({ workerId, dpRank }, signal) => feed.recover(workerId, dpRank, signal),
  };
}

/** One slice a turn: requests are routed between them. */
async function inSlices<T>(slices: Generator<void, T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    const slice = slices.next();
    if (slice.done === true) return slice.value;
    await nextTurn();
    signal.throwIfAborted();
  }
}

function wholeOf(pools: readonly ComponentPool[]): readonly ComponentPool[] {
  return pools.filter(({ isWhole }) => isWhole);
}

function placesOf(feed: ComponentFeed, pools: readonly ComponentPool[]): readonly RankPlace[] {
  const whole = wholeOf(pools);
  return feed.places().filter(({ workerId }) => whole.some(({ workerIds }) => workerIds.has(workerId)));
}

function clearRanks(index: BlockIndex, ranks: readonly RankId[], workerIds: ReadonlySet<string>): void {
  for (const { workerId, dpRank } of ranks) {
    const rank = workerIds.has(workerId) ? index.ranks.find(workerId, dpRank) : undefined;
    if (rank !== undefined) index.cleared(rank);
  }
}
