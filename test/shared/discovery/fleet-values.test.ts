import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinCard, splitCard, sumOf } from '../../../shared/discovery/dynamodb/fleet/cards.ts';
import {
  packBlock,
  packRecord,
  type StoredRecord,
  unpackBlock,
  unpackRecord,
} from '../../../shared/discovery/dynamodb/fleet/record-bytes.ts';
import {
  CELLS_MAX,
  cellOf,
  firstCellCount,
  type HeadBody,
  nextCellCount,
  packHead,
  packLoadCell,
  packRecordCell,
  unpackHead,
  unpackLoadCell,
  unpackRecordCell,
} from '../../../shared/discovery/dynamodb/fleet/view-bytes.ts';
import { packLoads, unpackLoads } from '../../../shared/discovery/loads.ts';
import { PackedReader, PackedWriter } from '../../../shared/discovery/packed.ts';
import type { RankLoad, WorkerLoad } from '../../../shared/discovery/types.ts';
import { modelAt } from '../../contract/discovery/records.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 });
const id = fc.stringMatching(/^[0-9a-f]{1,16}$/);
const bytes = fc.uint8Array({ maxLength: 300 });
const count = fc.nat(Number.MAX_SAFE_INTEGER);
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const compact = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T;

const at = { namespace: name, component: name, endpoint: name, instance_id: id };
const scope = fc.oneof(
  fc.record({ kind: fc.constant('namespace' as const), namespace: name }),
  fc.record({ kind: fc.constant('component' as const), namespace: name, component: name }),
  fc.record({ kind: fc.constant('endpoint' as const), namespace: name, component: name, endpoint: name }),
);
const transport = fc.oneof(
  fc.record({ kind: fc.constant('Zmq' as const), config: fc.record({ endpoint: text }) }),
  fc.record({ kind: fc.constant('Nats' as const), config: fc.record({ subject_prefix: text }) }),
  fc.record({ kind: fc.constant('Memory' as const), config: fc.constant({}) }),
);
const record: fc.Arbitrary<StoredRecord> = fc
  .oneof(
    fc.record({
      type: fc.constant('Endpoint' as const),
      ...at,
      transport: fc.tuple(name, name).map((entry) => Object.fromEntries([entry])),
      device_type: optional(name),
      later_field: optional(text),
    }),
    fc.record({
      type: fc.constant('Model' as const),
      ...at,
      model_suffix: optional(name),
      registered_at: optional(fc.integer({ min: 1, max: 2 ** 40 })),
      cardSum: name,
      ownCard: text,
    }),
    fc.record({
      type: fc.constant('EventChannel' as const),
      scope,
      topic: name,
      instance_id: id,
      transport,
      worker_id: optional(id),
    }),
  )
  .map((made) => compact(made) as StoredRecord);

describe('packed values', () => {
  it('come back as they went in, one after the other', () => {
    const value = fc.oneof(
      fc.record({ kind: fc.constant('count' as const), value: count }),
      fc.record({ kind: fc.constant('text' as const), value: text }),
      fc.record({ kind: fc.constant('hex' as const), value: fc.stringMatching(/^[0-9a-f]{0,32}$/) }),
      fc.record({ kind: fc.constant('bytes' as const), value: bytes }),
    );
    fc.assert(
      fc.property(fc.array(value, { maxLength: 30 }), (values) => {
        const writer = new PackedWriter(1);
        for (const one of values) {
          if (one.kind === 'count') writer.count(one.value);
          else if (one.kind === 'bytes') writer.bytes(one.value);
          else writer[one.kind](one.value);
        }
        const reader = new PackedReader(writer.finish());
        const read = values.map(({ kind }) => (kind === 'bytes' ? new Uint8Array(reader.bytes()) : reader[kind]()));
        expect(read).toEqual(values.map((one) => one.value));
        expect(reader.isAtEnd).toBe(true);
      }),
    );
  });

  it('end with an error where bytes are missing, a number is too large or a length lies', () => {
    const one = (value: number): PackedReader => {
      const writer = new PackedWriter();
      writer.count(value);
      return new PackedReader(writer.finish());
    };
    expect(() => one(1000).count(999)).toThrow('1000 at byte 2 is over 999');
    expect(() => one(5).text()).toThrow('ends after 1 bytes');
    expect(() => new PackedReader(new Uint8Array(20).fill(0xff)).count()).toThrow('is over');
    expect(() => new PackedReader(new Uint8Array()).byte()).toThrow('ends after 0 bytes');
  });
});

