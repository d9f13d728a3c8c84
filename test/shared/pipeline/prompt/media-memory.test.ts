import { describe, expect, it } from 'vitest';
import { MediaMemory } from '../../../../shared/pipeline/prompt/media-memory.ts';
import { mediaIdentity } from '../../../../shared/tokens/index.ts';

describe('what is remembered of media', () => {
  it('knows what is inline by what it holds, and what lies elsewhere once a worker has read it', () => {
    const memory = new MediaMemory();
    expect(memory.identityOf('data:image/png;base64,AA')).toBe(mediaIdentity('data:image/png;base64,AA'));
    expect(memory.identityOf('https://a/cat.png')).toBeUndefined();
    memory.noteIdentity('https://a/cat.png', 'first');
    memory.noteIdentity('https://a/cat.png', 'second');
    expect(memory.identityOf('https://a/cat.png')).toBe('second');
  });

  it('gives back the tokens of a medium at its model, and expects of others what it has seen', () => {
    const memory = new MediaMemory();
    const tokens = Uint32Array.of(7, 7, 7, 8, 7, 7);
    memory.notePlaceholders('m', new Map([['image', 7]]));
    expect(memory.expectedTokens('m')).toBe(576);
    memory.noteTokens('m', 'a', tokens);
    expect(memory.tokensOf('m', 'a')).toEqual(tokens);
    expect(memory.tokensOf('other', 'a')).toBeUndefined();
    for (let at = 0; at < 100; at++) memory.noteTokens('m', `${at}`, tokens);
    expect(memory.expectedTokens('m')).toBe(6);
    expect(memory.placeholdersOf('m').get('image')).toBe(7);
  });

  it('forgets what was used longest ago beyond its bounds', () => {
    const memory = new MediaMemory();
    for (let at = 0; at < 20_000; at++) {
      memory.noteTokens('m', `${at}`, Uint32Array.of(1));
      memory.noteIdentity(`https://a/${at}`, `${at}`);
    }
    memory.tokensOf('m', '0');
    memory.identityOf('https://a/0');
    memory.noteTokens('m', 'more', Uint32Array.of(1));
    memory.noteIdentity('https://a/more', 'more');
    expect([memory.tokensOf('m', '0'), memory.tokensOf('m', '1')]).toEqual([Uint32Array.of(1), undefined]);
    expect([memory.identityOf('https://a/0'), memory.identityOf('https://a/1')]).toEqual(['0', undefined]);
    const small = new MediaMemory(1000);
    const long = Uint32Array.from({ length: 300 }, (_, at) => at); // of different tokens each takes two words
    small.noteTokens('m', 'first', long);
    small.noteTokens('m', 'second', long);
    expect(small.tokensOf('m', 'first')).toBeUndefined();
    expect(small.tokensOf('m', 'second')).toEqual(long);
  });
});
