import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeRecord, encodeRecord } from '../../../shared/planes/record-codec.ts';
import { MsgpackReader } from '../../../shared/planes/sliced-record.ts';

/** Reads all of `bytes`, this many steps at a time. */
function readAll(bytes: Uint8Array, stepsOf: () => number = () => 10): unknown {
  const reader = new MsgpackReader(Buffer.from(bytes));
  while (!reader.read(stepsOf()));
  return reader.value;
}

const { value: records } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, false, 0, -1, 127, 128, -32, -33, 255, 65_536, 2 ** 32, 2 ** 53 - 1, -(2 ** 40)),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
    fc.string({ unit: 'grapheme', maxLength: 300 }),
    fc.string({ minLength: 40_000, maxLength: 70_000 }),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.integer({ min: 250, max: 800 }).map((length) => Buffer.alloc(length, length)),
    fc.array(tie('value'), { maxLength: 40 }),
    fc.dictionary(fc.oneof(fc.string(), fc.constant('__proto__')), tie('value'), { maxKeys: 40 }),
  ),
}));

describe('a reader of msgpack that pauses', () => {
  it('reads what the library reads, wherever it pauses', () => {
    fc.assert(
      fc.property(records, fc.infiniteStream(fc.integer({ min: 1, max: 50 })), (record, steps) => {
        const bytes = encodeRecord(record);
        expect(readAll(bytes, () => steps.next().value as number)).toEqual(
          decodeRecord(Buffer.from(bytes), 0, bytes.length),
        );
      }),
      { numRuns: 300 },
    );
  });

  it('reads floats of 32 bits, and every width of an integer', () => {
    const widths =
      'cb3ff8000000000000 ca3fc00000 cc05 cd0005 ce00000005 cf0000000000000005 d0fb d1fffb d2fffffffb d3fffffffffffffffb';
    const values = widths.split(' ').map((hex) => readAll(Buffer.from(hex, 'hex')));
    expect(values).toEqual([1.5, 1.5, 5, 5, 5, 5, -5, -5, -5, -5]);
  });

  it('pauses in the middle of long bytes, and copies them all', () => {
    const long = Buffer.from(Uint32Array.from({ length: 1 << 20 }, (_, at) => at).buffer);
    const reader = new MsgpackReader(Buffer.from(encodeRecord({ a: [long, 'b'] })));
    let pauses = 0;
    while (!reader.read(1000)) pauses++;
    expect(pauses).toBeGreaterThanOrEqual(16);
    const { a } = reader.value as { a: [Buffer, string] };
    expect([a[0].equals(long), a[1]]).toEqual([true, 'b']);
  });

  it('pauses about as often as it has values', () => {
    const bytes = encodeRecord(Array.from({ length: 10_000 }, (_, at) => ({ at })));
    const reader = new MsgpackReader(Buffer.from(bytes));
    let pauses = 0;
    while (!reader.read(1000)) pauses++;
    expect(pauses).toBeGreaterThan(20);
  });

  it.each([
    ['a list longer than its bytes', 'ddffffffff'],
    ['a map longer than its bytes', 'dfffffffff00'],
    ['a text longer than its bytes', 'dbffffffff41'],
    ['bytes longer than there are', 'c6ffffffff00'],
    ['a value that is not there', '92c0'],
    ['something behind the value', 'c0c0'],
    ['nothing', ''],
    ['an extension', 'd40100'],
    ['a type that there is not', 'c1'],
    ['a map whose key is a list', '8190c0'],
    ['a list of more than a million', `dd00200000${'c0'.repeat(0x200000)}`],
    ['a map of more than 131,072', `df00020001${'a161c0'.repeat(0x20001)}`],
    ['more than a million lists', `dd00000200${`dc1000${'90'.repeat(0x1000)}`.repeat(0x200)}`],
    ['lists in lists without end', '91'.repeat(1000)],
  ])('refuses %s', (_, hex) => {
    expect(() => readAll(Buffer.from(hex, 'hex'))).toThrow(RangeError);
  });

  it('copies bytes, or hands out views of what it reads where told so', () => {
    const bytes = Buffer.from('c403010203', 'hex');
    const [copy, view] = [false, true].map((views) => {
      const reader = new MsgpackReader(bytes, { views });
      while (!reader.read(10));
      return reader.value as Buffer;
    });
    bytes[2] = 9;
    expect([copy, view]).toEqual([Buffer.of(1, 2, 3), Buffer.of(9, 2, 3)]);
  });

  it('says where a value ends that other bytes follow', () => {
    const reader = new MsgpackReader(Buffer.from('92c001ffff', 'hex'), { leading: true });
    while (!reader.read(1));
    expect(reader).toMatchObject({ value: [null, 1], end: 3 });
  });

  it('answers any bytes with a value or a RangeError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        try {
          readAll(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
      { numRuns: 3000 },
    );
  });
});
