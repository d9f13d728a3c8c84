import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CustomInputReader } from '../../../shared/frontends/http/openai/custom-input.ts';
import { stepGrowth } from '../../support/count-steps.ts';

/** Feeds `text` in the pieces that `cuts` make. */
function read(text: string, cuts: readonly number[]): string {
  const reader = new CustomInputReader();
  const ends = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b);
  let out = '';
  let from = 0;
  for (const end of [...ends, text.length]) {
    out += reader.push(text.slice(from, end));
    from = end;
  }
  return out + reader.end();
}

const cuts = fc.array(fc.nat(), { maxLength: 12 });

describe('the input of a custom tool', () => {
  it('takes steps in proportion to a long opening that comes in pieces', async () => {
    const [, double, , eightfold] = await stepGrowth((times) => {
      const reader = new CustomInputReader();
      for (let at = 0; at < 100 * times; at++) reader.push(at === 0 ? '{' : ' ');
    });
    expect(double).toBeLessThan(2.3);
    expect(eightfold).toBeLessThan(9);
  });

  it('is the text of the one argument, in whatever pieces that comes', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.constantFrom(0, 2),
        fc.boolean(),
        cuts,
        (input, spaces, ascii, at) => {
          const json = JSON.stringify({ input }, null, spaces);
          const text = ascii ? json.replaceAll(/[\u007f-\uffff]/g, escapeUnit) : json;
          expect(read(text, at)).toBe(input);
        },
      ),
      { numRuns: 500, seed: 3 },
    );
  });

  it('is never half a pair in one piece', () => {
    const reader = new CustomInputReader();
    const pieces = [...'{"input":"\\ud83d\\ude00!"}'].map((character) => reader.push(character));
    expect(pieces.filter((piece) => piece !== '')).toEqual(['\u{1f600}', '!']);
  });

  it.each([
    ['other arguments', '{"patch":"a"}'],
    ['no string', '{"input":{"a":1}}'],
    ['no JSON at all', '*** Begin Patch'],
    ['an opening that is cut', '{"inp'],
  ])('is all of the text for %s', (_what, text) => {
    for (let at = 0; at <= text.length; at++) expect(read(text, [at])).toBe(text);
  });

  it.each([
    ['half a pair alone', '{"input":"a\\ud83dz"}', 'a\ufffdz'],
    ['half a pair before another escape', '{"input":"\\ud83d\\nz"}', '\ufffd\nz'],
    ['an escape that JSON does not know', '{"input":"a\\qz"}', 'a\\qz'],
    ['a cut escape at the end', '{"input":"ab\\u00', 'ab'],
  ])('keeps what can be kept of %s', (_what, text, expected) => {
    for (let at = 0; at <= text.length; at++) expect(read(text, [at])).toBe(expected);
  });

  it('never throws, and gives no more than it was given', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), cuts, (text, at) => {
        expect(read(`{"input":"${text}`, at).length).toBeLessThanOrEqual(text.length);
      }),
      { numRuns: 300, seed: 5 },
    );
  });
});

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
