import fc from 'fast-check';
import { Tokenizer as Reference } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import { createGeneralTokenizer } from '../../../shared/tokens/general/tokenizer.ts';
import { GENERAL_TOKENIZERS } from '../../support/tokens/variants.ts';

const words = fc
  .array(fc.constantFrom('hello', 'world', 'hell', 'worlds', 'w', '\u00e9', '\u4f60', '!', ',', 'x', '\ud83d\ude42'), {
    maxLength: 12,
  })
  .map((parts) => parts.join(' '));

describe.each(Object.entries(GENERAL_TOKENIZERS))('general tokenizer: %s', (_, make) => {
  const json = make();
  const reference = Reference.fromString(JSON.stringify(json));

  it('is left to the general library', () => {
    expect(createBpeTokenizer(scanTokenizerJson(Buffer.from(JSON.stringify(json))))).toBeUndefined();
  });

  it('encodes and decodes as the reference does, at once and step by step', async () => {
    const tokenizer = await createGeneralTokenizer(json);
    await fc.assert(
      fc.asyncProperty(words, fc.boolean(), async (text, addSpecialTokens) => {
        const expectedIds = (await reference.encode(text, null, { addSpecialTokens })).getIds();
        const ids = [...tokenizer.encode(text, { addSpecialTokens })];
        expect(ids).toEqual(expectedIds);
        const expectedText = ids.length === 0 ? '' : await reference.decode(ids, true);
        expect(tokenizer.decode(ids)).toBe(expectedText);
        const detokenizer = tokenizer.createDetokenizer([]);
        const pieces = ids.map((id) => detokenizer.push(id));
        expect(pieces.join('') + detokenizer.flush()).toBe(expectedText);
      }),
      { numRuns: 60 },
    );
  });

  it('names tokens as the reference does', async () => {
    const tokenizer = await createGeneralTokenizer(json);
    expect(tokenizer.vocabSize).toBe(reference.getVocabSize(true));
    for (let id = 0; id < tokenizer.vocabSize; id++) {
      expect(tokenizer.idToToken(id)).toBe(reference.idToToken(id));
      expect(tokenizer.tokenToId(tokenizer.idToToken(id)!)).toBe(id);
    }
  });
});

describe('general tokenizer, streams', () => {
  it('writes the leading space of a word that continues a prompt', async () => {
    const tokenizer = await createGeneralTokenizer(GENERAL_TOKENIZERS['Llama 2: BPE with byte fallback']!());
    const prompt = tokenizer.encode('hello');
    const detokenizer = tokenizer.createDetokenizer(prompt);
    expect([...tokenizer.encode('hello')].map((id) => detokenizer.push(id)).join('')).toBe(' hello');
  });

  it('holds bytes back until their character is whole, and ends an unfinished one as one mark', async () => {
    const tokenizer = await createGeneralTokenizer(GENERAL_TOKENIZERS['Llama 2: BPE with byte fallback']!());
    const bytes = [...Buffer.from('\ud83d\ude42')].map(
      (byte) => tokenizer.tokenToId(`<0x${byte.toString(16).toUpperCase()}>`)!,
    );
    const whole = tokenizer.createDetokenizer(tokenizer.encode('hello'));
    expect(bytes.map((id) => whole.push(id))).toEqual(['', '', '', '\ud83d\ude42']);
    const cut = tokenizer.createDetokenizer(tokenizer.encode('hello'));
    expect(bytes.slice(0, 2).map((id) => cut.push(id))).toEqual(['', '']);
    expect(cut.flush()).toBe('\ufffd');
    expect(cut.flush()).toBe('');
  });

  it('gives the bytes of a token and which are hidden', async () => {
    const tokenizer = await createGeneralTokenizer(GENERAL_TOKENIZERS['Llama 2: BPE with byte fallback']!());
    expect([...tokenizer.tokenBytes(tokenizer.tokenToId('<0x0A>')!)]).toEqual([10]);
    expect(Buffer.from(tokenizer.tokenBytes(tokenizer.tokenToId('\u2581hello')!)).toString()).toBe(' hello');
    expect(Buffer.from(tokenizer.tokenBytes(tokenizer.tokenToId('</s>')!)).toString()).toBe('</s>');
    expect(tokenizer.tokenBytes(99_999)).toHaveLength(0);
    expect(tokenizer.isSpecial(2)).toBe(true);
    expect(tokenizer.decode([99_999])).toBe('');
  });
});
