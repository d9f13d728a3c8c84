import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import {
  CELL_BYTES_MAX,
  cellsOfPrefix,
  dealIntoCells,
  packFleetCell,
  unpackFleetCell,
} from '../../../../shared/router/state/fleet-item.ts';
import {
  FleetReader,
  type FleetReaderOptions,
  type FleetWorker,
  FleetWriter,
  MemoryRouterStateHub,
  type RouterState,
} from '../../../../shared/router/state/index.ts';

const never = new AbortController().signal;
const pool = { namespace: 'ns', component: 'backend', endpoint: 'generate' };
const NOW_MS = 1_700_000_000_000;

function someWorker(at: number, fields: Partial<FleetWorker> = {}): FleetWorker {
  const id = (0x10_0000_0000 + at * 7919).toString(16);
  return {
    id,
    address: `10.0.${(at >> 8) & 255}.${at & 255}:9345/${id}/ns/backend/generate`,
    aliveUntilMs: NOW_MS + 9000,
    isAvailable: true,
    load: { requests: at % 50, decodeBlocks: at, prefillTokens: 3 * at },
    kvUsedShare: 0.2,
    dataParallelStartRank: 0,
    dataParallelSize: 1,
    ...fields,
  };
}

function someWorkers(count: number): readonly FleetWorker[] {
  return Array.from({ length: count }, (_, at) => someWorker(at));
}

const hexId = fc.bigInt({ min: 1n, max: 2n ** 53n - 1n }).map((id) => id.toString(16));
const octet = fc.nat(255);
const anyWorker: fc.Arbitrary<FleetWorker> = hexId.chain((id) =>
  fc.record({
    id: fc.constant(id),
    address: fc.oneof(
      fc
        .tuple(octet, octet, octet, octet, fc.integer({ min: 1, max: 65_535 }))
        .map(([a, b, c, d, port]) => `${a}.${b}.${c}.${d}:${port}/${id}/ns/backend/generate`),
      fc.constantFrom(
        `[fd00::1]:9345/${id}/ns/backend/generate`,
        `worker-7.internal:80/${id}/x`,
        `010.0.0.1:9345/${id}`,
        `1.2.3.4:99999/${id}/ns/backend/generate`,
        '1.2.3.4:80/ffff/ns/backend/generate',
        'é',
      ),
    ),
    aliveUntilMs: fc.nat(255).map((tenths) => NOW_MS + 100 * tenths),
    isAvailable: fc.boolean(),
    load: fc.record({
      requests: fc.nat(0xffff),
      decodeBlocks: fc.nat(0xff_ffff),
      prefillTokens: fc.nat(0xff_ffff),
    }),
    kvUsedShare: fc.nat(255).map((part) => part / 255),
    dataParallelStartRank: fc.nat(0xffff),
    dataParallelSize: fc.integer({ min: 1, max: 255 }),
  }),
);

describe('a packed cell', () => {
  it('gives every worker back, whatever its address looks like', () => {
    fc.assert(
      fc.property(fc.array(anyWorker, { maxLength: 60 }), (workers) => {
        const cell = { cells: 8, copies: 3, rewriteMs: 5000, workers };
        expect(unpackFleetCell(packFleetCell(cell, NOW_MS), NOW_MS)).toEqual(cell);
      }),
    );
  });

  it('of 256 workers stays below one read unit, at 16 to 32 bytes a worker', () => {
    const bytes = packFleetCell({ cells: 1, copies: 1, rewriteMs: 5000, workers: someWorkers(256) }, NOW_MS).length;
    expect(bytes).toBeLessThan(CELL_BYTES_MAX);
    expect(bytes / 256).toBeGreaterThan(16);
    expect(bytes / 256).toBeLessThan(32);
  });

  it('cuts amounts that do not fit to the largest that do', () => {
    const load = { requests: 1e9, decodeBlocks: 1e9, prefillTokens: -5 };
    const worker = someWorker(1, { load, kvUsedShare: 7, aliveUntilMs: NOW_MS + 1e9 });
    const cell = { cells: 1, copies: 1, rewriteMs: 5000, workers: [worker] };
    const [back] = unpackFleetCell(packFleetCell(cell, NOW_MS), NOW_MS).workers;
    expect(back?.load).toEqual({ requests: 0xffff, decodeBlocks: 0xff_ffff, prefillTokens: 0 });
    expect(back).toMatchObject({ kvUsedShare: 1, aliveUntilMs: NOW_MS + 25_500 });
  });

  it('is refused when it is cut short or of a later version', () => {
    const workers = [someWorker(1), someWorker(2, { address: 'host:1/x' })];
    const bytes = packFleetCell({ cells: 1, copies: 1, rewriteMs: 5000, workers }, NOW_MS);
    for (let length = 0; length < bytes.length; length++) {
      expect(() => unpackFleetCell(bytes.subarray(0, length), NOW_MS)).toThrow(RangeError);
    }
    expect(() => unpackFleetCell(Uint8Array.from([2, ...bytes.subarray(1)]), NOW_MS)).toThrow(/version 2/);
  });
});

