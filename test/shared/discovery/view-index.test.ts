import { createHash } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fleet, Member } from '../../../shared/discovery/dynamodb/fleet/members.ts';
import {
  cardSumsOf,
  packBlock,
  packRecord,
  type StoredRecord,
} from '../../../shared/discovery/dynamodb/fleet/record-bytes.ts';
import { CELLS_MAX } from '../../../shared/discovery/dynamodb/fleet/view-bytes.ts';
import {
  CARDS_MAX,
  type CardNames,
  indexOf,
  modelsAskedAs,
  packIndex,
  shows,
  unpackIndex,
} from '../../../shared/discovery/dynamodb/fleet/view-index.ts';
import { INDEX_CELL_KEY } from '../../../shared/discovery/dynamodb/schema.ts';
import { ViewReader } from '../../../shared/discovery/dynamodb/view-reader.ts';
import { ViewWriter } from '../../../shared/discovery/dynamodb/view-writer.ts';
import { type Table, TableTime } from '../../../shared/discovery/index.ts';
import { momentOf } from '../../../shared/discovery/table/table-time.ts';
import { MemoryTable } from '../../support/memory-table.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const { signal } = new AbortController();
const NO_CATALOGUE = new Uint8Array([0]);
const NONE = new Uint8Array();

const sumOfModel = (model: number): string => model.toString(16).padStart(32, '0');
const namesOf = (sum: string): CardNames => {
  const model = Number.parseInt(sum, 16);
  return { name: `model-${model}`, aliases: model % 3 === 0 ? [`alias-${model}`, 'shared'] : [] };
};

/** A process with these models; its record of an endpoint makes it as large as one that works. */
function memberOf(at: number, models: readonly number[], rev = 1): Member {
  const leaseId = (0x1000_0000 + at * 7_919_191).toString(16);
  const path = { namespace: 'n', component: 'c', endpoint: 'e', instance_id: leaseId };
  const records: StoredRecord[] = [
    { type: 'Endpoint', ...path, transport: { tcp: `10.0.${at >> 8}.${at & 255}:8800/${'x'.repeat(60)}${leaseId}` } },
    ...models.map((model) => ({
      type: 'Model' as const,
      ...path,
      model_suffix: `m${model}`,
      cardSum: sumOfModel(model),
      ownCard: '{}',
    })),
  ];
  return { leaseId, epoch: 1, rev, block: packBlock(records.map(packRecord)), load: new Uint8Array([1]) };
}

const fleetOf = (members: readonly Member[]): Fleet => new Map(members.map((member) => [member.leaseId, member]));
const modelsOf = ({ block }: Pick<Member, 'block'>): readonly string[] =>
  cardSumsOf(block).map((sum) => namesOf(sum).name);

