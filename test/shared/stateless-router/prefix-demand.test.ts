import { describe, expect, it } from 'vitest';
import { keyOfText } from '../../../shared/router/rendezvous.ts';
import { PrefixDemand, promptLevels } from '../../../shared/stateless-router/prompt-keys.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';

const BLOCK = 16;

/** Levels of a prompt made of stretches of tokens, each told apart by its number. */
function levelsOf(stretches: readonly (readonly [number: number, tokens: number])[], conversation?: string) {
  const tokens = Uint32Array.from(
    stretches.flatMap(([number, count]) => Array.from({ length: count }, (_, at) => number * 100_000 + at)),
  );
  const prompt = { tokens: tokens.length, hashes: hashBlocks(tokens, { blockSizeTokens: BLOCK }) };
  return promptLevels(prompt, BLOCK, conversation === undefined ? undefined : keyOfText(conversation));
}

describe('the levels of a prompt', () => {
  it('are the same for prompts with a beginning in common as far as that goes', () => {
    const [one, other] = [
      levelsOf([
        [0, 640],
        [1, 640],
      ]),
      levelsOf([
        [0, 640],
        [2, 640],
      ]),
    ];
    const common = one.keys.findIndex((key, at) => `${key}` !== `${other.keys[at]}`);
    expect(common).toBe(levelsOf([[0, 640]]).keys.length);
    expect(common).toBeGreaterThan(4);
  });

  it('stay when the prompt grows', () => {
    const [before, after] = [
      levelsOf([[0, 700]]),
      levelsOf([
        [0, 700],
        [1, 3000],
      ]),
    ];
    expect(after.keys.slice(0, before.keys.length)).toEqual(before.keys);
  });

  it('are an empty list for a prompt that is too short to distinguish', () => {
    expect(levelsOf([[0, 10]]).keys).toEqual([]);
  });

  it('are few, however long the prompt', () => {
    expect(levelsOf([[0, 100_000]]).keys.length).toBeLessThan(40);
  });
});

describe('the demand that a process sees', () => {
  it('counts how many conversations have a beginning in common', () => {
    const demand = new PrefixDemand();
    for (let at = 1; at <= 10; at++)
      demand.note(
        levelsOf([
          [0, 512],
          [at, 400],
        ]),
      );
    const levels = levelsOf([
      [0, 512],
      [10, 400],
    ]);
    expect(demand.conversations).toBe(10);
    expect(demand.othersWith(levels.keys[0] as readonly [number, number])).toBe(9);
    expect(demand.othersWith(levels.keys.at(-1) as readonly [number, number])).toBe(0);
  });

  it('counts a conversation once, however many turns of it there are', () => {
    const demand = new PrefixDemand();
    for (let turn = 1; turn <= 20; turn++)
      demand.note(
        levelsOf([
          [0, 512],
          [1, 300 * turn],
        ]),
      );
    expect([demand.requests, demand.conversations]).toEqual([20, 1]);
    for (const key of levelsOf([
      [0, 512],
      [1, 6000],
    ]).keys)
      expect(demand.othersWith(key)).toBe(0);
  });

  it('counts other conversations that began alike, and not its own turns', () => {
    const demand = new PrefixDemand();
    for (let turn = 1; turn <= 5; turn++) demand.note(levelsOf([[0, 300 * turn]], 'one'));
    expect(demand.othersWith(keyOfText('one'))).toBe(0);
    for (let at = 1; at <= 4; at++) demand.note(levelsOf([[at, 300]], 'many'));
    expect(demand.othersWith(keyOfText('many'))).toBe(3);
  });

  it('takes the same prompt over again for another conversation', () => {
    const demand = new PrefixDemand();
    for (let at = 0; at < 3; at++) demand.note(levelsOf([[0, 208]]));
    expect(demand.conversations).toBe(3);
  });

  it('forgets in time, and takes bounded memory', () => {
    const demand = new PrefixDemand();
    const old = levelsOf([[1, 400]]);
    demand.note(old);
    demand.note(old);
    const key = old.keys[0] as readonly [number, number];
    expect(demand.othersWith(key)).toBe(1);
    for (let at = 2; at < 3000; at++) demand.note(levelsOf([[at, 400]]));
    expect(demand.othersWith(key)).toBe(0);
    expect(demand.requests).toBeLessThan(257);
  });
});
