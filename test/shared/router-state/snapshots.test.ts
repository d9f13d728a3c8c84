import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { EventLog, EventLogListener } from '../../../shared/planes/index.ts';
import { LeaseHolder, type RouterState, type SnapshotStore } from '../../../shared/router-state/index.ts';
import { type HydratedFrom, IndexReader } from '../../../shared/router-state/snapshots/index-reader.ts';
import { Snapshotter } from '../../../shared/router-state/snapshots/snapshotter.ts';
import { MemoryRouterStateHub } from '../../support/router/memory-router-state.ts';
import { createMemorySnapshotStore } from '../../support/router/memory-snapshot-store.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { ScriptedEventLog } from './event-log.ts';
import { type Fault, FaultLine } from './faults.ts';
import { NaiveIndex, ScriptedWorkers } from './naive-index.ts';

const never = new AbortController().signal;
const NAME = { namespace: 'ns', name: 'backend' };
const TTL_MS = 500;
const NONE: Fault = { kind: 'none' };
const STATE_CALLS = ['readLease', 'takeLease', 'renewLease', 'endLease', 'readPointer', 'movePointer'] as const;
const STORE_CALLS = ['put', 'get', 'list', 'remove'] as const;
const LOG_CALLS = ['state', 'follow', 'purge'] as const;

/** Lets everything that waits for nothing but turns of the event loop come to its end. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 12; turn++) await new Promise(setImmediate);
}

interface Router {
  readonly faults: FaultLine;
  readonly index: NaiveIndex;
  readonly reader: IndexReader;
  readonly hydrated: readonly HydratedFrom[];
  readonly lease: LeaseHolder;
  readonly snapshotter: Snapshotter;
  readonly problems: unknown[];
  stop(): Promise<void>;
}

/** Workers, a log, a table and a store, and the routers that a test starts on them. */
class World {
  readonly clock = new VirtualClock();
  readonly hub = new MemoryRouterStateHub(this.clock);
  readonly log = new ScriptedEventLog();
  readonly workers: ScriptedWorkers;
  readonly store: SnapshotStore;
  readonly #routers: Router[] = [];
  #seed: number;
  readonly #isBusy: boolean;

  /** @param isBusy workers go on while a snapshot is written */
  constructor(seed: number, { store = createMemorySnapshotStore(), isBusy = true } = {}) {
    this.#seed = seed;
    this.store = store;
    this.#isBusy = isBusy;
    this.workers = new ScriptedWorkers(this.log, seededRandom(seed));
  }