describe('packed records', () => {
  it('come back as they went in, also with fields of a later version', () => {
    fc.assert(
      fc.property(record, (one) => {
        expect(unpackRecord(packRecord(one))).toEqual(one);
      }),
    );
  });

  it('that are malformed or damaged are recognised and never throw', () => {
    fc.assert(fc.property(bytes, (noise) => void unpackRecord(noise)));
    fc.assert(
      fc.property(record, fc.nat(), (one, cut) => {
        const packed = packRecord(one);
        expect(unpackRecord(packed.subarray(0, cut % packed.length))).toBeUndefined();
      }),
    );
  });

  it('refuse an invalid id', () => {
    const bad = { type: 'Endpoint', namespace: 'n', component: 'c', endpoint: 'e', transport: { tcp: 'a' } } as const;
    for (const instance_id of ['', 'G', '0'.repeat(17)]) {
      expect(() => packRecord({ ...bad, instance_id })).toThrow('allowed are 1 to 16 lower-case hex digits');
    }
  });

  it('of one process stand in one block, and what follows a damage is left out', () => {
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 10 }), fc.nat(), (records, cut) => {
        const block = packBlock(records);
        expect(unpackBlock(block).map((one) => new Uint8Array(one))).toEqual(records);
        const part = unpackBlock(block.subarray(0, cut % (block.length + 1)));
        expect(part.map((one) => new Uint8Array(one))).toEqual(records.slice(0, part.length));
      }),
    );
  });
});

describe('a card', () => {
  it('is put together again from what all workers share and what is its own', () => {
    const { card } = modelAt('ns/c/e/1');
    const runtime_config = { ...card.runtime_config, taints: ['a'], tool_call_parser: 'hermes', data_parallel_size: 4 };
    const full = { ...card, runtime_config, later_field: { x: 1 } };
    const { shared, own, sum } = splitCard(full);
    expect(joinCard(shared, own)).toEqual(full);
    expect(sum).toBe(sumOf(shared));
    expect(JSON.parse(own)).toEqual({ total_kv_blocks: 1024, data_parallel_size: 4, taints: ['a'] });
    expect(splitCard({ ...full, runtime_config: { ...runtime_config, total_kv_blocks: 5 } }).sum).toBe(sum);
    expect(splitCard({ ...full, runtime_config: { ...runtime_config, tool_call_parser: 'pythonic' } }).sum).not.toBe(
      sum,
    );
  });
});

