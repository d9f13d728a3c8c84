import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { scanTokenizerJson } from '../../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../../shared/tokens/bpe/tokenizer.ts';
import { hashBlocks, PromptEncoder, type Tokenizer } from '../../../../shared/tokens/index.ts';
import { anyText } from '../../../support/tokens/texts.ts';
import { BYTE_LEVEL_VARIANTS, builtinTokenizer } from '../../../support/tokens/variants.ts';

function open(name: string): Tokenizer {
  const json = builtinTokenizer();
  BYTE_LEVEL_VARIANTS[name]!(json);
  return createBpeTokenizer(scanTokenizerJson(Buffer.from(JSON.stringify(json))))!;
}

const qwen = open('Qwen pattern, NFC');
const variants = ['Qwen pattern, NFC', 'GPT-2, pattern of ByteLevel', 'o200k pattern', 'RoBERTa, prefix space and CLS'];

/** A message of up to some 20,000 characters: a few pieces over and over. */
const message = fc
  .tuple(fc.array(anyText, { minLength: 1, maxLength: 3 }), fc.integer({ min: 1, max: 60 }))
  .map(([parts, times]) => parts.join(' ').repeat(times));

const chat = (messages: readonly string[]) => messages.map((text) => `<|im_start|>user\n${text}<|im_end|>\n`).join('');

/** The only way in which a test may know whether a prompt waited. */
async function encode(encoder: PromptEncoder, tokenizer: Tokenizer, text: string, options = {}) {
  const encoded = encoder.encode(tokenizer, text, options);
  return { ...(await encoded), waited: encoded instanceof Promise };
}

describe.each(variants)('prompts in parts: %s', (name) => {
  const tokenizer = open(name);
  const encoders = {
    'without a cache': () => new PromptEncoder({ clock: systemClock }),
    'from a large cache': () => new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24 }),
    'from a small cache': () => new PromptEncoder({ clock: systemClock, cacheBytesMax: 50_000 }),
    'all in slices': () => new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24, inlineUnitsMax: 0 }),
  };

  it.each(Object.entries(encoders))('are what the whole is, turn after turn, %s', async (_name, create) => {
    await fc.assert(
      fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 4 }), async (messages) => {
        const encoder = create();
        for (let turns = 1; turns <= messages.length; turns++) {
          const text = chat(messages.slice(0, turns));
          const { ids, cachedTokens, isWhole } = await encode(encoder, tokenizer, text);
          expect(isWhole).toBe(true);
          expect(Buffer.compare(Buffer.from(ids.buffer), Buffer.from(tokenizer.encode(text).buffer))).toBe(0);
          expect(cachedTokens ?? 0).toBeLessThanOrEqual(ids.length);
          // Hashes remembered with the parts are those of the whole.
          const blocks = { blockSizeTokens: 16 };
          expect(hashBlocks(ids, blocks)).toEqual(hashBlocks(Uint32Array.from(ids), blocks));
        }
      }),
      { numRuns: 30 },
    );
  });
});

describe('a prompt encoder', () => {
  const words = (count: number, seed = 0) =>
    Array.from({ length: count }, (_, at) => ` word${(at * 7919 + seed) % 9973}`).join('');

  it('takes a follow-up turn from the cache except for its new part', async () => {
    const encoder = new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24 });
    const first = chat([words(3000), words(3000, 5)]);
    expect((await encode(encoder, qwen, first)).cachedTokens).toBe(0);
    const { ids, cachedTokens } = await encode(encoder, qwen, first + chat([words(20, 9)]));
    expect(ids.length - cachedTokens!).toBeLessThan(600);
    expect(await encode(encoder, qwen, first)).toMatchObject({
      cachedTokens: qwen.encode(first).length,
      waited: false,
    });
  });

  it('takes the same part of two long texts from the cache, without any added token', async () => {
    const encoder = new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24 });
    const shared = words(20_000);
    await encode(encoder, qwen, shared + words(50, 1));
    const { ids, cachedTokens } = await encode(encoder, qwen, shared + words(50, 2));
    expect(cachedTokens! / ids.length).toBeGreaterThan(0.95);
  });

  it('keeps tokenizers apart', async () => {
    const encoder = new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24 });
    const llama = open('Llama 3 pattern, ignore_merges, BOS');
    const text = words(4000);
    await encode(encoder, qwen, text);
    expect(await encode(encoder, llama, text)).toMatchObject({ ids: llama.encode(text), cachedTokens: 0 });
  });

  it('answers at once for short prompts, and later for long ones', async () => {
    const encoder = new PromptEncoder({ clock: systemClock, inlineUnitsMax: 4000 });
    expect((await encode(encoder, qwen, 'hello')).waited).toBe(false);
    expect((await encode(encoder, qwen, words(300))).waited).toBe(false);
    expect((await encode(encoder, qwen, words(3000))).waited).toBe(true);
    expect((await encode(encoder, qwen, '\u65e5\u672c'.repeat(600))).waited).toBe(true);
  });

  it('puts special tokens around the whole, not around parts', async () => {
    const roberta = open('RoBERTa, prefix space and CLS');
    const encoder = new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24 });
    const text = words(4000);
    const options = { addSpecialTokens: true };
    expect((await encode(encoder, roberta, text, options)).ids).toEqual(roberta.encode(text, options));
    expect((await encode(encoder, roberta, 'short', options)).ids).toEqual(roberta.encode('short', options));
  });

  it('stops once there are enough tokens, cached ones included', async () => {
    const encoder = new PromptEncoder({ clock: systemClock, cacheBytesMax: 1 << 24 });
    const text = words(20_000);
    const first = await encode(encoder, qwen, text, { enoughTokens: 5000 });
    expect(first.isWhole).toBe(false);
    expect(first.ids.length).toBeGreaterThanOrEqual(5000);
    expect(first.ids.length).toBeLessThan(10_000);
    const again = await encode(encoder, qwen, text, { enoughTokens: first.ids.length });
    expect(again).toMatchObject({ isWhole: false, cachedTokens: first.ids.length });
    expect((await encode(encoder, qwen, text)).ids).toEqual(qwen.encode(text));
  });

  it('stops between slices when no caller waits any more', async () => {
    let encoded = 0;
    const clock = { ...systemClock, nowMs: () => encoded * 6 };
    const slow: Tokenizer = {
      ...qwen,
      recipe: qwen.recipe,
      cut: (text) => Array.from({ length: 10 }, (_, at) => ((at + 1) * text.length) / 10),
      encode: (text) => {
        encoded++;
        return qwen.encode(text);
      },
    };
    const client = new AbortController();
    const encoder = new PromptEncoder({ clock, inlineUnitsMax: 0 });
    const asked = encode(encoder, slow, 'x'.repeat(10_000), { signal: client.signal });
    client.abort(new Error('gone'));
    await expect(asked).rejects.toThrow('gone');
    expect(encoded).toBeLessThan(3);
    await encoder.close();
    await expect(encode(encoder, slow, 'x'.repeat(10_000))).rejects.toMatchObject({ code: 'service_unavailable' });
  });
});
