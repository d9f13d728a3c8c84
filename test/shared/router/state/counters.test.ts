import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Random, seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import type { RankWeight } from '../../../../shared/router/scheduler/index.ts';
import {
  CounterReporter,
  LoadFollower,
  type LoadRow,
  loadOf,
  MemoryRouterStateHub,
  NO_LOAD,
  type RankReading,
  ReservationLedger,
  type RouterState,
} from '../../../../shared/router/state/index.ts';
import { type Fault, FaultLine } from './faults.ts';

const never = new AbortController().signal;
const pool = { namespace: 'ns', component: 'backend', endpoint: 'generate' };
const rank = { workerId: 'a1', dpRank: 0 };
const INTERVAL_MS = 1000;
const NONE: Fault = { kind: 'none' };
const one: RankWeight = { requests: 1, decodeBlocks: 10, prefillTokens: 100 };

function times(amounts: RankWeight, count: number): RankWeight {
  const { requests, decodeBlocks, prefillTokens } = amounts;
  return { requests: count * requests, decodeBlocks: count * decodeBlocks, prefillTokens: count * prefillTokens };
}

/** A table, one worker that reports to it, and as many deciders as a test opens. */
class World {
  readonly clock = new VirtualClock();
  readonly hub = new MemoryRouterStateHub(this.clock);
  readonly random: Random;
  readonly worker: CounterReporter;
  readonly reports: FaultLine;
  running: RankWeight = NO_LOAD;
  reportCount = 0;

  constructor(seed = 1, fault: Fault = NONE) {
    this.random = seededRandom(seed);
    this.reports = new FaultLine(fault);
    const { clock, random } = this;
    const state = this.reports.around<RouterState>('state', this.hub.open(), ['report']);
    const read = (): readonly RankReading[] => [{ dpRank: 0, active: this.running, kvUsedBlocks: 0 }];
    const counted: RouterState = new Proxy(state, {
      get: (target, property) => {
        if (property === 'report') this.reportCount++;
        return Reflect.get(target, property);
      },
    });
    this.worker = new CounterReporter({
      state: counted,
      pool,
      workerId: 'a1',
      clock,
      random,
      read,
      onProblem: () => {},
    });
    this.worker.start();
  }

  decider(fault: Fault = NONE, gatherMs = 0): ReservationLedger {
    const { clock, random } = this;
    const state = new FaultLine(fault).around<RouterState>('state', this.hub.open(), ['reserve']);
    return new ReservationLedger({ state, pool, clock, random, gatherMs, onProblem: () => {} });
  }

  async row(): Promise<LoadRow> {
    return (await this.hub.open().loads(pool, never))[0]!;
  }

  async load(): Promise<RankWeight> {
    return loadOf(await this.row());
  }

  /** A request comes to the worker and starts to run. */
  arrive(): void {
    this.worker.arrived(0, one);
    this.running = times(one, this.running.requests + 1);
  }

  end(): void {
    this.running = times(one, this.running.requests - 1);
  }
}

describe('a reservation', () => {
  it('counts from when it is made until the request ends, and at no time twice', async () => {
    const world = new World();
    const decider = world.decider();
    await world.clock.advance(10);
    decider.reserve(rank, one);
    await world.clock.advance(1);
    expect(await world.load()).toEqual(one);
    world.arrive();
    expect(await world.load()).toEqual(one); // the table does not know yet
    await world.clock.advance(2 * INTERVAL_MS);
    expect(await world.row()).toMatchObject({ active: one, acked: one });
    expect(await world.load()).toEqual(one);
    world.end();
    await world.clock.advance(2 * INTERVAL_MS);
    expect(await world.load()).toEqual(NO_LOAD);
  });

  it('of a decider that died counts as arrived two intervals later', async () => {
    const world = new World();
    await world.clock.advance(10);
    const dead = world.decider();
    dead.reserve(rank, times(one, 3));
    await world.clock.advance(1);
    expect(await world.load()).toEqual(times(one, 3));
    // At most one idle interval until the worker sees it, two intervals of patience, one until it says so; and its pace.
    await world.clock.advance(5000 + 3 * INTERVAL_MS + 2 * INTERVAL_MS);
    expect(await world.load()).toEqual(NO_LOAD);
  });

  it('of a dead decider is found among many that live', async () => {
    const world = new World(5);
    const decider = world.decider();
    await world.clock.advance(10);
    decider.reserve(rank, times(one, 20)); // never sent
    for (let round = 0; round < 400; round++) {
      decider.reserve(rank, one);
      await world.clock.advance(5);
      world.arrive();
      await world.clock.advance(20);
      world.end();
    }
    await world.clock.advance(1.3 * INTERVAL_MS); // one report: too short for anything to be written off that lives
    const { requests } = await world.load();
    expect(requests).toBeLessThanOrEqual(3);
  });

  it('is taken back by a release, also before it was ever written', async () => {
    const world = new World();
    const decider = world.decider(NONE, 50);
    await world.clock.advance(10);
    decider.reserve(rank, one);
    decider.release(rank, one);
    await world.clock.advance(100);
    expect(decider.pendingRanks).toBe(0);
    decider.reserve(rank, one);
    await world.clock.advance(100);
    expect(await world.load()).toEqual(one);
    decider.release(rank, one);
    await world.clock.advance(100);
    expect(await world.load()).toEqual(NO_LOAD);
  });

  it('at a worker that is gone is dropped', async () => {
    const world = new World();
    const decider = world.decider();
    decider.reserve({ workerId: 'dead', dpRank: 0 }, one);
    await world.clock.advance(10);
    expect(decider.pendingRanks).toBe(0);
    expect(await world.hub.open().loads(pool, never)).toHaveLength(1);
  });

  it('is written once, however often its answer is lost', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.nat(200), async (seed, gatherMs) => {
        const world = new World(seed);
        const chance = seededRandom(seed);
        const decider = world.decider({ kind: 'flaky', share: 0.5, next: () => chance.next() }, gatherMs);
        await world.clock.advance(10);
        let sum = 0;
        for (let request = 0; request < 30; request++) {
          decider.reserve(rank, one);
          sum++;
          await world.clock.advance(chance.below(40));
        }
        const closed = decider.close(120_000);
        await world.clock.advance(120_000);
        await closed;
        expect((await world.row()).reserved.requests).toBe(sum);
      }),
      { numRuns: 20 },
    );
  });

  it('is gathered with others into one write', async () => {
    const world = new World();
    await world.clock.advance(10);
    const faults = new FaultLine(NONE);
    const state = faults.around<RouterState>('state', world.hub.open(), ['reserve']);
    const { clock, random } = world;
    const decider = new ReservationLedger({ state, pool, clock, random, gatherMs: 1000, onProblem: () => {} });
    for (let request = 0; request < 300; request++) {
      decider.reserve(rank, one);
      await clock.advance(10);
    }
    await clock.advance(2000);
    expect((await world.row()).reserved).toEqual(times(one, 300));
    expect(faults.steps).toBeLessThanOrEqual(4);
  });
});

