import { describe, expect, it } from 'vitest';
import { finishOf } from '../../../../shared/pipeline/answer/bodies/body-words.ts';
import { failureInFinish, toldReason } from '../../../../shared/pipeline/answer/worker-output.ts';
import type { EngineFinishReason } from '../../../../shared/protocol/index.ts';

/** A worker may write any word. */
const written = (word: string): EngineFinishReason => word as EngineFinishReason;

describe('words for the end of a choice', () => {
  it.each([
    ['stop', 'stop'],
    ['eos_token', 'stop'],
    ['end_turn', 'stop'],
    ['max_tokens', 'length'],
    ['repetition', 'length'],
    ['safety', 'content_filter'],
  ] as const)('mean the same in a body and in what a worker tells of tokens: %s', (word, reason) => {
    expect(finishOf(word)).toBe(reason);
    expect(failureInFinish(written(word))).toBeUndefined();
    expect(toldReason(written(word))).toBe(reason);
  });

  it('tell of calls in a body alone, which are found in the text elsewhere', () => {
    expect([finishOf('tool_use'), toldReason(written('tool_use'))]).toEqual(['tool_calls', 'stop']);
  });

  it.each(['error', 'no such word'])('are a failure if they are unknown: %s', (word) => {
    expect(() => finishOf(word)).toThrow('Internal server error');
    expect(failureInFinish(written(word))?.code).toBe('internal_error');
  });
});
