import { beforeEach, describe, expect, it } from 'vitest';
import { endpointAt, modelAt } from '../../contract/discovery/records.ts';
import { type BedProcess, FleetBed } from './fleet-bed.ts';

/** The defaults: leases of 10 s, readings each second, a view that lasts 3 s. */
let bed: FleetBed;
beforeEach(() => {
  bed = new FleetBed();
});

const path = (at: number): string => `ns/backend/generate/${at.toString(16)}`;

async function startWorker(at: number): Promise<BedProcess> {
  const worker = bed.open();
  await worker.discovery.put(endpointAt(path(at)));
  await worker.discovery.put(modelAt(path(at)));
  return worker;
}

const gatherers = (processes: readonly BedProcess[]): BedProcess[] =>
  processes.filter(({ gathering }) => gathering.at(-1) === true);

/** One that gathers among `processes`, and the others. */
function split(processes: readonly BedProcess[]): { gatherer: BedProcess; others: BedProcess[] } {
  const [gatherer, ...more] = gatherers(processes);
  if (gatherer === undefined || more.length > 0) throw new Error(`${more.length} others gather`);
  return { gatherer, others: processes.filter((one) => one !== gatherer) };
}

describe('the fleet view', () => {
  it('is gathered by one process of many, and read by all', async () => {
    const workers = await Promise.all([1, 2, 3].map(startWorker));
    const edges = [await bed.follow(), await bed.follow(), await bed.follow()];
    await bed.pass(10_000);
    split([...workers, ...edges]);
    for (const { witness, sources } of edges) {
      expect(witness.keys).toEqual([1, 2, 3].map(path));
      expect(new Set(sources.slice(3))).not.toContain('leases');
    }
  });

  it('shows a worker that comes, moves or leaves within three seconds', async () => {
    const worker = await startWorker(1);
    const edges = [await bed.follow(), await bed.follow()];
    await bed.pass(5000);
    const [at, moved] = [endpointAt(path(2)), endpointAt(path(2), '10.0.0.9:1')];
    await worker.discovery.put(at);
    await bed.pass(3000);
    for (const { witness } of edges) expect(witness.present.get(path(2))).toEqual(at);
    await worker.discovery.put(moved);
    await bed.pass(3000);
    for (const { witness } of edges) expect(witness.present.get(path(2))).toEqual(moved);
    await worker.discovery.remove(moved);
    await bed.pass(3000);
    for (const { witness } of edges) expect(witness.keys).toEqual([path(1)]);
    await worker.discovery.close();
    await bed.pass(3000);
    for (const { witness } of edges) expect(witness.keys).toEqual([]);
  });

  it('shows what changed also where the worker has set its idea of the time back', async () => {
    const worker = await startWorker(1);
    const edges = [await bed.follow(), await bed.follow()];
    await bed.pass(5000);
    worker.clock.stepWall(-500);
    await worker.discovery.put(endpointAt(path(2)));
    expect(await edges[0]?.discovery.list({ bucket: 'v1/instances', prefix: '' })).toHaveLength(2);
    await bed.pass(1000);
    worker.clock.stepWall(-5000);
    await worker.discovery.put(endpointAt(path(3)));
    await bed.pass(3000);
    for (const { witness } of edges) expect(witness.keys).toEqual([1, 2, 3].map(path));
  });

  it('tells of a worker that died after its lease and two readings at the latest', async () => {
    const [dying] = [await startWorker(1), await startWorker(2)];
    const edges = [await bed.follow(), await bed.follow()];
    await bed.pass(5000);
    dying.freeze();
    await bed.pass(13_500);
    for (const { witness } of edges) expect(witness.keys).toEqual([path(2)]);
    for (const { witness } of edges) expect(witness.events.filter(({ key }) => key === path(2))).toHaveLength(1);
  });

  it('carries loads to every reader, about once a second while they change', async () => {
    const worker = await startWorker(1);
    const edge = await bed.follow();
    const other = await bed.follow();
    const told: number[] = [];
    other.discovery.watchLoads((loads) => told.push(loads.get('1')?.ranks[0]?.requests ?? -1));
    await bed.pass(5000);
    const before = worker.client.counts.writes;
    for (let requests = 1; requests <= 100; requests++) {
      worker.discovery.setLoad('1', {
        ranks: [{ dpRank: 0, requests, decodeBlocks: 0, prefillTokens: 0 }],
        isDraining: false,
      });
      await bed.pass(100);
    }
    await bed.pass(4000);
    expect(told.at(-1)).toBe(100);
    expect(told.length).toBeGreaterThan(8);
    const isGatherer = worker.gathering.at(-1) === true;
    expect(isGatherer).toBe(false);
    expect(worker.client.counts.writes - before).toBeLessThanOrEqual(14); // ten in ten seconds, then renewals
    expect(edge.problems).toEqual([]);
  });
});

