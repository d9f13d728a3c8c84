import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExactJson, writeExactJson } from '../../../shared/standalone/body-fields.ts';

describe('JSON with 64-bit integers', () => {
  it.each([
    ['18446744073709551615', 18446744073709551615n],
    ['-9223372036854775808', -9223372036854775808n],
    ['9007199254740993', 9007199254740993n],
    ['9007199254740991', 9007199254740991],
    ['1000000000000000', 1_000_000_000_000_000],
    ['[1.1234567890123456789]', [Number('1.1234567890123456789')]],
    ['1e20', 1e20],
    ['12345678901234567890.5', Number('12345678901234567890.5')],
    ['"18446744073709551615"', '18446744073709551615'],
    ['{"1234567890123456789":"a\\"9007199254740993"}', { '1234567890123456789': 'a"9007199254740993' }],
  ])('reads %s', (text, value) => {
    expect(parseExactJson(text)).toEqual(value);
  });

  it('refuses text that is not JSON', () => {
    for (const text of ['', '{', '01', '[9007199254740993,]']) expect(() => parseExactJson(text)).toThrow(SyntaxError);
  });

  it('reads what the built-in parser reads, and back what it wrote itself', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        // Whole numbers beyond 2^53 are the one difference.
        if (!/\d{16}/.test(text)) expect(parseExactJson(text)).toEqual(JSON.parse(text));
        expect(JSON.parse(writeExactJson(value))).toEqual(JSON.parse(text));
      }),
    );
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n })), (integers) => {
        expect((parseExactJson(writeExactJson(integers)) as (number | bigint)[]).map(BigInt)).toEqual(integers);
      }),
    );
  });
});