describe('cells', () => {
  const member = fc.record({ leaseId: id, epoch: count, rev: count, block: bytes });

  it('come back as they went in', () => {
    fc.assert(
      fc.property(fc.array(member, { maxLength: 20 }), (members) => {
        const read = unpackRecordCell(packRecordCell(members)) ?? [];
        expect(read.map((one) => ({ ...one, block: new Uint8Array(one.block) }))).toEqual(members);
        const loads = new Map(members.map(({ leaseId, block }) => [leaseId, block]));
        const packed = packLoadCell([...loads].map(([leaseId, load]) => ({ leaseId, load })));
        const told = [...(unpackLoadCell(packed) ?? [])].map(([leaseId, load]) => [leaseId, new Uint8Array(load)]);
        expect(told).toEqual([...loads].filter(([, load]) => load.length > 0));
      }),
    );
  });

  it('that are malformed are recognised and never throw', () => {
    fc.assert(
      fc.property(bytes, (noise) => {
        unpackRecordCell(noise);
        unpackLoadCell(noise);
        unpackHead(noise);
        unpackLoads(noise);
      }),
    );
    expect(unpackRecordCell(new Uint8Array([1, 2, 3]))).toBeUndefined();
    expect(unpackLoadCell(new Uint8Array([1, 200, 3]))).toBeUndefined();
  });

  it('share the fleet about evenly, and twice as many halve each', () => {
    const leases = Array.from({ length: 10_000 }, (_, at) => (0x1a2b3c4d5 + at * 7_919_191).toString(16));
    for (const cells of [2, 8, CELLS_MAX]) {
      const sizes = new Array<number>(cells).fill(0);
      for (const lease of leases) {
        const cell = cellOf(lease, cells);
        sizes[cell] = (sizes[cell] ?? 0) + 1;
        expect(cellOf(lease, 2 * cells) % cells).toBe(cell);
      }
      expect(Math.max(...sizes)).toBeLessThan((1.5 * leases.length) / cells);
      expect(Math.min(...sizes)).toBeGreaterThan((0.5 * leases.length) / cells);
    }
  });

  it('change their number by halves and doubles, only when nearly full or empty, and never go to and fro', () => {
    const KB = 1024;
    expect(nextCellCount(1, 5 * KB)).toBe(1);
    expect(nextCellCount(1, 7 * KB)).toBe(2);
    expect(nextCellCount(2, 7 * KB)).toBe(2);
    expect(nextCellCount(2, 2 * KB)).toBe(1);
    expect(nextCellCount(1, 0)).toBe(1);
    expect(nextCellCount(CELLS_MAX, 4096 * KB)).toBe(CELLS_MAX);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 6 }), fc.nat(2_000_000), (power, size) => {
        const now = nextCellCount(2 ** power, size);
        const next = nextCellCount(now, size);
        expect(now > 2 ** power ? next >= now : next <= now).toBe(true);
        expect(nextCellCount(firstCellCount(size, false), size)).toBe(firstCellCount(size, false));
      }),
    );
  });
});

describe('the head', () => {
  it('comes back as it went in, and stays below a kilobyte with every cell there can be', () => {
    const round = fc.integer({ min: 1, max: 2 ** 31 });
    fc.assert(
      fc.property(round, fc.nat(100_000), fc.nat(6), fc.nat(6), fc.nat(), (now, leases, some, others, salt) => {
        const versions = (power: number): number[] =>
          Array.from({ length: 2 ** power }, (_, cell) => Math.max(1, now - ((salt + cell * 7919) % 100_000)));
        const body: HeadBody = {
          round: now,
          leases,
          records: versions(some),
          loads: versions(others),
          catalogue: now % 2 ? now : 0,
          index: now % 3 ? Math.max(1, now - (salt % 1000)) : 0,
        };
        const packed = packHead(body);
        expect(unpackHead(packed)).toEqual(body);
        const before = packed.subarray(
          0,
          packed.length -
            Buffer.from(packed)
              .reverse()
              .findIndex((byte, at) => at > 0 && byte < 0x80),
        );
        expect(unpackHead(before)).toEqual({ ...body, index: 0 }); // as a gatherer wrote it that knew of no index
        expect(packed.length).toBeLessThan(900);
      }),
    );
  });
});

describe('loads', () => {
  const rank = fc.record<RankLoad>({
    dpRank: fc.nat(1023),
    requests: count,
    decodeBlocks: count,
    prefillTokens: count,
  });
  const load = fc.record<WorkerLoad>({ ranks: fc.array(rank, { maxLength: 16 }), isDraining: fc.boolean() });

  it('come back as they went in', () => {
    fc.assert(
      fc.property(fc.dictionary(id, load), (workers) => {
        const read = unpackLoads(packLoads(new Map(Object.entries(workers))));
        expect(Object.fromEntries(read ?? [])).toEqual(workers);
      }),
    );
  });

  it('of sixteen busy ranks take less than 700 bytes', () => {
    const ranks = Array.from({ length: 16 }, (_, dpRank) => ({
      dpRank,
      requests: 1024,
      decodeBlocks: 2 ** 30,
      prefillTokens: 2 ** 34,
    }));
    expect(packLoads(new Map([['1f3a5b7c9d0e2f4a', { ranks, isDraining: false }]])).length).toBeLessThan(300);
  });
});
