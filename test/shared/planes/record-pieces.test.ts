import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesOf, decodeRecord, encodePieces, encodeRecord } from '../../../shared/planes/record-codec.ts';

const LARGE = 64 << 10;

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.integer({ min: LARGE - 2, max: LARGE + 2 }).map((length) => new Uint8Array(length).fill(length)),
);
const { value: records } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    bytes,
    fc.constantFrom(null, true, 0, -33, 1.5, 2n ** 60n, undefined, new Date(1e12)),
    fc.string({ maxLength: 40 }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie('value'), { maxKeys: 4 }),
  ),
}));

function read(record: Uint8Array): unknown {
  return decodeRecord(Buffer.from(record), 0, record.length);
}

describe('a record in pieces', () => {
  it('reads as one that was packed whole', () => {
    fc.assert(
      fc.property(records, fc.boolean(), (record, isKept) => {
        const value = { before: 'a', record };
        const pieces = encodePieces(value, { isKept });
        const whole = encodeRecord(value);
        expect(bytesOf(pieces)).toBe(Buffer.concat(pieces).length);
        // Written once more: to compare large arrays element by element takes long.
        const [found, expected] = [Buffer.concat(pieces), whole].map((each) => encodeRecord(read(each)));
        expect(Buffer.compare(found!, expected!)).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  it.each([15, 16, 70_000])('has lists and maps of %i entries around what is large', (entries) => {
    const large = new Uint8Array(LARGE).fill(7);
    const list = [large, ...Array.from({ length: entries - 1 }, (_, at) => at)];
    const map = Object.fromEntries(list.map((each, at) => [`key ${at}`, each]));
    for (const value of [list, map]) {
      const pieces = encodePieces(value, { isKept: true });
      expect(pieces).toContain(large);
      expect(Buffer.concat(pieces).equals(encodeRecord(value))).toBe(true);
    }
  });

  it('has large byte strings as they are where they are kept, else what they were', () => {
    const large = new Uint8Array(LARGE).fill(1);
    const value = { tensors: [{ data: { values: large } }] };
    const kept = encodePieces(value, { isKept: true });
    const copied = encodePieces(value, { isKept: false });
    large.fill(2);
    expect(kept).toContain(large);
    expect(read(Buffer.concat(copied))).toEqual({ tensors: [{ data: { values: Buffer.alloc(LARGE, 1) } }] });
  });

  it('is whole where large byte strings come late, or are within what writes itself', () => {
    const large = new Uint8Array(LARGE);
    const late = { list: Array.from({ length: 1000 }, () => ({ a: 1 })), large };
    const written = { own: { large, toJSON: () => 'as text' } };
    for (const value of [late, written]) {
      const pieces = encodePieces(value, { isKept: true });
      expect(pieces).toHaveLength(1);
      expect(read(pieces[0]!)).toEqual(read(encodeRecord(value)));
    }
  });
});