describe('an index of the view', () => {
  const cells = fc.uniqueArray(fc.nat(CELLS_MAX - 1), { maxLength: 8 });
  const text = fc.string({ maxLength: 30, unit: 'grapheme' });
  const sum = fc.stringMatching(/^[0-9a-f]{32}$/);
  const card = fc.record({ sum, name: text, aliases: fc.array(text, { maxLength: 4 }), cells });

  it('comes back as it went in', () => {
    fc.assert(
      fc.property(fc.array(card, { maxLength: 20 }), cells, (cards, others) => {
        expect(unpackIndex(packIndex({ cards, others }) ?? NONE)).toEqual({ cards, others });
      }),
    );
  });

  it('that is malformed, or of a later version, is recognised and never throws', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
        unpackIndex(noise);
        unpackIndex(deflateRawSync(noise));
      }),
    );
    expect(unpackIndex(deflateRawSync(new Uint8Array([2, 0])))).toBeUndefined();
    expect(unpackIndex(deflateRawSync(new Uint8Array([1, 1, CELLS_MAX])))).toBeUndefined(); // a cell that cannot be
  });

  it('of too many cards is left out, and cards whose names are not known are', () => {
    const many = Array.from({ length: CARDS_MAX + 1 }, (_, at) => memberOf(at, [at]));
    expect(indexOf([many], [], namesOf)).toBeUndefined();
    expect(
      indexOf([[memberOf(1, [1, 2])]], [], (of) => (of === sumOfModel(1) ? namesOf(of) : undefined))?.cards,
    ).toEqual([{ sum: sumOfModel(1), ...namesOf(sumOfModel(1)), cells: [0] }]);
  });

  it('of names that an item cannot hold, or a reader take, is left out', () => {
    const cardsOf = (nameOf: (at: number) => string) =>
      Array.from({ length: CARDS_MAX }, (_, at) => ({
        sum: sumOfModel(at),
        name: nameOf(at),
        aliases: [],
        cells: [0],
      }));
    const noise = (at: number) => createHash('sha512').update(`${at}`).digest('base64');
    expect(packIndex({ cards: cardsOf(noise).slice(0, 2000), others: [] })?.length).toBeLessThan(400_000);
    expect(packIndex({ cards: cardsOf((at) => noise(at) + noise(-at)), others: [] })).toBeUndefined();
    expect(packIndex({ cards: cardsOf(() => 'n'.repeat(4200)), others: [] })).toBeUndefined();
  });

  it('says which models are meant by a name, an alias, and an alias of several', () => {
    const index = indexOf([[memberOf(1, [0, 1]), memberOf(2, [3])]], [sumOfModel(6)], namesOf);
    if (index === undefined) throw new Error('there is no index');
    expect([...modelsAskedAs(index, 'model-1')]).toEqual(['model-1']);
    expect([...modelsAskedAs(index, 'alias-3')]).toEqual(['model-3']);
    expect([...modelsAskedAs(index, 'shared')]).toEqual(['model-0', 'model-3', 'model-6']);
    expect([...modelsAskedAs(index, 'nobody')]).toEqual([]);
  });
});

/** Changes of the fleet between two readings. */
type Step =
  | { readonly kind: 'comes'; readonly count: number; readonly models: readonly number[] }
  | { readonly kind: 'goes'; readonly share: number }
  | { readonly kind: 'changes'; readonly share: number; readonly models: readonly number[] }
  | { readonly kind: 'gatherer' };

