import { describe, expect, it } from 'vitest';
import { readLargeConfig } from '../../../shared/tokens/large-config.ts';

const read = (value: unknown): unknown => readLargeConfig(JSON.stringify(value));
const many = (count: number, entry: (at: number) => unknown): object =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [at, entry(at)]));

describe('a large configuration file of a model', () => {
  it('keeps what is of a usual size, and the added tokens that it names', () => {
    const decoder = many(5000, (at) => ({ content: `<${at}>` }));
    const config = { bos_token: '<7>', eos_token: { content: '<9>' }, chat_template: 'x'.repeat(60_000), deep: [[1]] };
    expect(read({ ...config, added_tokens_decoder: decoder, id2label: many(30_000, (at) => `label ${at}`) })).toEqual({
      ...config,
      added_tokens_decoder: { 7: { content: '<7>' }, 9: { content: '<9>' } },
    });
    const few = many(1000, (at) => ({ content: `<${at}>` }));
    expect(read({ added_tokens_decoder: few })).toEqual({ added_tokens_decoder: few });
  });

  it('is refused for a template, or members together, that are too large', () => {
    expect(() => read({ chat_template: 'x'.repeat(262_144) })).toThrow('chat_template has 262146 characters');
    expect(() => read(many(50_000, () => 1))).not.toThrow();
    expect(() => read(many(200_000, () => 1))).toThrow('more than 524288 characters');
  });

  it('is invalid if it holds no object', () => expect(read([1])).toBeUndefined());
});