describe('cells', () => {
  it('hold every worker once and stay within their size', () => {
    for (const count of [0, 1, 256, 257, 1000, 10_000]) {
      const dealt = dealIntoCells(someWorkers(count), 1);
      expect(new Set(dealt.flat().map(({ id }) => id)).size).toBe(count);
      expect(dealt.flat()).toHaveLength(count);
      for (const workers of dealt) {
        expect(workers.length).toBeLessThanOrEqual(256);
        const bytes = packFleetCell({ cells: dealt.length, copies: 1, rewriteMs: 5000, workers }, NOW_MS);
        expect(bytes.length).toBeLessThanOrEqual(CELL_BYTES_MAX);
      }
      expect(dealt.length).toBeLessThanOrEqual(Math.max(1, count / 64));
    }
  });

  it('are more and smaller where addresses are long', () => {
    const workers = someWorkers(300).map((worker) => ({
      ...worker,
      address: `${'h'.repeat(80)}.internal:1/${worker.id}`,
    }));
    const dealt = dealIntoCells(workers, 1);
    expect(dealt.flat()).toHaveLength(300);
    for (const cell of dealt) {
      const bytes = packFleetCell({ cells: dealt.length, copies: 1, rewriteMs: 5000, workers: cell }, NOW_MS);
      expect(bytes.length).toBeLessThanOrEqual(CELL_BYTES_MAX);
    }
  });

  it('keep their workers when one comes or goes', () => {
    const workers = someWorkers(1000);
    const before = dealIntoCells(workers, 8);
    const after = dealIntoCells(workers.slice(1), before.length);
    expect(after.length).toBe(before.length);
    const moved = after.flatMap((cell, at) => cell.filter((worker) => !before[at]?.includes(worker)));
    expect(moved).toEqual([]);
  });

  it('do not change their number back and forth', () => {
    let cells = 1;
    let changes = 0;
    for (const count of [250, 258, 250, 258, 300, 250, 258, 200]) {
      const next = dealIntoCells(someWorkers(count), cells).length;
      if (next !== cells) changes++;
      cells = next;
    }
    expect(changes).toBe(1);
  });

  it('serve prefixes evenly, and spill to another one', () => {
    const counts = new Array<number>(16).fill(0);
    for (let prefix = 0; prefix < 16_000; prefix++) {
      const { first, spill } = cellsOfPrefix([Math.imul(prefix, 0x9e3779b1) >>> 0, Math.imul(prefix, 77) >>> 0], 16);
      counts[first] = (counts[first] ?? 0) + 1;
      expect(spill).not.toBe(first);
      expect(spill).toBeLessThan(16);
    }
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(200);
    expect(cellsOfPrefix([5, 6], 1)).toEqual({ first: 0, spill: 0 });
  });
});

/** A writer with its fleet, and readers of it. */
class World {
  readonly clock = new VirtualClock(NOW_MS);
  readonly hub = new MemoryRouterStateHub(this.clock);
  readonly calls = new Map<string, number>();
  workers: readonly FleetWorker[] = someWorkers(5);
  fence: number | undefined = 1;
  isAway = false;
  problems = 0;
  leaseQueries = 0;
  #seed = 0;

  /** A handle that counts its calls, and fails while the table is away. */
  state(): RouterState {
    return new Proxy(this.hub.open(), {
      get: (target, property) => {
        const value = Reflect.get(target, property);
        if (typeof value !== 'function' || property === 'nowMs')
          return typeof value === 'function' ? value.bind(target) : value;
        return (...args: unknown[]) => {
          this.calls.set(String(property), (this.calls.get(String(property)) ?? 0) + 1);
          return this.isAway ? Promise.reject(new Error('away')) : value.apply(target, args);
        };
      },
    });
  }

