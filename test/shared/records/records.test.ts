import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asRecord, asU64, asWholeNumber, isRecord, RecordReader, u64OfHex } from '../../../shared/records/index.ts';

const read = new RecordReader((what) => new RangeError(what));

describe('values of others', () => {
  it.each([null, undefined, [], 'text', 1, true])('takes %j for no record', (value) => {
    expect(isRecord(value)).toBe(false);
    expect(asRecord(value)).toBeUndefined();
  });

  it('gives a record as it is', () => {
    const value = { field: 1 };
    expect(asRecord(value)).toBe(value);
  });

  it('reads a whole number that is a number or an exact bigint, up to its bound', () => {
    expect(asWholeNumber(0)).toBe(0);
    expect(asWholeNumber(2 ** 53 - 1)).toBe(2 ** 53 - 1);
    expect(asWholeNumber(7n)).toBe(7);
    expect(asWholeNumber(255, 255)).toBe(255);
    for (const none of [-1, 0.5, 2 ** 53, 2n ** 53n, -1n, Number.NaN, '7', null, undefined, [7]]) {
      expect(asWholeNumber(none)).toBeUndefined();
    }
    expect(asWholeNumber(256, 255)).toBeUndefined();
  });

  it('reads every u64 of text and bigint exactly', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (exact) => {
        expect(asU64(exact)).toBe(exact);
        expect(asU64(exact.toString())).toBe(exact);
        expect(u64OfHex(exact.toString(16))).toBe(exact);
      }),
    );
  });

  it('takes what is beyond u64, signed, rounded or no decimal text for no u64', () => {
    for (const none of [
      2n ** 64n,
      -1n,
      '18446744073709551616',
      '-1',
      '0x1',
      '',
      ' 1',
      '1e3',
      2 ** 53,
      -1,
      0.5,
      null,
      {},
    ]) {
      expect(asU64(none)).toBeUndefined();
    }
  });
});

describe('RecordReader', () => {
  it('names field, what it may hold and what it holds in the error of its caller', () => {
    expect(() => read.wholeNumber(-1, 'position')).toThrow(
      new RangeError('position must be a whole number, but is -1'),
    );
    expect(() => read.record([1, 2], 'message')).toThrow('message must be a record, but is a list of 2');
    expect(() => read.text(undefined, 'model')).toThrow('model must be a text, but is missing');
    expect(() => read.text(null, 'model')).toThrow('model must be a text, but is null');
    expect(() => read.list({}, 'hits')).toThrow('hits must be a list, but is an object');
    expect(() => read.texts(['a', 1], 'excluded')).toThrow('excluded must be a list of texts, but is a list of 2');
    expect(() => read.u64(2 ** 60, 'worker_id')).toThrow('worker_id must be an exact u64, but is 1152921504606847000');
  });

  it('holds lists and texts to their bounds', () => {
    expect(read.text('abc', 'id', 3)).toBe('abc');
    expect(() => read.text('abcd', 'id', 3)).toThrow('id must be a text of at most 3 characters, but is "abcd"');
    expect(read.list([1, 2], 'ids', 2)).toEqual([1, 2]);
    expect(() => read.list([1, 2, 3], 'ids', 2)).toThrow('ids must be a list of at most 2, but is a list of 3');
  });

  it('shows the start of a long text and no more', () => {
    expect(() => read.wholeNumber('x'.repeat(1_000_000), 'id')).toThrow(
      `id must be a whole number, but is "${'x'.repeat(40)}"... of 1000000 characters`,
    );
  });

  it('reads u64 as pairs of halves, low half first, and names the value that is not one', () => {
    expect(read.u64Pairs(['1', 2n ** 32n, 3], 'hashes', 3)).toEqual(Uint32Array.of(1, 0, 0, 1, 3, 0));
    expect(() => read.u64Pairs(['1', 'x'], 'hashes', 3)).toThrow('hashes[1] must be an exact u64, but is "x"');
    expect(() => read.u64Pairs([1, 2], 'hashes', 1)).toThrow('hashes must be a list of at most 1, but is a list of 2');
  });
});
