import { setImmediate as nextTurn } from 'node:timers/promises';
import type { BlockIndex, LoadedBlockIndex } from '../../block-index/index.ts';
import type { Timer } from '../../clock/index.ts';
import { OpenOnce, untilAborted } from '../../concurrency/index.ts';
import type { EventLog } from '../../planes/index.ts';
import type { RankId } from '../../router/index.ts';
import type { EventSource, KvEventFeed, RankPlace } from '../../worker-events/index.ts';
import { IndexReader, type IndexReaderOptions } from './index-reader.ts';
import type { JoinedIndex } from './snapshot.ts';
import { Snapshotter, type SnapshotterOptions } from './snapshotter.ts';

export interface ComponentIndexOptions
  extends Omit<SnapshotterOptions, 'log' | 'index' | 'reader' | 'onProblem'>,
    Pick<IndexReaderOptions, 'dropsPointer' | 'onHydrated' | 'onFollowing' | 'onUnusable'> {
  /** Opens the log. Waits while its server is away. */
  openLog(signal: AbortSignal): Promise<EventLog>;
  /** Returns the worker sets that have workers of this component. */
  pools(): readonly ComponentPool[];
  /**
   * Called once when the log cannot be followed, so that the feed asks the workers instead. It may be called again
   * after the log has come back.
   */
  onWithoutLog(): void;
  onProblem(part: 'log' | 'snapshots', problem: unknown): void;
  /** Called when following has ended. */
  onStop?(): void;
}

/** Time without a log after which the feed asks the workers for their blocks. A snapshot may take longer. */
const PATIENCE_MS = 2000;

/**
 * Keeps the indexes of one component's worker sets at the head of its event log. Fills them from the newest snapshot,
 * and writes new snapshots while it holds the lease. If there is no log, it uses the workers' own dumps.
 */
export class ComponentIndex implements EventSource {
  readonly #options: ComponentIndexOptions;
  readonly #log: EventLog;
  readonly #closing = new AbortController();
  #reader: IndexReader | undefined;
  #snapshotter: Snapshotter | undefined;
  #patience: Timer | undefined;

  constructor(options: ComponentIndexOptions) {
    this.#options = options;
    this.#log = logOnDemand(options.openLog, this.#closing.signal);
  }

  /** Whether the indexes are at the head of the log. Dumps of single ranks may still be missing. */
  get isFollowing(): boolean {
    return this.#reader?.position !== undefined;
  }

  /** Starts to fill the indexes. `feed` follows the event ids of each rank. */
  start(feed: ComponentFeed & { restoreAll(): void }): void {
    const { pools, onProblem } = this.#options;
    const parts = { ...this.#options, log: this.#log, index: joinIndexes(feed, pools) };
    const reader = new IndexReader({ ...parts, onProblem: (problem) => onProblem('log', problem) });
    this.#reader = reader;
    this.#snapshotter = new Snapshotter({ ...parts, reader, onProblem: (problem) => onProblem('snapshots', problem) });
    this.#awaitLog(reader, () => feed.restoreAll());
    reader.start();
    this.#snapshotter.start();
  }

  /**
   * Asks the workers if the log stays away. If a snapshot is arriving, it waits for it without a limit, because the
   * store gives up a snapshot that no longer arrives.
   */
  #awaitLog(reader: IndexReader, restoreAll: () => void): void {
    const { clock, onWithoutLog } = this.#options;
    this.#patience = clock.after(PATIENCE_MS, () => {
      if (this.isFollowing) return;
      if (reader.isHydrating) {
        this.#awaitLog(reader, restoreAll);
        return;
      }
      onWithoutLog();
      restoreAll();
    });
  }

  /** Stops, and closes the store. */
  async stop(): Promise<void> {
    this.#patience?.cancel();
    await this.#snapshotter?.stop();
    await this.#reader?.stop();
    this.#closing.abort(); // not before: the reader would report that the log cannot be opened
    await this.#options.store.close();
    this.#options.onStop?.();
  }
}

/** Returns a log that its first use opens. If that fails, each later use tries again. `closing` ends the opening. */
function logOnDemand(open: (signal: AbortSignal) => Promise<EventLog>, closing: AbortSignal): EventLog {
  const once = new OpenOnce(async () => ({ log: await open(closing), close() {} })); // its plane closes it
  const get = async (signal: AbortSignal): Promise<EventLog> => (await untilAborted(once.get(), signal)).log;
  return {
    state: async (signal) => (await get(signal)).state(signal),
    async *read(fromSequence, signal) {
      yield* (await get(signal)).read(fromSequence, signal);
    },
    follow: async (fromSequence, listener, signal) => (await get(signal)).follow(fromSequence, listener, signal),
    purge: async (sequence, signal) => (await get(signal)).purge(sequence, signal),
  };
}

/** A worker set as the snapshots of a component see it. */
export interface ComponentPool {
  /** Name of the set for every router: its role and key. */
  readonly name: string;
  readonly workerIds: ReadonlySet<string>;
  /** Whether all its workers publish on this component's log. If not, only dumps of its workers fill the index. */
  readonly isWhole: boolean;
  readonly index: BlockIndex;
}

/** Feed that follows the event ids of each rank of the component (`KvEventFeed`). */
export type ComponentFeed = Pick<KvEventFeed, 'received' | 'places' | 'resume' | 'ranks' | 'recover'>;

/** Joins all worker sets whose events are in one log to the index that `IndexReader` fills and `Snapshotter` writes. */
export function joinIndexes(feed: ComponentFeed, pools: () => readonly ComponentPool[]): JoinedIndex {
  /**
   * Replaces whole pools by the indexes that were read. In other pools, forgets the blocks of this component's workers.
   */
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
    received: (envelope) => feed.received(envelope),
    cursors: () => placesOf(feed, pools()),
    // Each index is as it is at its first chunk, never older than the cursors. Events that are already in it change
    // nothing when they come again.
    write: () => wholeOf(pools()).map(({ name, index }) => ({ name, chunks: index.snapshot() })),
    async load(indexes, cursors, signal) {
      signal.throwIfAborted();
      const read = new Map<BlockIndex, LoadedBlockIndex>();
      for (const { name, index, isWhole } of pools()) {
        const bytes = indexes.get(name);
        if (isWhole && bytes !== undefined) read.set(index, await inSlices(index.read(bytes), signal));
      }
      replace(read, cursors); // all in one turn of the event loop, with the present pools
    },
    clear: () => replace(new Map(), []),
    ranks: () => feed.ranks(),
    recover: ({ workerId, dpRank }, signal) => feed.recover(workerId, dpRank, signal),
  };
}

/** Runs one slice in each turn of the event loop, so that requests are routed in between. */
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
