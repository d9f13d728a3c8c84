import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isLongJson, jsonPieces, LazyList, objectPieces } from '../../../shared/protocol/index.ts';

const PIECE_CHARS = 64 * 1024;
/** Escapes make one character six. */
const PIECE_CHARS_MAX = 2 * 6 * PIECE_CHARS;

const piecesOf = (value: unknown): string[] => [...jsonPieces(value)];

describe('JSON in pieces', () => {
  it.each<[string, object]>([
    ['many small objects', { data: Array.from({ length: 30_000 }, (_, at) => ({ at, text: 'é"\n', none: null })) }],
    ['many numbers', { ids: Array.from({ length: 300_000 }, (_, at) => at / 3) }],
    ['a long text', { text: 'a"\\\u0001é'.repeat(200_000) }],
    ['pairs at every place where a text could be cut', { text: `a${'\u{1f600}'.repeat(200_000)}`, b: '\ud83d' }],
    ['halves of pairs', { text: '\ud83d'.repeat(100_000) }],
    ['long and short elements', { mix: [1, 'x'.repeat(100_000), null, ['y'.repeat(100_000)], [], {}, undefined] }],
    ['a long list of objects in objects', { a: { b: { c: [{ d: Array(100_000).fill('e') }] }, f: 1 } }],
    ['bytes, which have a text of their own', { bytes: Buffer.alloc(100_000), list: [Buffer.alloc(100_000), 1] }],
    ['keys of every kind', { 10: 1, 2: 'x'.repeat(100_000), '': undefined, 'a"b': { ['__proto__']: [1] } }],
  ])('has the text of JSON.stringify: %s', (_what, value) => {
    const pieces = piecesOf(value);
    expect(pieces.join('') === JSON.stringify(value)).toBe(true);
    expect(pieces.length).toBeGreaterThan(1);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(PIECE_CHARS_MAX);
  });

  it('has the text of JSON.stringify for any value in an object', () => {
    const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), { noNullPrototype: true });
    fc.assert(
      fc.property(object, fc.integer({ min: 1, max: 3000 }), (value, times) => {
        const repeated = { value, list: Array(times).fill(value) };
        expect(piecesOf(repeated).join('')).toBe(JSON.stringify(repeated));
      }),
      { numRuns: 50 },
    );
  });

  it('makes the elements of a lazy list as it goes, and leaves out what comes later', () => {
    const items = Array.from({ length: 20_000 }, (_, at) => at);
    let made = 0;
    const list = new LazyList(items, (at) => ({ made: ++made, at }));
    items.push(-1);
    const pieces = jsonPieces({ list, empty: new LazyList([], String) });
    const first = pieces.next().value;
    expect(made).toBeLessThan(10_000);
    const text = [first, ...pieces].join('');
    made = 0;
    expect(text === JSON.stringify({ list, empty: [] })).toBe(true);
    expect(text).not.toContain('-1');
  });

  it('ends with the members that are given as text', () => {
    expect([...objectPieces({ a: 1 }, [',"b":', '2', ',"c":3'])].join('')).toBe('{"a":1,"b":2,"c":3}');
    expect([...objectPieces({}, [])].join('')).toBe('{}');
  });
});

describe('the length of a JSON text', () => {
  it('is found without reading all of it', () => {
    let looks = 0;
    const list = Array.from({ length: 1000 }, () => ({
      get text() {
        looks++;
        return 'x'.repeat(100);
      },
    }));
    expect(isLongJson(list, 1000)).toBe(true);
    expect(looks).toBeLessThan(12);
    expect(isLongJson(list, 200_000)).toBe(false);
    expect(isLongJson(new LazyList([], String), 1000)).toBe(true); // nobody knows how long it is
  });
});