  /** Starts a router: a reader that follows, and a snapshotter that waits for the lease. */
  async router(fault: Fault = NONE, own: { readonly log?: EventLog } = {}): Promise<Router> {
    const { clock } = this;
    const faults = new FaultLine(fault);
    const random = seededRandom(++this.#seed);
    const state = faults.around<RouterState>('state', this.hub.open(), STATE_CALLS);
    const store = faults.around('store', this.#busyStore(), STORE_CALLS);
    const log = faults.around<EventLog>('log', own.log ?? this.log, LOG_CALLS);
    const index = new NaiveIndex(this.workers);
    const problems: unknown[] = [];
    const onProblem = (problem: unknown): void => void problems.push(problem);
    const common = { state, clock, random, onProblem, onUnusable: onProblem };
    const hydrated: HydratedFrom[] = [];
    const onHydrated = (from: HydratedFrom): void => void hydrated.push(from);
    const reader = new IndexReader({ ...common, pointer: NAME, store, log, index, checkMs: 100, onHydrated });
    const lease = new LeaseHolder({ ...common, lease: NAME, ttlMs: TTL_MS });
    const snapshotter = new Snapshotter({ ...common, pointer: NAME, store, log, index, reader, lease });
    const stop = async (): Promise<void> => {
      faults.thaw();
      await Promise.all([reader.stop(), snapshotter.stop(), lease.stop(never).catch(() => {})]); // its process may be dead
    };
    const router = { faults, index, reader, hydrated, lease, snapshotter, problems, stop };
    this.#routers.push(router);
    reader.start();
    await settle();
    return router;
  }

  /** A store whose writer is slow enough for the workers to go on meanwhile. */
  #busyStore(): SnapshotStore {
    const { store, workers } = this;
    if (!this.#isBusy) return store;
    async function* slowly(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        workers.work(2);
        await new Promise(setImmediate);
        yield chunk;
      }
    }
    return { ...store, put: (name, chunks, signal) => store.put(name, slowly(chunks), signal) };
  }

  /** Time passes, and everything that is due is done. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 50) {
      await this.clock.advance(50);
      await settle();
    }
  }

  async caughtUp(router: Router): Promise<void> {
    await this.pass(400);
    const { lastSequence, createdAt } = await this.log.state(never);
    expect(router.reader.position).toEqual({ createdAt, sequence: lastSequence });
    expect(router.index.content()).toEqual(this.workers.truth());
  }

  /** What no crash may break: the pointer's snapshots are there, and the log goes on from the older of them. */
  async expectWhole(): Promise<void> {
    const pointer = await this.hub.open().readPointer(NAME, never);
    const { createdAt, firstSequence } = await this.log.state(never);
    const names = await this.store.list(never);
    for (const place of [pointer, pointer?.previous]) {
      if (place === undefined) continue;
      expect(names).toContain(place.object);
      if (place.createdAt === createdAt) expect(firstSequence).toBeLessThanOrEqual(place.sequence + 1);
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#routers.map((router) => router.stop()));
    expect(this.clock.pendingTimers).toBe(0);
  }
}

/** A router holds the lease, works and writes snapshots, until it dies, if it does. */
async function workThrough(world: World, router: Router, rounds: number): Promise<void> {
  router.lease.start();
  await world.pass(100);
  for (let round = 0; round < rounds && !router.faults.isDead; round++) {
    world.workers.work(25);
    await settle();
    await router.snapshotter.snapshot(never).catch(() => {}); // what it leaves behind is what is looked at
  }
}

describe('hydration', () => {
  it('asks the workers when there is no snapshot, and only then', async () => {
    const world = new World(1);
    world.workers.work(60);
    const first = await world.router();
    await world.caughtUp(first);
    expect(first.hydrated.at(-1)).toBe('dumps');
    await workThrough(world, first, 2);
    const second = await world.router();
    await world.caughtUp(second);
    expect(second.hydrated.at(-1)).toBe('snapshot');
    expect(second.index.dumps).toBe(0);
    await world.stop();
  });

  it('recovers a rank whose events were lost on the way', async () => {
    const world = new World(2);
    const router = await world.router();
    for (let round = 0; round < 10; round++) {
      world.workers.work(20, 0.2);
      await settle();
    }
    world.workers.touchAll();
    await world.caughtUp(router);
    await world.stop();
  });

  it('starts again from the pointer when messages are dropped before it has read them', async () => {
    const world = new World(3);
    const holder = await world.router();
    await workThrough(world, holder, 3);
    const reader = await world.router();
    const { hydrations } = reader.reader;
    world.workers.work(30);
    world.log.drop(world.log.lastSequence - 3); // beyond the pointer: only the workers know
    world.workers.work(5);
    await world.caughtUp(reader);
    expect(reader.hydrated.at(-1)).toBe('dumps');
    expect(reader.reader.hydrations).toBe(hydrations + 1);
    await world.caughtUp(holder);
    await world.stop();
  });

  it('loads no snapshot of which the log is no continuation', async () => {
    const world = new World(12);
    const holder = await world.router();
    await workThrough(world, holder, 3);
    await holder.stop();
    world.workers.work(20);
    world.log.drop(world.log.lastSequence - 10);
    const late = await world.router();
    await world.caughtUp(late);
    expect(late.reader.hydrations).toBe(1);
    expect(late.hydrated).toEqual(['dumps']);
    await world.stop();
  });

  it('asks the workers when the log was created anew, with or without an event, at any length', async () => {
    for (const [isQuiet, messages] of [
      [false, 8],
      [true, 8],
      [false, 500],
      [true, 500],
    ] as const) {
      const world = new World(4);
      const router = await world.router();
      await workThrough(world, router, 2);
      world.log.recreate(isQuiet);
      world.workers.work(messages);
      await world.caughtUp(router);
      expect(router.hydrated.at(-1)).toBe('dumps');
      expect(await router.snapshotter.snapshot(never)).toBe('written');
      const fresh = await world.router();
      await world.caughtUp(fresh);
      expect(fresh.hydrated.at(-1)).toBe('snapshot');
      await world.stop();
    }
  });

  it('takes nothing from a follower that it has given up', async () => {
    const world = new World(13);
    const listeners: EventLogListener[] = [];
    const follow: EventLog['follow'] = (from, listener, signal) => {
      listeners.push(listener);
      return world.log.follow(from, listener, signal);
    };
    const log = { state: world.log.state.bind(world.log), purge: world.log.purge.bind(world.log), follow };
    const router = await world.router(NONE, { log: { ...log, read: world.log.read.bind(world.log) } });
    await workThrough(world, router, 2);
    listeners[0]?.gap(1, 2);
    await world.pass(200);
    expect(listeners).toHaveLength(2);
    const { lastSequence } = await world.log.state(never);
    const envelope = { topic: '', publisherId: '', sequence: 0, publishedAtMs: 0, payload: undefined };
    listeners[0]?.entry({ sequence: lastSequence + 100, envelope });
    listeners[0]?.gap(1, 2);
    await world.caughtUp(router);
    expect(router.reader.hydrations).toBe(2);
    await world.stop();
  });

  it('takes the snapshot before when the newest is damaged, and the workers when both are', async () => {
    const world = new World(5);
    const router = await world.router();
    await workThrough(world, router, 3);
    const [older, newest] = await world.store.list(never);
    const whole = (await world.store.get(newest!, never))!;
    const text = Buffer.from(whole).toString('latin1');
    const later = Buffer.from(text.replace('"version":2', '"version":3'), 'latin1');
    const damages = [whole.subarray(0, whole.length - 3), whole.subarray(0, 10), new Uint8Array(0), later];
    for (const damaged of damages) {
      await world.store.remove(newest!, never);
      await world.store.put(newest!, [damaged], never);
      const fresh = await world.router();
      await world.caughtUp(fresh);
      expect(fresh.hydrated.at(-1)).toBe('snapshot');
      expect(fresh.problems).toHaveLength(1);
      expect(fresh.index.dumps).toBe(0);
    }
    await world.store.remove(older!, never);
    const fresh = await world.router();
    await world.caughtUp(fresh);
    expect(fresh.hydrated.at(-1)).toBe('dumps');
    await world.stop();
  });

  it('asks the workers while the table is unreachable', async () => {
    const world = new World(6);
    const router = await world.router();
    await workThrough(world, router, 2);
    const away = await world.router({ kind: 'absent', call: 'state.readPointer' });
    await world.caughtUp(away);
    expect(away.hydrated.at(-1)).toBe('dumps');
    expect(away.problems).toEqual([]); // the table tells for itself
    await world.stop();
  });
});

describe('snapshots', () => {
  it('keep two, and purge the log only up to the older one', async () => {
    const world = new World(7);
    const router = await world.router();
    await workThrough(world, router, 6);
    expect(await world.store.list(never)).toHaveLength(2);
    const pointer = await world.hub.open().readPointer(NAME, never);
    const { firstSequence } = await world.log.state(never);
    expect(firstSequence).toBe((pointer?.previous?.sequence ?? 0) + 1);
    await world.expectWhole();
    await world.stop();
  });

  it('are written every interval, or sooner after many messages, only by the lease holder', async () => {
    const world = new World(8);
    const [holder, standby] = [await world.router(), await world.router()];
    holder.lease.start();
    await world.pass(50);
    standby.lease.start();
    holder.snapshotter.start();
    standby.snapshotter.start();
    world.workers.work(10);
    await world.pass(30_000);
    expect(await world.store.list(never)).toHaveLength(0);
    await world.pass(35_000);
    expect(await world.store.list(never)).toHaveLength(1);
    expect((await world.hub.open().readPointer(NAME, never))?.version).toBe(1);
    await world.stop();
  });

  it('write nothing when nothing has happened', async () => {
    const world = new World(9, { isBusy: false });
    const router = await world.router();
    await workThrough(world, router, 0);
    expect(await router.snapshotter.snapshot(never)).toBe('written'); // of nothing: there was none at all
    expect(await router.snapshotter.snapshot(never)).toBe('nothing_new');
    await world.stop();
  });

  it('are given up when the index starts anew while they are written', async () => {
    const world = new World(14, { isBusy: false });
    const router = await world.router();
    await workThrough(world, router, 1);
    const reader = { position: { createdAt: 'log-0', sequence: 1000 }, hydrations: 1 };
    const store: SnapshotStore = {
      ...world.store,
      async put(name, chunks, signal) {
        reader.hydrations++;
        await world.store.put(name, chunks, signal);
      },
    };
    const { clock, log } = world;
    const { lease, index } = router;
    const state = world.hub.open();
    const common = { state, log, lease, index, clock, random: seededRandom(1), pointer: NAME, onProblem: () => {} };
    const before = await state.readPointer(NAME, never);
    expect(await new Snapshotter({ ...common, store, reader }).snapshot(never)).toBe('not_ready');
    expect(await state.readPointer(NAME, never)).toEqual(before);
    await world.stop();
  });

  it('continue after the store was full', async () => {
    const store = createMemorySnapshotStore(1200);
    const world = new World(10, { store });
    const router = await world.router();
    await store.put('other', [new Uint8Array(1100)], never);
    await workThrough(world, router, 2);
    await world.expectWhole();
    await store.remove('other', never);
    await workThrough(world, router, 1);
    const fresh = await world.router();
    await world.caughtUp(fresh);
    expect(fresh.hydrated.at(-1)).toBe('snapshot');
    await world.stop();
  });

  it('leave every reader whole when calls fail at random, with their effect or without', async () => {
    for (let seed = 20; seed < 40; seed++) {
      const world = new World(seed);
      const old = await world.router();
      const chance = seededRandom(seed);
      const flaky = await world.router({ kind: 'flaky', share: 0.25, next: () => chance.next() });
      await workThrough(world, flaky, 8);
      await world.expectWhole();
      const fresh = await world.router();
      await world.caughtUp(fresh);
      await world.caughtUp(old);
      await world.stop();
    }
  });
});

/** Calls of a router that hydrates and writes four snapshots without any fault. */
async function stepsOfOneLife(): Promise<readonly string[]> {
  const world = new World(50);
  const router = await world.router();
  await workThrough(world, router, 4);
  const trace = [...router.faults.trace];
  await world.stop();
  return trace;
}

const trace = await stepsOfOneLife();
const points = trace.flatMap((name, at) =>
  (['before', 'after'] as const).map((when) => ({ step: at + 1, when, name: `${when} call ${at + 1}, ${name}` })),
);

describe('a lease holder that dies', () => {
  it.each(points)('$name leaves every reader with what the workers hold', async ({ step, when }) => {
    const world = new World(50);
    const old = await world.router();
    const doomed = await world.router({ kind: 'crash', step, when });
    await workThrough(world, doomed, 4);
    expect(doomed.faults.isDead).toBe(true);
    await world.expectWhole();
    const witness = await world.router(); // hydrates before anybody has cleared up
    const heir = await world.router();
    heir.lease.start();
    await world.pass(3 * TTL_MS);
    await workThrough(world, heir, 3);
    await world.expectWhole();
    expect(heir.lease.fence).toBeDefined();
    const fresh = await world.router();
    for (const router of [old, witness, heir, fresh]) await world.caughtUp(router);
    expect(fresh.hydrated.at(-1)).toBe('snapshot');
    expect(await world.store.list(never)).toHaveLength(2);
    await world.stop();
  });
});

describe('a lease holder that is robbed while it stands still', () => {
  it.each(points)('$name harms no reader when it goes on', async ({ step, when }) => {
    const world = new World(50);
    const old = await world.router();
    const frozen = await world.router({ kind: 'freeze', step, when });
    const life = workThrough(world, frozen, 4);
    await world.pass(200);
    const thief = await world.router();
    thief.lease.start();
    await world.pass(4 * TTL_MS);
    await workThrough(world, thief, 2);
    frozen.faults.thaw();
    await world.pass(200);
    await life;
    await world.expectWhole();
    await workThrough(world, thief, 1);
    await world.expectWhole();
    const fresh = await world.router();
    for (const router of [old, thief, fresh]) await world.caughtUp(router);
    await world.stop();
  });
});
