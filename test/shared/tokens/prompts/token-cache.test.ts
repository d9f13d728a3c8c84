import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TokenCache } from '../../../../shared/tokens/prompts/token-cache.ts';
import { letterTokenizer } from '../../pipeline/fixtures.ts';

const other = { ...letterTokenizer };
const idsOf = (text: string) => Uint32Array.from(text, (letter) => letter.charCodeAt(0));
const costOf = (text: string) => text.length * (/[^\0-\xff]/.test(text) ? 2 : 1) + 4 * text.length + 320;

/** The same, with a list in order of use. */
class NaiveCache {
  readonly entries: { readonly owner: unknown; readonly text: string }[] = [];
  readonly bytesMax: number;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get(owner: unknown, text: string): boolean {
    const at = this.entries.findIndex((entry) => entry.owner === owner && entry.text === text);
    if (at < 0) return false;
    this.entries.push(...this.entries.splice(at, 1));
    return true;
  }

  set(owner: unknown, text: string): void {
    const isKnown = this.entries.some((entry) => entry.owner === owner && entry.text === text);
    if (isKnown || costOf(text) > this.bytesMax / 8) return;
    this.entries.push({ owner, text });
    while (this.bytes > this.bytesMax) this.entries.shift();
  }

  get bytes(): number {
    return this.entries.reduce((sum, { text }) => sum + costOf(text), 0);
  }
}

describe('the cache of tokens', () => {
  it('keeps what was used last, within its bound, apart for each tokenizer', () => {
    const text = fc.constantFrom('a', 'b', 'ab', 'abc', '\u65e5', '\u65e5\u672c', 'x'.repeat(40), 'y'.repeat(400));
    const step = fc.record({ isGet: fc.boolean(), text, tokenizer: fc.constantFrom(letterTokenizer, other) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const cache = new TokenCache(4000);
        const naive = new NaiveCache(4000);
        for (const { isGet, text: asked, tokenizer } of steps) {
          if (isGet) {
            const found = cache.get(tokenizer, asked);
            expect(found).toEqual(naive.get(tokenizer, asked) ? idsOf(asked) : undefined);
          } else {
            cache.set(tokenizer, asked, idsOf(asked));
            naive.set(tokenizer, asked);
          }
          expect(cache.bytes).toBe(naive.bytes);
          expect(cache.bytes).toBeLessThanOrEqual(4000);
        }
      }),
    );
  });

  it('keeps a text with half a character as it is', () => {
    const cache = new TokenCache(4000);
    cache.set(letterTokenizer, 'a\ud800b', idsOf('abc'));
    expect(cache.get(letterTokenizer, 'a\ud800b')).toEqual(idsOf('abc'));
    expect(cache.get(letterTokenizer, 'a\ufffdb')).toBeUndefined();
  });
});
