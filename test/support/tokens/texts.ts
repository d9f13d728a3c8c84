import fc from 'fast-check';

const FRAGMENTS = [
  ...[' ', '  ', '\n', '\r\n', '\n\n', '\t', '\u00a0', '\u0085', '\ufeff', '\u3000', '\u2028', '   '],
  ..."'s|'S|'t|'re|'LL|'ve|'\u017f|'d|'x|\u2019s|'".split('|'),
  ...['hello', 'Hello', 'World', 'the', 'word', 'worker', 'swords', 'two words', 'camelCaseHTTP', 'ABC', 'a', 'b'],
  ...['1', '12', '123', '4567', '\u0663', '\u00bd', '\u216b', '3.14'],
  ...['!', '!!', '?', '...', '\u2014', '_', '-', '+=', '.(', '{}', '/', '"', ', ', ';'],
  ...['<|im_end|>', '<|im_start|>', '<think>', '</think>', '<|', '<a', '<ab', '<abc', '<mask>', '<end>', '<both>'],
  ...[
    '\u65e5\u672c\u8a9e',
    '\u3053\u3093',
    '\u30ab\u30ca',
    '\u4e2d\u6587',
    '\ud55c\uad6d\uc5b4',
    '\u0645\u0631\u062d\u0628\u0627',
    '\u0939\u093f\u0928\u094d\u0926\u0940',
  ],
  ...[
    '\ud83d\udc69\u200d\ud83d\udc69\u200d\ud83d\udc67',
    '\ud83d\ude42',
    '\ud83c\udde9\ud83c\uddea',
    '\ud835\udc9c',
    '\ud801\udc00',
    '\ud840\udc00',
  ],
  ...['cafe\u0301', 'caf\u00e9', '\u0301', '\ufb01', '\u212b', '\u01c5', '\u02b0', '\u20ac\u20ac', '\u00ff', '\ufffd'],
  ...[
    '\ud800',
    '\udc00',
    '\u0000',
    '\u007f',
    'function foo() {\n  return x;\n}',
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  ],
];

/**
 * Blocks whose characters have not changed for years. The Unicode data of the reference library and of Node differ in
 * age, so they disagree about the newest combining marks.
 */
const SETTLED: readonly (readonly [number, number])[] = [
  [0x0000, 0x052f],
  [0x0900, 0x0954],
  [0x1e00, 0x1eff],
  [0x2000, 0x206f],
  [0x3000, 0x9fa5],
  [0xac00, 0xd7a3],
  [0xf900, 0xfa2d],
  [0xff00, 0xffef],
  [0x10400, 0x1044f],
  [0x1d400, 0x1d7ff],
  [0x1f300, 0x1f64f],
  [0x20000, 0x2a6d6],
];

const settledCharacter = fc
  .constantFrom(...SETTLED)
  .chain(([first, last]) => fc.integer({ min: first, max: last }))
  .map((codePoint) => String.fromCodePoint(codePoint));

/** Text that is hard for tokenizers: pieces of every kind, joined at random, with random characters between them. */
export const anyText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...FRAGMENTS) },
      { weight: 2, arbitrary: settledCharacter },
      { weight: 1, arbitrary: fc.string({ maxLength: 6 }) },
    ),
    { maxLength: 24 },
  )
  .map((parts) => parts.join(''));
