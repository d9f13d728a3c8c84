import { beforeEach, describe, expect, it } from 'vitest';
import type { Fleet, Member } from '../../../shared/discovery/dynamodb/fleet/members.ts';
import { cellItemKey } from '../../../shared/discovery/dynamodb/schema.ts';
import { HeadWatch } from '../../../shared/discovery/dynamodb/view-head.ts';
import { ViewReader } from '../../../shared/discovery/dynamodb/view-reader.ts';
import { FenceLost, ViewWriter } from '../../../shared/discovery/dynamodb/view-writer.ts';
import { type Item, type ItemKey, type Table, TableTime } from '../../../shared/discovery/index.ts';
import { momentOf } from '../../../shared/discovery/table/table-time.ts';
import { MemoryTable, type MemoryTableClient } from '../../support/memory-table.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TTL_MS = 3000;
const { signal } = new AbortController();
const EMPTY = new Uint8Array([0]);

let clock: VirtualClock;
let store: MemoryTable;
beforeEach(() => {
  clock = new VirtualClock();
  store = new MemoryTable(clock);
});

function connect(holder: string): { client: MemoryTableClient; writer: ViewWriter; reader: ViewReader } {
  const client = store.connect();
  const { table } = client;
  const writer = new ViewWriter({ table, clock, time: new TableTime(clock), holder, ttlMs: TTL_MS });
  return { client, writer, reader: new ViewReader(table) };
}

/** A fleet of `size` processes; `load` is what each of them carries. */
function fleetOf(size: number, load = 1, rev = 1): Fleet {
  const members = Array.from({ length: size }, (_, at): Member => {
    const leaseId = (0x1000_0000_0000 + at * 7_919_191).toString(16);
    return { leaseId, epoch: 1, rev, block: Buffer.from(`records of ${leaseId}`), load: new Uint8Array([load]) };
  });
  return new Map(members.map((member) => [member.leaseId, member]));
}

async function read(reader: ViewReader, shardKey?: string) {
  const head = await reader.readHead(signal);
  if (head === undefined) throw new Error('there is no head');
  return reader.readCells(head, { shardKey }, signal);
}

const asPlain = (fleet: Fleet | undefined) =>
  [...(fleet?.values() ?? [])]
    .map(({ leaseId, rev, block, load }) => [leaseId, rev, Buffer.from(block).toString(), [...load]])
    .sort();