describe('when the gatherer', () => {
  let workers: BedProcess[];
  let edges: BedProcess[];
  let gatherer: BedProcess;
  let others: BedProcess[];

  beforeEach(async () => {
    workers = await Promise.all([1, 2, 3].map(startWorker));
    edges = [await bed.follow(), await bed.follow(), await bed.follow()];
    await bed.pass(5000);
    ({ gatherer, others } = split([...workers, ...edges]));
  });

  const lookers = (): BedProcess[] => edges.filter((edge) => edge !== gatherer);

  it('is killed, another process replaces it, and no process loses sight of a worker meanwhile', async () => {
    gatherer.freeze(); // for good
    await bed.pass(8000);
    split(others);
    const dead = workers.indexOf(gatherer);
    const living = [1, 2, 3].filter((at) => at !== dead + 1).map(path);
    for (const { witness } of lookers()) {
      expect(witness.keys).toEqual(expect.arrayContaining(living));
      expect(witness.events.filter(({ kind }) => kind === 'removed')).toEqual([]);
    }
    const late = bed.open();
    await late.discovery.put(endpointAt(path(9)));
    await bed.pass(3000);
    for (const { witness } of lookers()) expect(witness.keys).toContain(path(9));
  });

  it('leaves, another process replaces it at once', async () => {
    await gatherer.discovery.close();
    await bed.pass(2500);
    split(others);
  });

  it('stands still for ten seconds and goes on while another one has taken over, writes nothing any more', async () => {
    gatherer.freeze();
    await bed.pass(6000);
    const { gatherer: next } = split(others);
    const late = bed.open(); // the old gatherer knows nothing of it
    await late.discovery.put(endpointAt(path(9)));
    await bed.pass(4000);
    gatherer.thaw();
    await bed.pass(200);
    expect(gatherer.gathering.at(-1)).toBe(false);
    await bed.pass(6000);
    expect(next.gathering.at(-1)).toBe(true);
    for (const { witness } of lookers()) {
      expect(witness.keys).toContain(path(9));
      expect(witness.events.filter(({ key, kind }) => kind === 'removed' && key === path(9))).toEqual([]);
    }
    if (edges.includes(gatherer)) expect(gatherer.witness.keys).toContain(path(9));
  });

  it('comes back to it, shows what happened while another one gathered from the first reading on', async () => {
    const [edge, other] = [await bed.follow(), await bed.follow()];
    const gone = bed.open({ isLasting: false });
    await gone.discovery.put(endpointAt(path(20)));
    for (const each of [...workers, ...edges]) await each.discovery.close();
    await bed.pass(4000);
    const { gatherer: first, others: seconds } = split([edge, other]);
    const [second] = seconds as [BedProcess];
    first.freeze();
    await bed.pass(4500);
    first.thaw();
    await bed.pass(1500);
    expect(gatherers([first, second])).toEqual([second]);
    const come = bed.open({ isLasting: false });
    await come.discovery.put(endpointAt(path(21)));
    await gone.discovery.close();
    await bed.pass(4000);
    expect(first.witness.keys).toEqual([path(21)]);
    const before = first.witness.events.length;
    await second.discovery.close();
    await bed.pass(5000);
    expect(gatherers([first])).toEqual([first]);
    expect(first.witness.events.slice(before)).toEqual([]);
  });

  it('is cut off from the table, another process replaces it; it keeps what it knew, and reads again afterwards', async () => {
    gatherer.client.cut(true);
    await bed.pass(8000);
    split(others);
    if (edges.includes(gatherer)) expect(gatherer.witness.present.size).toBe(3);
    gatherer.client.cut(false);
    await bed.pass(8000);
    expect(gatherers([gatherer, ...others])).toHaveLength(1);
    expect(gatherers([gatherer])).toHaveLength(0);
  });
});

