import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  NATURAL_END,
  passageTokens,
  RandomCursor,
  ReadableCursor,
  type TokenCursor,
} from '../../../../shared/engines/mocker/token-cursor.ts';

const EOS = 99;
const TEXT = passageTokens([[1, 2, 3, 4], [1, 2, 1, 2, 1], [3, 3, 3], [5]], [0, 0]);

/** The question `4 3` has an answer of its own. */
const INTRODUCED = passageTokens([[1, 2, 3, 4], [3, 3, 3], [5]], [0, 0], { cue: [4, 3], passage: [2, 1, 0, 2, 5] });

function readable(seed: number, text = TEXT): TokenCursor {
  if (text === undefined) throw new Error('no text');
  return new ReadableCursor(seed, text);
}

/** Generates up to `count` tokens after `prompt`. */
function generate(cursor: TokenCursor, prompt: readonly number[], count: number, mayEnd: boolean): number[] {
  for (const token of prompt) cursor.push(token);
  const output: number[] = [];
  while (output.length < count) {
    const token = cursor.next(mayEnd);
    if (token === NATURAL_END) break;
    cursor.push(token);
    output.push(token);
  }
  return output;
}

describe.each([
  ['readable text', (seed: number) => readable(seed)],
  ['readable text with an introduction', (seed: number) => readable(seed, INTRODUCED)],
  ['random ids', (seed: number) => new RandomCursor(seed, { first: 0, count: 7 }, [EOS])],
])('%s', (_, create) => {
  // A vocabulary of 6 ids makes prompts meet the passages by chance all the time.
  const prompts = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 40 });

  it('goes on exactly at every cut', () => {
    fc.assert(
      fc.property(prompts, fc.integer(), fc.boolean(), fc.nat(30), (prompt, seed, mayEnd, cut) => {
        const whole = generate(create(seed), prompt, 30, mayEnd);
        const before = whole.slice(0, cut);
        const after = generate(create(seed), [...prompt, ...before], 30 - before.length, mayEnd);
        expect([...before, ...after]).toEqual(whole);
      }),
    );
  });

  it('asks the same twice and reads the same', () => {
    fc.assert(
      fc.property(prompts, fc.integer(), (prompt, seed) => {
        expect(generate(create(seed), prompt, 20, true)).toEqual(generate(create(seed), prompt, 20, true));
      }),
    );
  });

  it('differs between seeds and between prompts', () => {
    const outputs = new Set<string>();
    for (let seed = 0; seed < 20; seed++) outputs.add(generate(create(seed), [9, 9], 12, false).join());
    for (let token = 10; token < 30; token++) outputs.add(generate(create(0), [token], 12, false).join());
    expect(outputs.size).toBeGreaterThan(10);
  });
});

describe('readable text', () => {
  it('is one whole passage after a prompt without a part of it', () => {
    for (let seed = 0; seed < 30; seed++) {
      const answer = generate(readable(seed), [7, 8, 7], 100, true);
      expect(TEXT?.openings.map((opening) => Array.from(opening))).toContainEqual(answer);
    }
  });

  it('goes on with a separator and another passage when it may not end', () => {
    const answer = generate(readable(3), [7, 8, 7], 40, false);
    const first = generate(readable(3), [7, 8, 7], 40, true);
    expect(answer.slice(0, first.length)).toEqual(first);
    expect(answer.slice(first.length, first.length + 2)).toEqual([0, 0]);
    expect(answer).toHaveLength(40);
  });

  it('ends at once after a prompt that holds a whole answer', () => {
    const answer = generate(readable(3), [7, 8, 7], 40, true);
    expect(generate(readable(3), [7, 8, 7, ...answer], 40, true)).toEqual([]);
  });

  it('answers the introduction question with its own answer, after any text and with any seed', () => {
    for (let seed = 0; seed < 20; seed++) {
      const prompt = [9, seed, 9, 4, 3, 8, 7, 8]; // a template writes some tokens between question and answer
      expect(generate(readable(seed, INTRODUCED), prompt, 100, true)).toEqual([2, 1, 0, 2, 5]);
    }
  });

  it('answers a question that comes long after that one like any other', () => {
    const answers = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const prompt = [4, 3, ...Array.from({ length: 40 }, () => 9)];
      answers.add(generate(readable(seed, INTRODUCED), prompt, 100, true).join());
    }
    expect(answers).not.toContain('2,1,0,2,5');
  });

  it('needs at least one passage that is not empty', () => {
    expect(passageTokens([[], []], [0])).toBeUndefined();
  });
});

describe('random ids', () => {
  it('stay in their range and keep off the ids to avoid', () => {
    const cursor = new RandomCursor(1, { first: 10, count: 5 }, [11, 13]);
    expect(new Set(generate(cursor, [1], 200, true))).toEqual(new Set([10, 12, 14]));
  });

  it('use the whole range when every id of it is avoided', () => {
    const cursor = new RandomCursor(1, { first: 10, count: 2 }, [10, 11]);
    expect(new Set(generate(cursor, [1], 50, true))).toEqual(new Set([10, 11]));
  });
});
