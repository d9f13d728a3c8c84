import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeLeadingRecord, decodeRecord, encodeRecord } from '../../../shared/planes/record-codec.ts';

// `__proto__` as a key is renamed by the msgpack reader and needs no care from ours.
const json = fc.jsonValue().filter((value) => !JSON.stringify(value).includes('__proto__'));

/** The value as JSON has it: no negative zero. */
function normal(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

describe('a record', () => {
  it('reads as it was written, anywhere in a buffer', () => {
    fc.assert(
      fc.property(json, fc.nat(20), fc.nat(20), (value, before, after) => {
        const record = encodeRecord(value);
        const bytes = Buffer.concat([Buffer.alloc(before, 0x7b), record, Buffer.alloc(after, 0x7b)]);
        expect(normal(decodeRecord(bytes, before, before + record.length))).toEqual(normal(value));
      }),
    );
  });

  it('leaves out undefined fields', () => {
    const bytes = Buffer.from(encodeRecord({ a: undefined, b: 1 }));
    expect(decodeRecord(bytes, 0, bytes.length)).toEqual({ b: 1 });
  });

  it('ends where its binary tail begins', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json), fc.uint8Array({ maxLength: 30 }), (value, rest) => {
        if ('__proto__' in value && Object.hasOwn(value, '__proto__')) return;
        const record = encodeRecord(value);
        const tail = rest.length === 0 ? rest : Uint8Array.of(0, ...rest); // a count below 2^24 begins with 0
        const bytes = Buffer.concat([Buffer.of(1), record, tail]);
        const leading = decodeLeadingRecord(bytes, 1, bytes.length);
        expect(normal(leading.value)).toEqual(normal(value));
        expect(leading.end).toBe(1 + record.length);
      }),
    );
  });

  it('is refused when it is cut, empty, or followed by more', () => {
    const record = encodeRecord({ a: [1, 2, 'three'] });
    const bytes = Buffer.concat([record, record]);
    for (let end = 0; end < record.length; end++) expect(() => decodeRecord(bytes, 0, end)).toThrow();
    expect(() => decodeRecord(bytes, 0, bytes.length)).toThrow();
    expect(() => decodeLeadingRecord(bytes, 3, 3)).toThrow();
  });

  it('of random bytes is a value or an error, and the next one is read as ever', () => {
    const good = Buffer.from(encodeRecord({ a: 1 }));
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 60 }), (bytes) => {
        for (const decode of [decodeRecord, decodeLeadingRecord]) {
          try {
            decode(Buffer.from(bytes), 0, bytes.length);
          } catch (error) {
            expect(error).toBeInstanceOf(Error);
          }
        }
        expect(decodeRecord(good, 0, good.length)).toEqual({ a: 1 });
      }),
      { numRuns: 2000 },
    );
  });
});

it('keeps bytes and 64-bit integers exact, and the bytes outlive the buffer', () => {
  const value = { bytes: Uint8Array.of(1, 2, 3), wide: 2n ** 64n - 1n, exact: 2 ** 53, small: -5n };
  const bytes = Buffer.from(encodeRecord(value));
  const read = decodeRecord(bytes, 0, bytes.length) as typeof value;
  bytes.fill(0);
  expect([...read.bytes]).toEqual([1, 2, 3]);
  expect(read.wide).toBe(2n ** 64n - 1n);
  expect([read.exact, read.small]).toEqual([2 ** 53, -5]);
});
