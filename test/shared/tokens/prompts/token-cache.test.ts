import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CachedSegment, TokenCache } from '../../../../shared/tokens/prompts/token-cache.ts';
import type { Tokenizer } from '../../../../shared/tokens/types.ts';
import { letterTokenizer } from '../../pipeline/fixtures.ts';

const other = { ...letterTokenizer };
const idsOf = (text: string) => Uint32Array.from(text, (letter) => letter.charCodeAt(0));
const costOf = (text: string) => text.length * (/[^\0-\xff]/.test(text) ? 2 : 1) + 4 * text.length + 368;

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

  has(owner: unknown, text: string): boolean {
    return this.entries.some((entry) => entry.owner === owner && entry.text === text);
  }

  set(owner: unknown, text: string): void {
    if (this.has(owner, text) || costOf(text) > this.bytesMax / 8) return;
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
    const tokenizer = fc.constantFrom(letterTokenizer, other);
    const step = fc.record({ isGet: fc.boolean(), text, tokenizer, isBehind: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const cache = new TokenCache(4000);
        const naive = new NaiveCache(4000);
        const last = new Map<Tokenizer, CachedSegment | undefined>(); // it may have left the cache
        for (const { isGet, text: asked, tokenizer: owner, isBehind } of steps) {
          const before = isBehind ? last.get(owner) : undefined;
          const found = isGet ? cache.get(owner, asked, before) : cache.set(owner, asked, idsOf(asked), before);
          if (!isGet) naive.set(owner, asked);
          const isThere = isGet ? naive.get(owner, asked) : naive.has(owner, asked);
          expect(found?.ids).toEqual(isThere ? idsOf(asked) : undefined);
          if (found !== undefined) last.set(owner, found);
          expect(cache.bytes).toBe(naive.bytes);
          expect(cache.bytes).toBeLessThanOrEqual(4000);
        }
      }),
    );
  });

  it('keeps a text with half a character as it is', () => {
    const cache = new TokenCache(4000);
    cache.set(letterTokenizer, 'a\ud800b', idsOf('abc'));
    expect(cache.get(letterTokenizer, 'a\ud800b')?.ids).toEqual(idsOf('abc'));
    expect(cache.get(letterTokenizer, 'a\ufffdb')).toBeUndefined();
  });
});
