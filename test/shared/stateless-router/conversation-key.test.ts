import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ChatMessage } from '../../../shared/protocol/index.ts';
import { conversationKey } from '../../../shared/stateless-router/prompt-keys.ts';

const content = fc.oneof(
  fc.string(),
  fc.array(
    fc.oneof(
      fc.record({ type: fc.constant('text'), text: fc.string() }),
      fc.jsonValue().map((of) => ({ of })),
    ),
  ),
  fc.constant(null),
);
const message = (roles: readonly string[]): fc.Arbitrary<ChatMessage> =>
  fc.record({ role: fc.constantFrom(...roles), content });
const before = fc.array(message(['system', 'developer', 'assistant']), { maxLength: 3 });
const after = fc.array(message(['user', 'assistant', 'tool']), { maxLength: 5 });

describe('the key of a conversation', () => {
  it('is the same at every turn', () => {
    fc.assert(
      fc.property(before, message(['user']), after, (first, user, rest) => {
        const key = conversationKey([...first, user]);
        expect(key).toBeDefined();
        expect(conversationKey([...first, user, ...rest])).toEqual(key);
      }),
    );
  });

  it('differs if system prompt, first question or a part of it differ', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (system, user, more) => {
        const chat = (...texts: readonly [string, unknown]): ChatMessage[] => [
          { role: 'system', content: texts[0] },
          { role: 'user', content: texts[1] as string },
        ];
        const key = conversationKey(chat(system, user));
        expect(conversationKey(chat(`${system}${more}.`, user))).not.toEqual(key);
        expect(conversationKey(chat(system, `${user}${more}.`))).not.toEqual(key);
        const image = (url: string): unknown => [{ type: 'image_url', image_url: { url } }];
        expect(conversationKey(chat(system, image(user)))).not.toEqual(
          conversationKey(chat(system, image(`${user}${more}.`))),
        );
      }),
    );
  });

  it('tells long texts apart by their length and their ends', () => {
    const long = (from: string, middle: number, to: string): ChatMessage[] => [
      { role: 'user', content: `${from}${'x'.repeat(middle)}${to}` },
    ];
    const key = conversationKey(long('a', 100_000, 'b'));
    expect(conversationKey(long('a', 100_000, 'b'))).toEqual(key);
    for (const other of [long('c', 100_000, 'b'), long('a', 100_000, 'c'), long('a', 100_001, 'b')])
      expect(conversationKey(other)).not.toEqual(key);
  });

  it('is unknown while no user has said anything', () => {
    expect(conversationKey([])).toBeUndefined();
    expect(conversationKey([{ role: 'system', content: 'Be kind.' }])).toBeUndefined();
  });
});
