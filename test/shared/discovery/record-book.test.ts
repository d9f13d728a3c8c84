import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CardShelf, splitCard } from '../../../shared/discovery/dynamodb/fleet/cards.ts';
import { type Fleet, type Member, ReadingMerge } from '../../../shared/discovery/dynamodb/fleet/members.ts';
import { RecordBook } from '../../../shared/discovery/dynamodb/fleet/record-book.ts';
import { packBlock, packRecord } from '../../../shared/discovery/dynamodb/fleet/record-bytes.ts';
import { endpointAt, modelAt } from '../../contract/discovery/records.ts';

const NO_LOAD = new Uint8Array();

function memberOf(leaseId: string, records: readonly Uint8Array[], rev = 1, epoch = 1): Member {
  return { leaseId, epoch, rev, block: packBlock(records), load: NO_LOAD };
}

const fleetOf = (...members: readonly Member[]): Fleet => new Map(members.map((one) => [one.leaseId, one]));

describe('the book of records', () => {
  it('tells the same changes as a plain map of what the fleet holds', () => {
    const held = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.nat(2), { maxKeys: 4 });
    const fleets = fc.array(fc.dictionary(fc.constantFrom('1', '2', '3'), held), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fleets, (steps) => {
        const book = new RecordBook(new CardShelf());
        const known = new Map<string, string>();
        for (const step of steps) {
          // Each process has ids of its own, as instance ids are.
          const members = Object.entries(step).map(([lease, ports]) =>
            memberOf(
              lease,
              Object.entries(ports).map(([id, port]) => packRecord(endpointAt(`ns/p${lease}/e/${id}`, `h:${port}`))),
            ),
          );
          for (const { key, record } of book.show(fleetOf(...members))) {
            if (record === undefined) expect(known.delete(key)).toBe(true);
            else known.set(key, JSON.stringify(record));
          }
          const expected = Object.entries(step).flatMap(([lease, ports]) =>
            Object.entries(ports).map(([id, port]) => JSON.stringify(endpointAt(`ns/p${lease}/e/${id}`, `h:${port}`))),
          );
          expect([...known.values()].sort()).toEqual(expected.sort());
          expect(
            book
              .under('v1/instances', '')
              .map(({ record }) => JSON.stringify(record))
              .sort(),
          ).toEqual(expected);
        }
      }),
    );
  });

  it('tells nothing when the same fleet is shown again, be it from other bytes', () => {
    const book = new RecordBook(new CardShelf());
    const records = [packRecord(endpointAt('ns/c/e/1'))];
    expect(book.show(fleetOf(memberOf('a', records)))).toHaveLength(1);
    expect(book.show(fleetOf(memberOf('a', records, 2)))).toEqual([]);
  });

  it('shows the later of two processes that hold a key, and the other one when that leaves', () => {
    const book = new RecordBook(new CardShelf());
    const one = memberOf('a', [packRecord(endpointAt('ns/c/e/1', 'one:1'))]);
    const two = memberOf('b', [packRecord(endpointAt('ns/c/e/1', 'two:2'))]);
    book.show(fleetOf(one));
    expect(book.show(fleetOf(one, two))).toMatchObject([{ record: endpointAt('ns/c/e/1', 'two:2') }]);
    expect(book.show(fleetOf(two))).toEqual([]);
    expect(book.show(fleetOf(one, two))).toMatchObject([{ record: endpointAt('ns/c/e/1', 'one:1') }]);
    expect(book.show(fleetOf(two))).toMatchObject([{ record: endpointAt('ns/c/e/1', 'two:2') }]);
  });

  it('leaves a model out until its card is there, and gives workers with equal cards one object', () => {
    const shelf = new CardShelf();
    const book = new RecordBook(shelf);
    const { shared, sum, own } = splitCard(modelAt('ns/c/e/1').card);
    const fleet = fleetOf(
      ...['1', '2'].map((id) => {
        const { card: _, ...rest } = modelAt(`ns/c/e/${id}`);
        return memberOf(id, [
          packRecord({ ...rest, cardSum: sum, ownCard: own }),
          packRecord(endpointAt(`ns/c/e/${id}`)),
        ]);
      }),
    );
    expect([...book.missingCards(fleet)]).toEqual([sum]);
    expect(book.show(fleet).map(({ bucket }) => bucket)).toEqual(['v1/instances', 'v1/instances']);
    shelf.put(sum, `${shared} `); // not what the sum says
    expect([...book.missingCards(fleet)]).toEqual([sum]);
    shelf.put(sum, shared);
    expect([...book.missingCards(fleet)]).toEqual([]);
    const models = book.show(fleet).flatMap(({ record }) => (record?.type === 'Model' ? [record] : []));
    expect(models).toEqual([modelAt('ns/c/e/1'), modelAt('ns/c/e/2')]);
    expect(models[0]?.card).toBe(models[1]?.card);
  });

  it('counts what it cannot read, and shows the rest', () => {
    const book = new RecordBook(new CardShelf());
    const noise = new Uint8Array([9, 9, 9]);
    expect(book.show(fleetOf(memberOf('a', [noise, packRecord(endpointAt('ns/c/e/1'))])))).toHaveLength(1);
    expect(book.unreadable).toBe(1);
  });
});

describe('own readings and views', () => {
  const a = (rev: number, epoch = 1): Member => memberOf('a', [], rev, epoch);
  const b = memberOf('b', []);

  it('a view of before brings nothing back and takes nothing away, for as long as it may be of before', () => {
    const merge = new ReadingMerge(4000);
    merge.read(fleetOf(a(2)), fleetOf(b), 0); // b has gone
    expect([...merge.with(fleetOf(b), 100).keys()]).toEqual(['a']);
    expect([...merge.with(fleetOf(a(1), b), 3999).values()]).toMatchObject([{ leaseId: 'a', rev: 2 }]);
    expect([...merge.with(fleetOf(b), 4000).keys()]).toEqual(['b']);
  });

  it('a view of after counts', () => {
    const merge = new ReadingMerge(4000);
    merge.read(fleetOf(a(2)), fleetOf(a(1), b), 0);
    const back = memberOf('b', [], 1, 2);
    expect([...merge.with(fleetOf(a(3), back, memberOf('c', [])), 100).values()]).toMatchObject([
      { leaseId: 'a', rev: 3 },
      { leaseId: 'b', epoch: 2 },
      { leaseId: 'c' },
    ]);
  });

  it("the load is always the view's", () => {
    const merge = new ReadingMerge(4000);
    merge.read(fleetOf(a(2)), new Map(), 0);
    const load = new Uint8Array([7]);
    expect(merge.with(fleetOf({ ...a(1), load }), 100).get('a')).toMatchObject({ rev: 2, load });
  });
});