describe('the view in the table', () => {
  it.each([0, 1, 10, 1000, 10_000])('of %d processes is read as it was written', async (size) => {
    const [{ writer }, { reader }] = [connect('w'), connect('r')];
    await writer.take(undefined, signal);
    for (const load of [1, 2]) {
      await writer.write({ fleet: fleetOf(size, load), catalogue: EMPTY }, momentOf(clock), signal);
      expect(asPlain((await read(reader)).fleet)).toEqual(asPlain(fleetOf(size, load)));
    }
  });

  it('costs a write for each cell that changed, and one for the head', async () => {
    const { client, writer } = connect('w');
    await writer.take(undefined, signal);
    await writer.write({ fleet: fleetOf(10), catalogue: EMPTY }, momentOf(clock), signal);
    const before = client.counts.writes;
    await writer.write({ fleet: fleetOf(10), catalogue: EMPTY }, momentOf(clock), signal);
    expect(client.counts.writes - before).toBe(1);
    await writer.write({ fleet: fleetOf(10, 2), catalogue: EMPTY }, momentOf(clock), signal);
    expect(client.counts.writes - before).toBe(3);
    await writer.write({ fleet: fleetOf(10, 2, 2), catalogue: EMPTY }, momentOf(clock), signal);
    expect(client.counts.writes - before).toBe(5);
  });

  it('grows and shrinks by halves and doubles with the fleet, under readers that follow', async () => {
    const [{ writer }, { reader }] = [connect('w'), connect('r')];
    await writer.take(undefined, signal);
    const counts = new Set<number>();
    for (const size of [10, 4000, 4000, 4000, 4000, 4000, 8, 8, 8, 8, 8, 8, 8]) {
      await writer.write({ fleet: fleetOf(size), catalogue: EMPTY }, momentOf(clock), signal);
      counts.add((await reader.readHead(signal))?.body?.loads.length ?? 0);
      expect((await read(reader)).fleet?.size).toBe(size);
    }
    expect(counts.size).toBeGreaterThan(3);
  });

  it('gives the catalogue once, and again when it changed', async () => {
    const [{ writer }, { reader }] = [connect('w'), connect('r')];
    await writer.take(undefined, signal);
    await writer.write({ fleet: fleetOf(1), catalogue: new Uint8Array([1]) }, momentOf(clock), signal);
    expect([...((await read(reader)).catalogue ?? [])]).toEqual([1]);
    await writer.write({ fleet: fleetOf(1), catalogue: new Uint8Array([1]) }, momentOf(clock), signal);
    expect((await read(reader)).catalogue).toBeUndefined();
    await writer.write({ fleet: fleetOf(1), catalogue: new Uint8Array([2]) }, momentOf(clock), signal);
    expect([...((await read(reader)).catalogue ?? [])]).toEqual([2]);
  });

  it('is not read from cells of another time: a replica may lag behind the head, or be ahead of it', async () => {
    const [{ writer }, { client }] = [connect('w'), connect('r')];
    const { table } = client;
    let lagging: readonly Item[] | undefined;
    const reader = new ViewReader({
      get: table.get.bind(table),
      batchGet: async (keys: readonly ItemKey[], asked: AbortSignal) => lagging ?? (await table.batchGet(keys, asked)),
    } as unknown as Table);
    await writer.take(undefined, signal);
    const snapshot = (): Promise<readonly Item[]> => {
      const kinds = ['records', 'loads'] as const;
      return table.batchGet(
        kinds.flatMap((kind) => [0, 1].map((cell) => cellItemKey(kind, cell))),
        signal,
      );
    };
    await writer.write({ fleet: fleetOf(10, 1), catalogue: EMPTY }, momentOf(clock), signal);
    expect(asPlain((await read(reader)).fleet)).toEqual(asPlain(fleetOf(10, 1)));
    lagging = await snapshot();
    await writer.write({ fleet: fleetOf(10, 2, 2), catalogue: EMPTY }, momentOf(clock), signal);
    expect(asPlain((await read(reader)).fleet)).toEqual(asPlain(fleetOf(10, 1))); // an older version
    const oldest = lagging;
    lagging = undefined;
    expect(asPlain((await read(reader)).fleet)).toEqual(asPlain(fleetOf(10, 2, 2)));
    await writer.write({ fleet: fleetOf(10, 3, 3), catalogue: EMPTY }, momentOf(clock), signal);
    lagging = oldest;
    expect(asPlain((await read(reader)).fleet)).toEqual(asPlain(fleetOf(10, 2, 2))); // older than what it had
    lagging = undefined;

    const other = connect('other').writer;
    lagging = await snapshot();
    await other.take(await reader.readHead(signal), signal);
    await other.write({ fleet: fleetOf(8, 3), catalogue: EMPTY }, momentOf(clock), signal);
    expect((await read(reader)).fleet?.size).toBe(10); // of a gatherer before, though of a later round
    lagging = undefined;
    expect((await read(reader)).fleet?.size).toBe(8);

    const before = await reader.readHead(signal);
    for (let round = 0; round < 4; round++)
      await other.write({ fleet: fleetOf(1000), catalogue: EMPTY }, momentOf(clock), signal);
    if (before === undefined) throw new Error('there was no head');
    // The cells of the next head, read by one that has the head from before: there are more of them.
    const wantsAll = { ...before, body: before.body && { ...before.body, round: 9, records: [2], loads: [2] } };
    expect((await reader.readCells(wantsAll, {}, signal)).fleet?.size).toBe(8);
    expect((await read(reader)).fleet?.size).toBe(1000);
  });

  it('of thousands is read with the loads of one shard alone by who names it, in two requests', async () => {
    const [{ writer }, { client, reader }] = [connect('w'), connect('r')];
    await writer.take(undefined, signal);
    await writer.write({ fleet: fleetOf(10_000, 1), catalogue: EMPTY }, momentOf(clock), signal);
    await read(reader, 'a conversation');
    await writer.write({ fleet: fleetOf(10_000, 2), catalogue: EMPTY }, momentOf(clock), signal);
    const before = client.counts.reads;
    const { fleet, isSharded } = await read(reader, 'a conversation');
    expect(client.counts.reads - before).toBe(2);
    const known = [...(fleet?.values() ?? [])].filter(({ load }) => load.length > 0);
    expect([fleet?.size, isSharded]).toEqual([10_000, true]);
    expect(known.length).toBeGreaterThan(50);
    expect(known.length).toBeLessThan(1000);
    expect(new Set(known.map(({ load }) => load[0]))).toEqual(new Set([2]));
  });
});

