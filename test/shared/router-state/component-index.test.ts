import { describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { EventLog } from '../../../shared/planes/index.ts';
import {
  ComponentIndex,
  type ComponentPool,
  LeaseHolder,
  type SnapshotStore,
} from '../../../shared/router-state/index.ts';
import { type ComponentFeed, joinIndexes } from '../../../shared/router-state/snapshots/component-index.ts';
import type { JoinedIndex } from '../../../shared/router-state/snapshots/snapshot.ts';
import type { RankPlace } from '../../../shared/worker-events/kv-event-feed.ts';
import { MemoryRouterStateHub } from '../../support/router/memory-router-state.ts';
import { createMemorySnapshotStore } from '../../support/router/memory-snapshot-store.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { ScriptedEventLog } from './event-log.ts';

const never = new AbortController().signal;
const NAME = { namespace: 'ns', name: 'backend' };

interface Stored {
  readonly workerId: string;
  readonly eventId: number;
  readonly blocks: readonly number[];
}

/** A worker set with an index of its own. */
function poolOf(name: string, workerIds: readonly string[], isWhole = true) {
  const ranks = new RankTable();
  for (const workerId of workerIds) ranks.intern(workerId, 0);
  const index = new BlockIndex({ ranks });
  return { name, workerIds: new Set(workerIds), isWhole, index } satisfies ComponentPool;
}

type Pool = ReturnType<typeof poolOf>;

function store(pool: Pool, workerId: string, blocks: readonly number[]): void {
  const rank = pool.index.ranks.find(workerId, 0);
  if (rank === undefined) return;
  const hashes = Uint32Array.from(blocks.flatMap((block) => [block, 1]));
  pool.index.stored(rank, 'device', undefined, hashes, hashes);
}

function blocksOf(pool: Pool, workerId: string): number {
  const rank = pool.index.ranks.find(workerId, 0);
  return rank === undefined ? 0 : pool.index.blocksOf(rank);
}

/** Follows ids without a gap; `recover` stores what the worker holds. */
class ScriptedFeed implements ComponentFeed {
  readonly #pools: readonly Pool[];
  #places = new Map<string, RankPlace>();
  readonly recovered: string[] = [];
  restored = 0;

  constructor(pools: readonly Pool[]) {
    this.#pools = pools;
  }

  received({ payload }: { readonly payload: unknown }): void {
    const { workerId, eventId, blocks } = payload as Stored; // written by this test
    for (const pool of this.#pools) store(pool, workerId, blocks);
    this.#places.set(workerId, { workerId, dpRank: 0, eventId, publisherId: undefined });
  }

  places(): readonly RankPlace[] {
    return [...this.#places.values()];
  }

  resume(places: readonly RankPlace[]): void {
    this.#places = new Map(places.map((place) => [place.workerId, place]));
  }

  ranks() {
    return this.#pools.flatMap(({ workerIds }) => Array.from(workerIds, (workerId) => ({ workerId, dpRank: 0 })));
  }

  async recover(workerId: string): Promise<void> {
    this.recovered.push(workerId);
  }

  restoreAll(): void {
    this.restored++;
  }
}

/** What a snapshot would have of them, but for the last bytes. */
function written(joined: JoinedIndex, cut = 0): ReadonlyMap<string, Uint8Array> {
  return new Map(
    joined.write().map(({ name, chunks }) => {
      const bytes = new Uint8Array(Buffer.concat([...chunks]));
      return [name, bytes.slice(0, Math.max(0, bytes.length - cut))];
    }),
  );
}

/** The same sets at a router that knows nothing yet. */
function fresh(pools: readonly Pool[]): readonly Pool[] {
  return pools.map(({ name, workerIds, isWhole }) => poolOf(name, [...workerIds], isWhole));
}

describe('the indexes of a component', () => {
  const stored = (workerId: string, eventId: number, blocks: readonly number[]) => ({
    topic: 'kv-events',
    publisherId: 'a',
    sequence: 0,
    publishedAtMs: 0,
    payload: { workerId, eventId, blocks } satisfies Stored,
  });

  it('go through one snapshot, each set by its name', async () => {
    const pools = [poolOf('aggregated one', ['a1', 'a2']), poolOf('aggregated two', ['b1'])];
    const feed = new ScriptedFeed(pools);
    const joined = joinIndexes(feed, () => pools);
    joined.received(stored('a1', 1, [1, 2, 3]));
    joined.received(stored('b1', 7, [4]));
    const cursors = joined.cursors();
    const snapshot = written(joined);

    const others = [...fresh(pools)].reverse();
    const other = new ScriptedFeed(others);
    await joinIndexes(other, () => others).load(snapshot, cursors, never);
    expect(blocksOf(others[1]!, 'a1')).toBe(3);
    expect(blocksOf(others[0]!, 'b1')).toBe(1);
    expect(other.places()).toEqual(cursors);
  });

  it('leave out a set that other components feed, too', async () => {
    const pools = [poolOf('whole', ['a1']), poolOf('spread', ['b1'], false)];
    const joined = joinIndexes(new ScriptedFeed(pools), () => pools);
    joined.received(stored('a1', 1, [1]));
    joined.received(stored('b1', 1, [2]));
    expect(joined.cursors().map(({ workerId }) => workerId)).toEqual(['a1']);
    const others = fresh(pools);
    store(others[1]!, 'b1', [8, 9]); // perhaps out of date
    await joinIndexes(new ScriptedFeed(others), () => others).load(written(joined), joined.cursors(), never);
    expect(blocksOf(others[0]!, 'a1')).toBe(1);
    expect(blocksOf(others[1]!, 'b1')).toBe(0);
  });

  it('take nothing on trust of a set that the snapshot does not have', async () => {
    const before = [poolOf('old', ['a1'])];
    const joined = joinIndexes(new ScriptedFeed(before), () => before);
    joined.received(stored('a1', 1, [1]));
    const others = [poolOf('new', ['a1'])];
    const feed = new ScriptedFeed(others);
    await joinIndexes(feed, () => others).load(written(joined), joined.cursors(), never);
    expect(feed.places()).toEqual([]);
    expect(blocksOf(others[0]!, 'a1')).toBe(0);
  });

  it('forget workers that have left since the snapshot was taken', async () => {
    const before = [poolOf('set', ['a1', 'gone'])];
    const joined = joinIndexes(new ScriptedFeed(before), () => before);
    joined.received(stored('gone', 1, [1, 2]));
    const others = [poolOf('set', ['a1'])];
    await joinIndexes(new ScriptedFeed(others), () => others).load(written(joined), joined.cursors(), never);
    expect(others[0]!.index.ranks.find('gone', 0)).toBeUndefined();
    while (others[0]!.index.housekeep()) {}
    expect(others[0]!.index.blockCount).toBe(0);
  });

  it.each([3, 10, 200, 1e9])('stay as they are when a snapshot is cut %i bytes short of whole', async (cut) => {
    const pools = [poolOf('set', ['a1'])];
    const joined = joinIndexes(new ScriptedFeed(pools), () => pools);
    joined.received(stored('a1', 1, [1, 2]));
    await expect(joined.load(written(joined, cut), joined.cursors(), never)).rejects.toThrow();
    expect(blocksOf(pools[0]!, 'a1')).toBe(2);
  });
});

describe('a component with a log', () => {
  interface Shared {
    readonly clock: VirtualClock;
    readonly hub: MemoryRouterStateHub;
    readonly store: SnapshotStore;
    readonly resets?: boolean;
    /** Whether the store of snapshots is away. @default false */
    readonly isStoreAway?: boolean;
    /** When a snapshot is due. @default after a second */
    readonly due?: { readonly intervalMs: number; readonly messagesMax: number };
  }

  function sharing(): Shared {
    const clock = new VirtualClock();
    return { clock, hub: new MemoryRouterStateHub(clock), store: createMemorySnapshotStore() };
  }

  function bed(
    openLog: (signal: AbortSignal) => Promise<EventLog>,
    { clock, hub, store, resets = false, isStoreAway = false, due }: Shared = sharing(),
  ) {
    const random = seededRandom(1);
    const state = hub.open();
    const pools = [poolOf('set', ['a1', 'b1'])];
    const feed = new ScriptedFeed(pools);
    const lease = new LeaseHolder({ state, lease: NAME, clock, random, onProblem: () => {} });
    const told: string[] = [];
    const index = new ComponentIndex({
      ...{ state, pointer: NAME, openLog, lease, clock, random, store, dropsPointer: resets },
      pools: () => pools,
      isStoreAway: () => isStoreAway,
      ...(due ?? { intervalMs: 1000 }),
      onHydrated: (from) => told.push(from),
      onSnapshot: () => told.push('written'),
      onWithoutLog: () => told.push('without log'),
      onProblem: (part) => told.push(`${part} failed`),
    });
    return { clock, state, pools, feed, lease, index, told };
  }

  it('is hydrated, followed, and written while the lease is held', async () => {
    const log = new ScriptedEventLog();
    const { clock, pools, feed, lease, index, told } = bed(async () => log);
    lease.start();
    index.start(feed);
    for (let turn = 0; turn < 20; turn++) await clock.advance(1);
    expect(told).toEqual(['dumps']);
    expect(feed.recovered).toEqual(['a1', 'b1']);
    log.append({ workerId: 'a1', eventId: 1, blocks: [1, 2] } satisfies Stored);
    for (let turn = 0; turn < 100; turn++) await clock.advance(30);
    expect(blocksOf(pools[0]!, 'a1')).toBe(2);
    expect(told).toContain('written');
    expect(index.isFollowing).toBe(true);
    await index.stop();
    await lease.stop(never);
  });

  it('is written after that many messages of the log, even before the interval', async () => {
    const log = new ScriptedEventLog();
    const due = { intervalMs: 3_600_000, messagesMax: 5 };
    const { clock, feed, lease, index, told } = bed(async () => log, { ...sharing(), due });
    const append = async (from: number, to: number): Promise<void> => {
      for (let id = from; id <= to; id++) log.append({ workerId: 'a1', eventId: id, blocks: [id] } satisfies Stored);
      for (let turn = 0; turn < 100; turn++) await clock.advance(30);
    };
    lease.start();
    index.start(feed);
    const writtenAfter = async (from: number, to: number): Promise<number> => {
      await append(from, to);
      return told.filter((each) => each === 'written').length;
    };
    expect([await writtenAfter(1, 4), await writtenAfter(5, 5)]).toEqual([0, 1]);
    expect([await writtenAfter(6, 9), await writtenAfter(10, 10)]).toEqual([1, 2]);
    await index.stop();
    await lease.stop(never);
  });

  it('begins with the blocks of the workers where it resets, and then with the snapshot that it wrote', async () => {
    const log = new ScriptedEventLog();
    const shared = sharing();
    const run = async ({ resets, blocks }: { resets: boolean; blocks: readonly number[] }): Promise<string[]> => {
      const { clock, feed, lease, index, told } = bed(async () => log, { ...shared, resets });
      lease.start();
      index.start(feed);
      await waitUntil(async () => {
        await clock.advance(1);
        return index.isFollowing; // a snapshot is loaded one slice a turn
      });
      log.append({ workerId: 'a1', eventId: blocks.length, blocks } satisfies Stored);
      for (let turn = 0; turn < 100; turn++) await clock.advance(30);
      await index.stop();
      await lease.stop(never);
      return told.filter((each, at) => told.indexOf(each) === at);
    };
    expect(await run({ resets: false, blocks: [1] })).toEqual(['dumps', 'written']);
    expect(await run({ resets: false, blocks: [1, 2] })).toEqual(['snapshot', 'written']);
    expect(await run({ resets: true, blocks: [1, 2, 3] })).toEqual(['dumps', 'written']);
    expect(await run({ resets: false, blocks: [1, 2, 3, 4] })).toEqual(['snapshot', 'written']);
  });

  it('stops without a report while log and snapshots are away, and opens no log afterwards', async () => {
    let opening: AbortSignal | undefined;
    const openLog = (signal: AbortSignal): Promise<never> => {
      opening = signal;
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    const list: SnapshotStore['list'] = (signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => setImmediate(reject, signal.reason)));
    const shared = sharing();
    const store = { ...shared.store, list };
    const { clock, feed, index, told } = bed(openLog, { ...shared, store, isStoreAway: true });
    index.start(feed);
    for (let turn = 0; turn < 20; turn++) await clock.advance(1);
    await index.stop();
    expect(told).toEqual([]);
    expect(opening?.aborted).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('does not take a snapshot that it was to drop for a good one while the table is unreachable', async () => {
    const log = new ScriptedEventLog();
    const shared = sharing();
    const to = { createdAt: (await log.state(never)).createdAt, sequence: 0, object: 'stale' };
    const { clock, state, feed, index, told } = bed(async () => log, { ...shared, resets: true });
    await state.movePointer(NAME, { to, fence: 1, seen: undefined }, never);
    state.dropPointer = () => Promise.reject(new Error('away'));
    index.start(feed);
    for (let turn = 0; turn < 20; turn++) await clock.advance(1);
    expect(told).toEqual(['dumps']);
    expect(index.isFollowing).toBe(true);
    await index.stop();
  });

  it('waits for a snapshot that takes long, and asks no worker for what it holds', async () => {
    const log = new ScriptedEventLog();
    const shared = sharing();
    const before = bed(async () => log, shared);
    before.lease.start();
    before.index.start(before.feed);
    for (let turn = 0; turn < 20; turn++) await shared.clock.advance(1);
    log.append({ workerId: 'a1', eventId: 1, blocks: [1, 2] } satisfies Stored);
    for (let turn = 0; turn < 100; turn++) await shared.clock.advance(30);
    expect(before.told).toContain('written');
    await before.index.stop();
    await before.lease.stop(never);
    const get: SnapshotStore['get'] = async (name, signal) => {
      await shared.clock.sleep(7000, signal);
      return shared.store.get(name, signal);
    };
    const { clock, feed, index, told, pools } = bed(async () => log, { ...shared, store: { ...shared.store, get } });
    index.start(feed);
    for (let turn = 0; turn < 60; turn++) await clock.advance(100);
    expect(index.isFollowing).toBe(false);
    await waitUntil(async () => {
      await clock.advance(100);
      return index.isFollowing;
    });
    expect(told).toEqual(['snapshot']);
    expect(feed.restored).toBe(0);
    expect(blocksOf(pools[0]!, 'a1')).toBe(2);
    await index.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  it('asks the workers when the log goes away while a snapshot is read', async () => {
    const log = new ScriptedEventLog();
    const shared = sharing();
    const to = { createdAt: (await log.state(never)).createdAt, sequence: 0, object: 'slow' };
    await shared.hub.open().movePointer(NAME, { to, fence: 1, seen: undefined }, never);
    let isAway = false;
    const state: EventLog['state'] = async (signal) => {
      if (isAway) throw new Error('away');
      return log.state(signal);
    };
    const failing: EventLog = {
      state,
      read: (from) => log.read(from),
      follow: async () => {
        throw new Error('away');
      },
      purge: (sequence, signal) => log.purge(sequence, signal),
    };
    const get: SnapshotStore['get'] = async (_name, signal) => {
      await shared.clock.sleep(5000, signal);
      isAway = true;
      throw new Error('the store is away');
    };
    const { clock, feed, index, told } = bed(async () => failing, { ...shared, store: { ...shared.store, get } });
    index.start(feed);
    for (let turn = 0; turn < 100; turn++) await clock.advance(100);
    expect(told).toContain('without log');
    expect(feed.restored).toBe(1);
    await index.stop();
  });

  it('asks the workers when no log can be had, and takes the log once it can', async () => {
    const log = new ScriptedEventLog();
    let isAway = true;
    const { clock, feed, index, told } = bed(async () => {
      if (isAway) throw new Error('away');
      return log;
    });
    index.start(feed);
    await clock.advance(2500);
    expect(feed.restored).toBe(1);
    expect(told).toContain('without log');
    expect(index.isFollowing).toBe(false);
    isAway = false;
    await clock.advance(10_000);
    expect(told.at(-1)).toBe('dumps');
    expect(index.isFollowing).toBe(true);
    await index.stop();
    expect(clock.pendingTimers).toBe(0);
  });
});
