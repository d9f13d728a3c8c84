import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { thinkingTokens } from '../../../../shared/engines/mocker/token-cursor.ts';
import { range, startMockBed } from './support.ts';

const THINKING = { startId: 900, endId: 901, ratio: 0.5 };
const TEXT = { passages: [range(20, 1000), range(30, 2000)], separator: [7, 7] };

async function answer(prompt: readonly number[], tokens: number, options: object = {}): Promise<readonly number[]> {
  const { ask, clock } = await startMockBed({ thinking: THINKING, ...options });
  const { sink } = ask({ prompt, stop: { max_tokens: tokens } });
  await clock.advance(60_000);
  expect(sink.isEnded).toBe(true);
  return sink.tokenIds;
}

describe('thoughts of a mock engine', () => {
  it.each([
    [1, 0.9, 0],
    [10, 0, 0],
    [10, 0.05, 0],
    [10, 0.1, 2],
    [10, 0.55, 5],
    [10, 1, 10],
    [2, 0.5, 2],
  ])('of an answer of %i tokens at ratio %d: %i', (tokens, ratio, expected) => {
    expect(thinkingTokens(tokens, ratio)).toBe(expected);
  });

  it.each([[{}], [{ readableTokenIds: TEXT }]])(
    'stand at the head of the answer, in the same length (%o)',
    async (options) => {
      const ids = await answer(range(5), 20, options);
      expect(ids).toHaveLength(20);
      expect(ids.indexOf(900)).toBe(0);
      expect(ids.indexOf(901)).toBe(9);
      expect(ids.filter((id) => id === 900 || id === 901)).toHaveLength(2);
    },
  );

  it.each([[{}], [{ readableTokenIds: TEXT }]])('go on where they were cut, anywhere (%o)', async (options) => {
    const whole = await answer(range(5), 24, options);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: whole.length - 1 }), async (cut) => {
        const rest = await answer([...range(5), ...whole.slice(0, cut)], 24 - cut, options);
        expect(rest).toEqual(whole.slice(cut));
      }),
      { numRuns: 30 },
    );
  });

  it('end what the prompt has begun', async () => {
    const ids = await answer([1, 2, 900], 19);
    expect(ids.indexOf(901)).toBe(8);
    expect(ids).not.toContain(900);
  });

  it('are refused without two different ids', async () => {
    await expect(startMockBed({ thinking: { ...THINKING, endId: 900 } })).rejects.toThrow('two different ids');
    await expect(startMockBed({ thinking: { ...THINKING, ratio: 2 } })).rejects.toThrow('from 0 to 1');
  });
});