  writer(): FleetWriter {
    const writer = new FleetWriter({
      state: this.state(),
      pool,
      clock: this.clock,
      random: seededRandom(++this.#seed),
      workers: () => this.workers.map((worker) => ({ ...worker, aliveUntilMs: this.clock.wallMs() + 9000 })),
      fence: () => this.fence,
      defer: async () => {},
      onProblem: () => void this.problems++,
    });
    writer.start();
    return writer;
  }

  reader(options: Partial<FleetReaderOptions> = {}): FleetReader {
    return new FleetReader({
      state: this.state(),
      pool,
      clock: this.clock,
      random: seededRandom(++this.#seed),
      queryLeases: async () => {
        this.leaseQueries++;
        if (this.isAway) throw new Error('away');
        return this.workers;
      },
      onProblem: () => void this.problems++,
      ...options,
    });
  }

  taken(call: string): number {
    const count = this.calls.get(call) ?? 0;
    this.calls.set(call, 0);
    return count;
  }
}

describe('the fleet writer', () => {
  it('writes on change at most once a second, and every five when nothing changes', async () => {
    const world = new World();
    const writer = world.writer();
    await world.clock.advance(60_000);
    expect(world.taken('writeFleetItem')).toBeLessThanOrEqual(16);
    for (let at = 0; at < 600; at++) {
      world.workers = someWorkers(5 + (at % 2));
      await world.clock.advance(100);
    }
    const writes = world.taken('writeFleetItem');
    expect(writes).toBeGreaterThan(15);
    expect(writes).toBeLessThanOrEqual(68);
    await writer.stop();
  });

  it('writes only the cells that have changed', async () => {
    const world = new World();
    world.workers = someWorkers(2000);
    const writer = world.writer();
    await world.clock.advance(1);
    expect(world.taken('writeFleetItem')).toBe(16);
    world.workers = world.workers.map((worker, at) => (at === 7 ? { ...worker, isAvailable: false } : worker));
    await world.clock.advance(1500);
    expect(world.taken('writeFleetItem')).toBe(1);
    await writer.stop();
  });

  it('writes nothing without the lease, and everything when it gets it', async () => {
    const world = new World();
    world.fence = undefined;
    const writer = world.writer();
    await world.clock.advance(10_000);
    expect(world.taken('writeFleetItem')).toBe(0);
    world.fence = 9;
    await world.clock.advance(1200);
    expect(world.taken('writeFleetItem')).toBe(1);
    await writer.stop();
  });

  it('makes copies of a cell that is read more than 500 times a second, and gives them up again', async () => {
    const world = new World();
    const writer = world.writer();
    await world.clock.advance(100);
    const load = world.hub.open();
    const copies = async () =>
      unpackFleetCell((await load.readFleetItem({ pool, cell: 0, copy: 0 }, never))!.body, 0).copies;
    expect(await copies()).toBe(1);
    for (let second = 0; second < 20; second++) {
      await load.countFleetReads(pool, 1800, never);
      await world.clock.advance(1000);
    }
    expect(await copies()).toBeGreaterThanOrEqual(4);
    expect(await load.readFleetItem({ pool, cell: 0, copy: 3 }, never)).toBeDefined();
    await world.clock.advance(30_000);
    expect(await copies()).toBe(1);
    await writer.stop();
  });
});

describe('the fleet reader', () => {
  const idsOf = (workers: readonly FleetWorker[]): string[] => workers.map(({ id }) => id).sort();

  it('reads its cell at most every 250 ms, however many requests ask', async () => {
    const world = new World();
    const writer = world.writer();
    await world.clock.advance(100);
    world.calls.clear();
    const reader = world.reader();
    for (let request = 0; request < 1000; request++) {
      const view = await reader.workersFor([request, request], false, never);
      expect(view.source).toBe('item');
      expect(idsOf(view.workers)).toEqual(idsOf(world.workers));
      await world.clock.advance(10);
    }
    expect(world.taken('readFleetItem')).toBeLessThanOrEqual(41);
    expect(world.leaseQueries).toBe(0);
    await writer.stop();
  });

  it('finds the cell of a prefix, the other one on spill, and every worker in some cell', async () => {
    const world = new World();
    world.workers = someWorkers(2000);
    const writer = world.writer();
    await world.clock.advance(100);
    const reader = world.reader();
    const seen = new Set<string>();
    for (let prefix = 0; prefix < 400; prefix++) {
      const key = [Math.imul(prefix, 0x9e3779b1) >>> 0, prefix] as const;
      const first = await reader.workersFor(key, false, never);
      const spill = await reader.workersFor(key, true, never);
      expect(first.workers.length).toBeLessThanOrEqual(256);
      expect(idsOf(spill.workers)).not.toEqual(idsOf(first.workers));
      for (const { id } of first.workers) seen.add(id);
    }
    expect(seen.size).toBe(2000);
    await writer.stop();
  });

  it('sees a fleet that grows into more cells', async () => {
    const world = new World();
    const writer = world.writer();
    await world.clock.advance(100);
    const reader = world.reader();
    await reader.workersFor([1, 1], false, never);
    world.workers = someWorkers(2000);
    await world.clock.advance(2000);
    const view = await reader.workersFor([1, 1], false, never);
    expect(view.source).toBe('item');
    expect(view.workers.length).toBeGreaterThan(50);
    await writer.stop();
  });

  it('asks for the leases when the item is missing, unreadable or older than its bound', async () => {
    const world = new World();
    const reader = world.reader();
    expect((await reader.workersFor([1, 1], false, never)).source).toBe('leases');
    expect((await reader.workersFor([1, 1], false, never)).source).toBe('leases');
    expect(world.leaseQueries).toBe(1); // shared for the staleness bound
    const writer = world.writer();
    await world.clock.advance(3000);
    expect((await reader.workersFor([1, 1], false, never)).source).toBe('item');
    await writer.stop();
    await world.clock.advance(3500);
    expect((await reader.workersFor([1, 1], false, never)).source).toBe('item'); // within its bound of 7 s
    await world.clock.advance(3000);
    expect((await reader.workersFor([1, 1], false, never)).source).toBe('leases');
    await world.hub.open().writeFleetItem({ pool, cell: 0, copy: 0 }, Uint8Array.of(99), 5, never);
    await world.clock.advance(3000);
    expect((await reader.workersFor([1, 1], false, never)).source).toBe('leases');
    expect(world.problems).toBeGreaterThan(0);
  });

  it('goes on with what it last knew while the table is away', async () => {
    const world = new World();
    const writer = world.writer();
    await world.clock.advance(100);
    const reader = world.reader();
    await reader.workersFor([1, 1], false, never);
    world.isAway = true;
    await world.clock.advance(60_000);
    const view = await reader.workersFor([1, 1], false, never);
    expect(view.source).toBe('last');
    expect(idsOf(view.workers)).toEqual(idsOf(world.workers));
    await writer.stop();
  });

  it('leaves out workers whose leases ran out, when their writer does not say so any more', async () => {
    const world = new World();
    const cell = {
      cells: 1,
      copies: 1,
      rewriteMs: 5000,
      workers: [someWorker(1), someWorker(2, { aliveUntilMs: NOW_MS })],
    };
    await world.hub.open().writeFleetItem({ pool, cell: 0, copy: 0 }, packFleetCell(cell, NOW_MS), 1, never);
    await world.clock.advance(6000);
    const { workers } = await world.reader().workersFor([1, 1], false, never);
    expect(idsOf(workers)).toEqual([someWorker(1).id]);
  });

  it('does not wait long for a table that does not answer', async () => {
    const world = new World();
    const silent: RouterState = new Proxy(world.hub.open(), {
      get: (target, property) => {
        const value = Reflect.get(target, property);
        if (property !== 'readFleetItem') return typeof value === 'function' ? value.bind(target) : value;
        return (_key: unknown, signal: AbortSignal) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    });
    const reader = world.reader({ state: silent });
    const view = reader.workersFor([1, 1], false, never);
    await world.clock.advance(200);
    expect((await view).source).toBe('leases');
  });

  it('reads a copy of its own once there are several, and the first when its copy is given up', async () => {
    const world = new World();
    const hub = world.hub.open();
    const write = (copy: number, copies: number, fence: number) => {
      const cell = { cells: 1, copies, rewriteMs: 5000, workers: someWorkers(copy + 1) };
      return hub.writeFleetItem({ pool, cell: 0, copy }, packFleetCell(cell, world.clock.wallMs()), fence, never);
    };
    for (let copy = 0; copy < 4; copy++) await write(copy, 4, 1);
    const readers = Array.from({ length: 32 }, () => world.reader());
    const sizes = async () => {
      await Promise.all(readers.map((reader) => reader.workersFor([1, 1], false, never)));
      await world.clock.advance(300);
      return Promise.all(readers.map(async (reader) => (await reader.workersFor([1, 1], false, never)).workers.length));
    };
    expect(new Set(await sizes()).size).toBe(4);
    await world.clock.advance(10_000);
    await write(0, 1, 2);
    expect(new Set(await sizes())).toEqual(new Set([1]));
    expect(world.leaseQueries).toBe(0);
  });
});
