import { describe, expect, it } from 'vitest';
import { shardKeyOf } from '../../../../shared/frontends/lambda/lambda-events.ts';

const SYSTEM = { role: 'system', content: 'You are a helpful assistant of a very large company. '.repeat(40) };
const chat = (...turns: readonly string[]): string =>
  JSON.stringify({
    model: 'm',
    messages: [SYSTEM, ...turns.map((content, at) => ({ role: at % 2 ? 'assistant' : 'user', content }))],
    stream: true,
  });
const keyOf = (body: string): string | undefined => shardKeyOf({ body, isBase64: false });

describe('the shard key of a request', () => {
  it('stays the same in every turn of a conversation', () => {
    const first = keyOf(chat('How do I bake bread?'));
    expect(keyOf(chat('How do I bake bread?', 'With flour.', 'And then?'))).toBe(first);
    expect(keyOf(chat('How do I bake bread?', 'With flour.', 'And then?', 'Wait.', 'How long?'))).toBe(first);
  });

  it('differs between conversations that share a system prompt', () => {
    expect(keyOf(chat('How do I bake bread?'))).not.toBe(keyOf(chat('How do I boil eggs?')));
  });

  it('is of what is said also where the role comes last, and in other dialects', () => {
    const reversed = (content: string): string => JSON.stringify({ messages: [{ content, role: 'user' }] });
    expect(keyOf(reversed('How do I bake bread?'))).not.toBe(keyOf(reversed('How do I boil eggs?')));
    const prompt = (text: string): string => JSON.stringify({ model: 'm', prompt: text });
    expect(keyOf(prompt('Once upon a time'))).not.toBe(keyOf(prompt('It was a dark night')));
  });

  it('is the same of a body in base64, and undefined without one', () => {
    const body = chat('How do I bake bread?');
    expect(shardKeyOf({ body: Buffer.from(body).toString('base64'), isBase64: true })).toBe(keyOf(body));
    expect(keyOf('')).toBeUndefined();
  });

  it('is some text of any body, however large or odd', () => {
    for (const body of ['x', '{}', '"user"', 'y'.repeat(1_000_000), '"user":}'.repeat(10_000)]) {
      expect(keyOf(body)?.length).toBeLessThanOrEqual(512);
    }
  });
});
