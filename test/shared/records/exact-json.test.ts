import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exactText, parseExact } from '../../../shared/records/exact-json.ts';

describe('JSON with numbers that no double holds', () => {
  it('keeps their digits, and leaves texts and other numbers alone', () => {
    const text =
      '{"id":18446744073709551615,"n":-9223372036854775808,"s":"a 18446744073709551615, \\"1234567890123456\\"","x":1.5,"e":1e20}';
    const value = parseExact(text);
    expect(value).toEqual({
      id: 18446744073709551615n,
      n: -9223372036854775808n,
      s: 'a 18446744073709551615, "1234567890123456"',
      x: 1.5,
      e: 1e20,
    });
    expect(exactText(value)).toBe(text.replace('1e20', '100000000000000000000'));
  });

  it('reads a number of 16 digits up to 2^53 as the usual reader does', () => {
    const text = '[1628626622007113,-9007199254740991,9007199254740992]';
    expect(parseExact(text)).toEqual([1_628_626_622_007_113, -9_007_199_254_740_991, 2n ** 53n]);
  });

  it.each(['0.30000000000000004', '-1.2345678901234567', '8.000002708286047123e-9', '[0.1234567890123456,1]'])(
    'reads the fraction %s as the usual reader does',
    (text) => expect(parseExact(text)).toEqual(JSON.parse(text)),
  );

  it('reads what it has written', () => {
    const leaf = fc.oneof(
      fc.string(),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.bigInt(10n ** 16n, 2n ** 64n),
      fc.maxSafeInteger(),
    );
    const key = fc.string().filter((name) => name !== '__proto__');
    const value = fc.dictionary(key, fc.oneof(leaf, fc.array(leaf)), { noNullPrototype: true });
    fc.assert(
      fc.property(value, (each) => {
        expect(parseExact(exactText(each))).toEqual(each);
      }),
    );
  });
});