describe('the worker’s reports', () => {
  it('come every second while the load changes, and seldom when it does not', async () => {
    const world = new World();
    for (let second = 0; second < 60; second++) {
      world.running = times(one, 1 + (second % 2));
      await world.clock.advance(1000);
    }
    expect(world.reportCount).toBeGreaterThan(45);
    expect(world.reportCount).toBeLessThan(70);
    const before = world.reportCount;
    await world.clock.advance(60_000);
    expect(world.reportCount - before).toBeLessThan(16);
  });

  it('come at once after a large change', async () => {
    const world = new World();
    await world.clock.advance(3000);
    world.running = times(one, 50);
    await world.clock.advance(INTERVAL_MS / 4);
    expect((await world.row()).active).toEqual(times(one, 50));
  });

  it('agree with what runs and what is on its way, once all is quiet, whatever failed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const chance = seededRandom(seed);
        const flaky: Fault = { kind: 'flaky', share: 0.3, next: () => chance.next() };
        const world = new World(seed, flaky);
        const deciders = [world.decider(flaky), world.decider(flaky, 500), world.decider()];
        for (let step = 0; step < 200; step++) {
          const what = chance.below(10);
          const decider = deciders[chance.below(3)]!;
          if (what < 5) {
            decider.reserve(rank, one);
            if (what < 4) world.arrive(); // else the decider died in between
          } else if (what === 5)
            world.arrive(); // the reservation was never written
          else if (world.running.requests > 0) world.end();
          await world.clock.advance(chance.below(300));
        }
        await world.clock.advance(90_000);
        expect(await world.load()).toEqual(world.running);
      }),
      { numRuns: 15 },
    );
  });

  it('end with the worker', async () => {
    const world = new World();
    await world.clock.advance(10);
    await world.worker.stop(1000);
    expect(await world.hub.open().loads(pool, never)).toEqual([]);
    expect(world.clock.pendingTimers).toBe(0);
  });
});

describe('following loads', () => {
  it('keeps what was last known while the table is away, and says how old it is', async () => {
    const world = new World();
    let isAway = false;
    const state: RouterState = new Proxy(world.hub.open(), {
      get: (target, property) => {
        if (property !== 'loads') return Reflect.get(target, property);
        return (...args: Parameters<RouterState['loads']>) =>
          isAway ? Promise.reject(new Error('away')) : target.loads(...args);
      },
    });
    const problems: unknown[] = [];
    const { clock, random } = world;
    const follower = new LoadFollower({
      state,
      pool,
      clock,
      random,
      onLoads: () => {},
      onProblem: (problem) => problems.push(problem),
    });
    expect(follower.ageMs).toBeUndefined();
    follower.start();
    world.running = one;
    await clock.advance(5000);
    expect(follower.rows[0]?.active).toEqual(one);
    expect(follower.ageMs).toBeLessThan(1200);
    isAway = true;
    await clock.advance(60_000);
    expect(follower.rows[0]?.active).toEqual(one);
    expect(follower.ageMs).toBeGreaterThan(55_000);
    expect(problems.length).toBeLessThan(20); // with back-off
    isAway = false;
    await clock.advance(6000);
    expect(follower.ageMs).toBeLessThan(6000);
    await follower.stop();
  });
});