describe('a reader of some models', () => {
  const models = fc.uniqueArray(fc.nat(11), { maxLength: 3 });
  const share = fc.integer({ min: 2, max: 9 });
  const step = fc.oneof<fc.Arbitrary<Step>[]>(
    fc.record({ kind: fc.constant('comes' as const), count: fc.integer({ min: 1, max: 250 }), models }),
    fc.record({ kind: fc.constant('goes' as const), share }),
    fc.record({ kind: fc.constant('changes' as const), share, models }),
    fc.record({ kind: fc.constant('gatherer' as const) }),
  );

  it('knows exactly which workers serve them, whatever comes, goes or changes, and whichever process gathers', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 8 }),
        fc.uniqueArray(fc.nat(11), { maxLength: 2 }),
        async (steps, asked) => {
          const clock = new VirtualClock();
          const { table } = new MemoryTable(clock).connect();
          const open = (holder: string) =>
            new ViewWriter({ table, clock, time: new TableTime(clock), holder, ttlMs: 3000 });
          const [partial, whole] = [new ViewReader(table), new ViewReader(table)];
          const names = new Set(asked.map((model) => `model-${model}`));
          let writer = open('first');
          await writer.take(undefined, signal);
          let fleet: Member[] = [];
          let made = 0;
          for (const [at, now] of steps.entries()) {
            if (now.kind === 'comes')
              for (let one = 0; one < now.count; one++) fleet.push(memberOf(made++, now.models));
            if (now.kind === 'goes') fleet = fleet.filter((_, place) => place % now.share !== 0);
            if (now.kind === 'changes') {
              fleet = fleet.map((member, place) =>
                place % now.share !== 0
                  ? member
                  : { ...memberOf(0, now.models, member.rev + 1), leaseId: member.leaseId },
              );
            }
            if (now.kind === 'gatherer') {
              writer = open(`gatherer-${at}`);
              await writer.take(await whole.readHead(signal), signal);
            }
            await writer.write({ fleet: fleetOf(fleet), catalogue: NO_CATALOGUE, namesOf }, momentOf(clock), signal);
            const head = await partial.readHead(signal);
            if (head === undefined) throw new Error('there is no head');
            const reading = await partial.readCells(head, { models: names }, signal);
            expect(reading.isComplete).toBe(true);
            const { index } = partial;
            const isShown = index === undefined ? () => true : shows(index, names);
            const seen = [...(reading.fleet?.values() ?? [])].filter(isShown);
            const wanted = fleet.filter((member) => {
              const own = modelsOf(member);
              return own.length === 0 || own.some((name) => names.has(name));
            });
            const isPart = index !== undefined;
            const expected = isPart ? wanted : fleet;
            expect(seen.map(({ leaseId, rev }) => `${leaseId}/${rev}`).sort()).toEqual(
              expected.map(({ leaseId, rev }) => `${leaseId}/${rev}`).sort(),
            );
            const all = await whole.readCells(head, {}, signal);
            expect(all.fleet?.size).toBe(fleet.length);
          }
        },
      ),
      { numRuns: 60 },
    );
  }, 60_000);

  it('reads everything where the index cannot be read, and serves on from what it has where it comes too late', async () => {
    const clock = new VirtualClock();
    const { table } = new MemoryTable(clock).connect();
    const writer = new ViewWriter({ table, clock, time: new TableTime(clock), holder: 'w', ttlMs: 3000 });
    await writer.take(undefined, signal);
    const fleet = fleetOf(Array.from({ length: 600 }, (_, at) => memberOf(at, [at % 12])));
    await writer.write({ fleet, catalogue: NO_CATALOGUE, namesOf }, momentOf(clock), signal);
    const names = new Set(['model-3']);
    const early = new ViewReader(table);
    const read = async (reader: ViewReader) => {
      const head = await reader.readHead(signal);
      if (head === undefined) throw new Error('there is no head');
      return reader.readCells(head, { models: names }, signal);
    };
    const first = await read(early);
    expect(first.fleet?.size).toBeLessThan(300);
    await table.update(
      'SET body = :body',
      { key: INDEX_CELL_KEY, values: { ':body': new Uint8Array([1, 2, 3]) } },
      signal,
    );
    expect((await read(new ViewReader(table))).fleet?.size).toBe(600);
    expect((await read(early)).fleet?.size).toBe(first.fleet?.size);
    const next = new ViewWriter({ table, clock, time: new TableTime(clock), holder: 'n', ttlMs: 3000 });
    await next.take(await early.readHead(signal), signal);
    await next.write({ fleet, catalogue: NO_CATALOGUE, namesOf }, momentOf(clock), signal);
    await table.update('SET fence = :fence', { key: INDEX_CELL_KEY, values: { ':fence': 1 } }, signal);
    const late = await read(early);
    expect([late.fleet?.size, late.isComplete]).toEqual([first.fleet?.size, false]);
  });

  describe.each([
    [
      'whose next gatherer writes an index of a later version',
      async (table: Table) => {
        const values = { ':body': deflateRawSync(new Uint8Array([2])) };
        await table.update('SET body = :body', { key: INDEX_CELL_KEY, values }, signal);
      },
      600,
    ],
    ['whose next gatherer has too few processes for one', async () => {}, 10],
  ] as const)('of a fleet %s', (_name, change, size) => {
    it('reads everything from then on', async () => {
      const clock = new VirtualClock();
      const { table } = new MemoryTable(clock).connect();
      const reader = new ViewReader(table);
      const write = async (holder: string, count: number) => {
        const writer = new ViewWriter({ table, clock, time: new TableTime(clock), holder, ttlMs: 3000 });
        await writer.take(await reader.readHead(signal), signal);
        const fleet = fleetOf(Array.from({ length: count }, (_, at) => memberOf(at, [at % 12])));
        await writer.write({ fleet, catalogue: NO_CATALOGUE, namesOf }, momentOf(clock), signal);
      };
      const read = async () => {
        const head = await reader.readHead(signal);
        if (head === undefined) throw new Error('there is no head');
        return reader.readCells(head, { models: new Set(['model-3']) }, signal);
      };
      await write('first', 600);
      expect((await read()).fleet?.size).toBeLessThan(300);
      await write('next', size);
      await change(table);
      const reading = await read();
      expect([reading.fleet?.size, reading.isComplete]).toEqual([size, true]);
      expect(reader.index).toBeUndefined(); // or what is new would be unknown to it for good
    });
  });
});