describe('when a reader is cut off from the table', () => {
  it('known records stand, and missed ones are delivered when it is back', async () => {
    await startWorker(1);
    const edges = [await bed.follow(), await bed.follow()];
    await bed.pass(5000);
    const [cut] = edges.filter(({ gathering }) => gathering.at(-1) !== true);
    cut?.client.cut(true);
    await startWorker(2);
    await bed.pass(30_000);
    expect(cut?.witness.keys).toEqual([path(1)]);
    expect(cut?.witness.outages).toHaveLength(1);
    cut?.client.cut(false);
    await bed.pass(8000);
    expect(cut?.witness.keys).toEqual([path(1), path(2)]);
    expect(cut?.witness.outages).toHaveLength(2);
  });
});

describe('when the table is unreachable for 30 seconds', () => {
  it.each([
    ['among edges', 2],
    ['among workers without other readers', 0],
  ])('%s, what was known stands, and only who died meanwhile is gone in the end', async (_, lastingEdges) => {
    const workers = await Promise.all([1, 2, 3].map(startWorker));
    const edges: BedProcess[] = [];
    for (let at = 0; at < lastingEdges; at++) edges.push(await bed.follow());
    await bed.pass(3000);
    const reader = await bed.follow({ isLasting: false }); // a function, asked once a second
    const all = [...workers, ...edges, reader];
    const serve = async (seconds: number): Promise<void> => {
      for (let at = 0; at < seconds; at++) {
        const asked = reader.discovery.refresh(1000);
        await bed.pass(1100);
        await asked;
      }
    };
    await serve(5);
    for (const { client } of all) client.cut(true);
    await serve(15);
    workers[2]?.freeze(); // dies during the outage
    await serve(15);
    for (const { witness } of [...edges, reader]) expect(witness.keys).toEqual([1, 2, 3].map(path));
    for (const { client } of all) client.cut(false);
    await serve(25);
    for (const { witness } of [...edges, reader]) {
      expect(witness.keys).toEqual([1, 2].map(path));
      const removed = witness.events.filter(({ kind }) => kind === 'removed').map(({ key }) => key);
      expect(removed).toEqual([path(3)]);
    }
    expect(gatherers(all.filter((one) => one !== workers[2]))).toHaveLength(1);
  });
});

describe('when the gatherer dies while the table is unreachable', () => {
  it.each([
    ['an edge', 2, 30_000],
    ['a worker that follows nothing', 0, 30_000],
    ['a worker that follows nothing', 0, 300_000],
  ])('%s takes its place, and considers no process dead that could not renew', async (_, lastingEdges, awayMs) => {
    const workers = await Promise.all([1, 2, 3].map(startWorker));
    const edges: BedProcess[] = [];
    for (let at = 0; at < lastingEdges; at++) edges.push(await bed.follow());
    await bed.pass(5000);
    const reader = await bed.follow({ isLasting: false });
    const all = [...workers, ...edges];
    const { gatherer } = split(all);
    for (const { client } of [...all, reader]) client.cut(true);
    gatherer.freeze();
    await bed.pass(awayMs - 5000, 500);
    const asked = reader.discovery.refresh(1000); // one that is asked nothing meanwhile knows of no outage
    await bed.pass(5000);
    await asked;
    for (const { client } of [...all, reader]) client.cut(false);
    for (let at = 0; at < 6; at++) {
      const again = reader.discovery.refresh(1000);
      await bed.pass(1100);
      await again;
    }
    const living = workers.flatMap((worker, at) => (worker === gatherer ? [] : [path(at + 1)]));
    for (const { witness } of [...edges, reader].filter((one) => one !== gatherer)) {
      const removed = witness.events.filter(({ kind }) => kind === 'removed').map(({ key }) => key);
      expect(removed.filter((key) => living.includes(key))).toEqual([]);
      expect(witness.keys).toEqual(expect.arrayContaining(living));
    }
    split(all.filter((one) => one !== gatherer));
  });
});

