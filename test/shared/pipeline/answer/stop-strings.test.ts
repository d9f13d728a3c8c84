import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopStrings } from '../../../../shared/pipeline/answer/stop-strings.ts';
import { stepGrowth } from '../../../support/count-steps.ts';

function run(stops: readonly string[], pieces: readonly string[], isVisible = false) {
  const matcher = new StopStrings(stops, isVisible);
  const shown = pieces.map((piece) => matcher.push(piece));
  return { shown, text: shown.join('') + matcher.flush(), matched: matcher.matched };
}

/** What the whole text should read: up to the earliest stop string, the first in the list winning a tie. */
function naive(stops: readonly string[], text: string, isVisible: boolean) {
  const matches = stops.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0);
  const first = matches.reduce<(typeof matches)[number] | undefined>(
    (best, match) => (best === undefined || match.at < best.at ? match : best),
    undefined,
  );
  if (first === undefined) return { text, matched: undefined };
  return { text: text.slice(0, first.at + (isVisible ? first.stop.length : 0)), matched: first.stop };
}

/** Few letters, so that overlaps and false starts are common. */
const word = (min: number) => fc.string({ unit: fc.constantFrom('a', 'b', 'E'), minLength: min, maxLength: 4 });

describe('StopStrings', () => {
  it('holds back the head of a hidden stop string and releases it on a false start', () => {
    expect(run(['END'], ['ok', ' E', 'N', 'D!'])).toEqual({ shown: ['ok', ' ', '', ''], text: 'ok ', matched: 'END' });
    expect(run(['END'], ['ok', ' E', 'gg'])).toEqual({ shown: ['ok', ' ', 'Egg'], text: 'ok Egg', matched: undefined });
  });

  it('releases what it held when the text ends for another reason', () => {
    expect(run(['END'], ['ok EN']).text).toBe('ok EN');
  });

  it('shows a visible stop string and nothing after it', () => {
    expect(run(['END'], ['ok E', 'ND!'], true)).toEqual({ shown: ['ok E', 'ND'], text: 'ok END', matched: 'END' });
  });

  it('reads the same under every chunking, hidden or visible', () => {
    fc.assert(
      fc.property(
        fc.array(word(1), { minLength: 1, maxLength: 3 }),
        fc.array(word(0), { maxLength: 12 }),
        fc.boolean(),
        (stops, pieces, isVisible) => {
          // A match that ends earlier is seen earlier, whatever its start: compare piece by piece with the text so far.
          const { text, matched } = run(stops, pieces, isVisible);
          let sofar = '';
          let expected = naive(stops, '', isVisible);
          for (const piece of pieces) {
            sofar += piece;
            expected = naive(stops, sofar, isVisible);
            if (expected.matched !== undefined) break;
          }
          expect({ text, matched }).toEqual(expected);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('never shows a character that a hidden stop string later takes back', () => {
    fc.assert(
      fc.property(
        fc.array(word(1), { minLength: 1, maxLength: 3 }),
        fc.array(word(0), { maxLength: 12 }),
        (stops, pieces) => {
          const { shown, text } = run(stops, pieces);
          expect(text.startsWith(shown.join(''))).toBe(true);
        },
      ),
    );
  });

  it('finds the head of a stop string that starts inside another', () => {
    expect(run(['aab', 'abc'], ['xaa', 'bc'])).toEqual({ shown: ['x', ''], text: 'x', matched: 'aab' });
    expect(run(['aaaa', 'aab'], ['a', 'a', 'a', 'b'])).toEqual({ shown: ['', '', '', 'a'], text: 'a', matched: 'aab' });
  });

  it.each<[string, (times: number) => void]>([
    [
      'one push of a text that begins a long stop string everywhere',
      (times) => run([`${'a'.repeat(500 * times)}b`], ['a'.repeat(2_000 * times)]),
    ],
    [
      'many pushes that each could begin it',
      (times) =>
        run(
          [`${'ab'.repeat(250)}c`],
          Array.from({ length: 500 * times }, () => 'ab'),
        ),
    ],
    [
      'many stop strings with one head',
      (times) =>
        run(
          Array.from({ length: 32 * times }, (_, at) => `${'a'.repeat(100)}${at}`),
          ['a'.repeat(2_000)],
        ),
    ],
  ])('takes steps in proportion to its input: %s', async (_name, scan) => {
    const [, double, , eightfold] = await stepGrowth(scan);
    expect(double).toBeLessThan(2.3);
    expect(eightfold).toBeLessThan(9);
  });
});