describe('who writes the view', () => {
  it('is refused every write once another one has taken its place', async () => {
    const [old, next, reader] = [connect('old'), connect('next'), connect('r').reader];
    await old.writer.take(undefined, signal);
    await old.writer.write({ fleet: fleetOf(100), catalogue: EMPTY }, momentOf(clock), signal);
    expect(await next.writer.take(await reader.readHead(signal), signal)).toBe(true);
    await next.writer.write({ fleet: fleetOf(50), catalogue: EMPTY }, momentOf(clock), signal);
    await expect(
      old.writer.write({ fleet: fleetOf(100, 9), catalogue: EMPTY }, momentOf(clock), signal),
    ).rejects.toThrow(FenceLost);
    expect(old.writer.isHolder).toBe(false);
    const { counts } = old.client;
    const before = counts.writes;
    await expect(
      old.writer.write({ fleet: fleetOf(100, 9), catalogue: EMPTY }, momentOf(clock), signal),
    ).rejects.toThrow(FenceLost);
    expect(counts.writes).toBe(before);
    expect(asPlain((await read(reader)).fleet)).toEqual(asPlain(fleetOf(50)));
  });

  it('is refused the head alone as well, where no cell has changed', async () => {
    const [old, next, reader] = [connect('old'), connect('next'), connect('r').reader];
    await old.writer.take(undefined, signal);
    await old.writer.write({ fleet: fleetOf(1), catalogue: EMPTY }, momentOf(clock), signal);
    await next.writer.take(await reader.readHead(signal), signal);
    await expect(old.writer.write({ fleet: fleetOf(1), catalogue: EMPTY }, momentOf(clock), signal)).rejects.toThrow(
      'another process writes it',
    );
    expect((await reader.readHead(signal))?.holder).toBe('next');
  });

  it('writes nothing of a reading that took longer than it holds the head', async () => {
    const { client, writer } = connect('w');
    await writer.take(undefined, signal);
    const began = momentOf(clock);
    await clock.advance(TTL_MS + 1);
    const before = client.counts.writes;
    await expect(writer.write({ fleet: fleetOf(1), catalogue: EMPTY }, began, signal)).rejects.toThrow(
      'the reading took too long',
    );
    expect(client.counts.writes).toBe(before);
  });

  it('is one of all who try at the same time', async () => {
    const all = Array.from({ length: 20 }, (_, at) => connect(`p${at}`).writer);
    expect((await Promise.all(all.map((writer) => writer.take(undefined, signal)))).filter(Boolean)).toHaveLength(1);
    const head = await connect('r').reader.readHead(signal);
    expect((await Promise.all(all.map((writer) => writer.take(head, signal)))).filter(Boolean)).toHaveLength(1);
    expect((await connect('r').reader.readHead(signal))?.fence).toBe(2);
  });

  it('cannot be replaced by one that saw the head before its last write', async () => {
    const [holder, rival] = [connect('holder'), connect('rival')];
    await holder.writer.take(undefined, signal);
    await holder.writer.write({ fleet: fleetOf(1), catalogue: EMPTY }, momentOf(clock), signal);
    const seen = await rival.reader.readHead(signal);
    await clock.advance(1000);
    await holder.writer.write({ fleet: fleetOf(1), catalogue: EMPTY }, momentOf(clock), signal);
    expect(await rival.writer.take(seen, signal)).toBe(false);
  });
});

describe('a head', () => {
  const head = { fence: 1, holder: 'h', writtenAtMs: 0, takenAtMs: 0, bodyFence: 1 };
  const body = { round: 1, leases: 1, records: [1], loads: [1], catalogue: 0, index: 0 };
  /** As written `agoMs` before now. */
  const written = (agoMs: number) => ({ ...head, body, writtenAtMs: clock.wallMs() - agoMs });
  const watch = () => new HeadWatch(clock, new TableTime(clock), TTL_MS);

  it('that was just met is fresh for one time to live and taken after three, by table time', () => {
    expect(watch().observe(written(3000))).toEqual({ isFresh: true, isTakeable: false });
    expect(watch().observe(written(3001))).toEqual({ isFresh: false, isTakeable: false });
    expect(watch().observe(written(9000))).toEqual({ isFresh: false, isTakeable: false });
    expect(watch().observe(written(9001))).toEqual({ isFresh: false, isTakeable: true });
  });

  it('that was seen to change is judged by the own clock, whatever the table says', async () => {
    const one = watch();
    one.observe(written(50_000));
    await clock.advance(1000);
    const next = written(40_000);
    expect(one.observe(next).isFresh).toBe(true);
    await clock.advance(3000);
    expect(one.observe(next)).toMatchObject({ isFresh: true });
    await clock.advance(1);
    expect(one.observe({ ...next })).toEqual({ isFresh: false, isTakeable: true });
  });

  it('that was looked at long ago counts as just met', async () => {
    const one = watch();
    one.observe(written(0));
    await clock.advance(60_000);
    expect(one.observe(written(3001))).toEqual({ isFresh: false, isTakeable: false });
  });

  it('that was given up is taken at once, and its view used until then', () => {
    expect(watch().observe({ ...written(0), holder: '' })).toEqual({ isFresh: true, isTakeable: true });
  });

  it('that was just taken is not taken again, though its view is old', () => {
    const taken = { ...written(60_000), fence: 2, takenAtMs: clock.wallMs() };
    expect(watch().observe(taken)).toEqual({ isFresh: false, isTakeable: false });
  });

  it('without a view is never fresh', () => {
    expect(watch().observe({ ...written(0), body: undefined }).isFresh).toBe(false);
  });
});