describe('a process that starts', () => {
  it('right after an outage considers no process dead that could not renew', async () => {
    const workers = await Promise.all([1, 2, 3].map(startWorker));
    await bed.pass(5000);
    for (const { client } of workers) client.cut(true);
    await bed.pass(30_000);
    for (const { client } of workers) client.cut(false);
    const reader = await bed.follow({ isLasting: false });
    expect(reader.witness.keys).toEqual([1, 2, 3].map(path));
  });

  it('long after all have gone considers no process alive that the last view shows', async () => {
    const workers = await Promise.all([1, 2, 3].map(startWorker));
    await bed.pass(5000);
    for (const worker of workers) worker.freeze();
    await bed.pass(125_000, 1000);
    const reader = await bed.follow({ isLasting: false });
    expect(reader.witness.keys).toEqual([]);
  });
});

describe('what a process has read of the leases itself', () => {
  it('is not undone by a view of before', async () => {
    const worker = await startWorker(1);
    const edges = [await bed.follow(), await bed.follow()];
    await bed.pass(5000);
    const [edge] = edges.filter(({ gathering }) => gathering.at(-1) !== true);
    for (let at = 2; at < 12; at++) {
      await worker.discovery.put(endpointAt(path(at)));
      const gone = endpointAt(path(at - 1));
      await worker.discovery.remove(gone);
      const listed = await edge?.discovery.list({ bucket: 'v1/instances', prefix: '' });
      expect(listed).toEqual([endpointAt(path(at))]);
      await bed.pass(1300);
    }
    const told = edge?.witness.events.map(({ kind, key }) => `${kind} ${key}`) ?? [];
    expect(new Set(told).size).toBe(told.length); // nothing came or went twice
  });
});

describe('when many come at once', () => {
  it('shows 1,000 workers that register within one second after a few more', async () => {
    const edges = [await bed.follow(), await bed.follow()];
    await bed.pass(3000);
    for (let at = 1; at <= 1000; at++) {
      const worker = bed.open();
      void worker.discovery.put(endpointAt(path(at)));
    }
    await bed.pass(6000);
    for (const { witness } of edges) expect(witness.present.size).toBe(1000);
    expect(gatherers(edges)).toHaveLength(1);
  });
});

describe('a process that is frozen between requests', () => {
  it('reads at most twice for a request, and nothing while its view is fresh', async () => {
    await Promise.all([1, 2, 3].map(startWorker));
    await bed.pass(3000);
    const reader = await bed.follow({ isLasting: false });
    const { counts } = reader.client;
    for (let at = 0; at < 20; at++) {
      const before = counts.reads;
      await reader.discovery.refresh(1000);
      await reader.discovery.refresh(1000);
      expect(counts.reads - before).toBeLessThanOrEqual(2);
      await bed.pass(5000);
      expect(counts.reads - before).toBeLessThanOrEqual(2); // no timer of its own
    }
    expect(counts.writes).toBe(0);
    expect(new Set(reader.sources.slice(1))).toEqual(new Set(['view']));
  });

  it('begins with the stored view if no process gathers, and reads the leases at most once a second', async () => {
    const worker = await startWorker(1);
    await bed.pass(3000);
    worker.freeze();
    await bed.pass(4000); // its lease lives, its view is too old
    const reader = await bed.follow({ isLasting: false });
    expect(reader.witness.keys).toEqual([path(1)]);
    const before = reader.client.counts.reads;
    for (let at = 0; at < 20; at++) {
      await reader.discovery.refresh(1);
      await bed.pass(50, 50);
    }
    const scans = reader.sources.filter((source) => source === 'leases').length;
    expect(scans).toBeLessThanOrEqual(3);
    expect(reader.client.counts.reads - before).toBeLessThanOrEqual(20 + 16 * 2);
    await bed.pass(15_000);
    await reader.discovery.refresh(1000);
    expect(reader.witness.keys).toEqual([]);
  });
});
