import { describe, expect, it } from 'vitest';
import { AnswerTail } from '../../../../shared/frontends/picker/answer-tail.ts';

function usageOf(text: string, chunkBytes = text.length || 1) {
  const bytes = Buffer.from(text);
  const tail = new AnswerTail();
  for (let at = 0; at < bytes.length; at += chunkBytes) tail.add(bytes.subarray(at, at + chunkBytes));
  return tail.usage(3);
}

describe('the usage of an answer', () => {
  it('is that of its last event, whatever its chunks are', () => {
    const event = (tokens: number) => `data: {"usage": {"prompt_tokens": 5, "completion_tokens": ${tokens}}}\n\n`;
    const text = `${event(1).repeat(3000)}${event(9)}data: [DONE]\n\n`;
    for (const chunkBytes of [1, 7, 16_384, text.length]) {
      expect(usageOf(text, chunkBytes)).toEqual({ promptTokens: 5, completionTokens: 9 });
    }
  });

  it('is read in the names of Anthropic', () => {
    const delta = 'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":4}}\n\n';
    expect(usageOf(delta)).toEqual({ promptTokens: 3, completionTokens: 4 });
    const whole = '{"usage":{"input_tokens":8,"output_tokens":2,"cache_read_input_tokens":6}}';
    expect(usageOf(whole)).toEqual({ promptTokens: 8, completionTokens: 2, cachedTokens: 6 });
  });

  it.each([
    '',
    '{"usage":null}',
    '{"usage":',
    '{"usage":{',
    '{"usage":{"a":}}',
    'no usage',
    `{"usage":{"completion_tokens":1}${'x'.repeat(20_000)}`,
  ])('is unknown for %s', (text) => {
    expect(usageOf(text)).toBeUndefined();
  });

  it('has no counts that are not whole numbers', () => {
    expect(usageOf('{"usage":{"completion_tokens":-1,"prompt_tokens":"5"}}')).toEqual({
      promptTokens: 3,
      completionTokens: 0,
    });
  });
});
