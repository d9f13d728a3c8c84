import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { Tokenizer as Reference } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import type { Tokenizer } from '../../../shared/tokens/index.ts';
import { anyText } from '../../support/tokens/texts.ts';
import { BYTE_LEVEL_VARIANTS, builtinTokenizer } from '../../support/tokens/variants.ts';

interface Pair {
  readonly ours: Tokenizer;
  readonly reference: Reference;
}

function makePair(name: string): Pair {
  const json = builtinTokenizer();
  BYTE_LEVEL_VARIANTS[name]!(json);
  const text = JSON.stringify(json);
  const ours = createBpeTokenizer(scanTokenizerJson(Buffer.from(text)));
  if (ours === undefined) throw new Error(`${name} is not covered by the byte-level tokenizer`);
  return { ours, reference: Reference.fromString(text) };
}

async function referenceIds(pair: Pair, text: string, addSpecialTokens: boolean): Promise<number[]> {
  return (await pair.reference.encode(text, null, { addSpecialTokens })).getIds();
}

/** Joined pieces of an incremental decode; fails when a piece ends inside a character. */
function decodeStepwise(tokenizer: Tokenizer, ids: readonly number[], skipSpecialTokens: boolean): string {
  const detokenizer = tokenizer.createDetokenizer([], { skipSpecialTokens });
  let text = '';
  for (const id of ids) {
    const piece = detokenizer.push(id);
    expect(piece).toBe(piece.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, ''));
    text += piece;
  }
  return text + detokenizer.flush();
}

describe.each(Object.keys(BYTE_LEVEL_VARIANTS))('byte-level tokenizer: %s', (name) => {
  const pair = makePair(name);

  it('encodes as the reference does', async () => {
    await fc.assert(
      fc.asyncProperty(anyText, fc.boolean(), async (text, addSpecialTokens) => {
        const ids = [...pair.ours.encode(text, { addSpecialTokens })];
        expect(ids).toEqual(await referenceIds(pair, text, addSpecialTokens));
      }),
      { numRuns: 150 },
    );
  });

  it('decodes any ids as the reference does, at once and step by step', async () => {
    const knownIds = fc.integer({ min: 0, max: 1830 }).filter((id) => pair.ours.idToToken(id) !== undefined);
    await fc.assert(
      fc.asyncProperty(fc.array(knownIds, { minLength: 1, maxLength: 20 }), fc.boolean(), async (ids, skip) => {
        const expected = await pair.reference.decode(ids, skip);
        expect(pair.ours.decode(ids, { skipSpecialTokens: skip })).toBe(expected);
        expect(decodeStepwise(pair.ours, ids, skip)).toBe(expected);
      }),
      { numRuns: 100 },
    );
  });

  it('knows every token by the same name', () => {
    expect(pair.ours.vocabSize).toBe(pair.reference.getVocabSize(true));
    for (let id = 0; id <= 1830; id++) {
      const token = pair.reference.idToToken(id) ?? undefined;
      expect(pair.ours.idToToken(id)).toBe(token);
      if (token !== undefined) expect(pair.ours.tokenToId(token)).toBe(pair.reference.tokenToId(token));
    }
  });
});

describe('byte-level tokenizer, long texts', () => {
  const pair = makePair('Qwen pattern, NFC');
  const letters = (count: number, pick: (at: number) => number): string =>
    Array.from({ length: count }, (_, at) => String.fromCodePoint(pick(at))).join('');

  it.each([
    ['one letter', 'a'.repeat(50_000)],
    ['letters without order', letters(30_000, (at) => 97 + ((at * at * 7919) % 26))],
    ['ideographs', letters(20_000, (at) => 0x4e00 + ((at * 7919) % 20_000))],
    ['blanks', `${' '.repeat(20_000)}x`],
    ['line ends', '\n'.repeat(20_000)],
    ['marks', '!?'.repeat(10_000)],
    ['emoji', '\ud83d\ude42'.repeat(5_000)],
    ['added tokens', '<|im_start|>user\n'.repeat(3_000)],
    ['an unclosed mark of an added token', '<|'.repeat(10_000)],
  ])('encodes %s as the reference does', async (_, text) => {
    expect([...pair.ours.encode(text)]).toEqual(await referenceIds(pair, text, false));
  });

  it('stays right when more different words pass than its cache holds', () => {
    const word = (at: number): string => ` w${at.toString(36)}`;
    const text = Array.from({ length: 120_000 }, (_, at) => word(at)).join('');
    const first = pair.ours.encode(text);
    expect(isDeepStrictEqual(pair.ours.encode(text), first)).toBe(true); // half a million ids: vitest takes seconds
    expect(pair.ours.decode(first)).toBe(text);
    expect(pair.ours.encode(word(7))).toEqual(pair.ours.encode(word(7)));
  });

  it('encodes nothing to nothing', () => {
    expect(pair.ours.encode('')).toHaveLength(0);
    expect(pair.ours.decode([])).toBe('');
  });
});

describe('byte-level tokenizer, tokens', () => {
  const { ours } = makePair('Qwen pattern, NFC');

  it('gives the true bytes of a token, also of a part of a character', () => {
    const ids = [...ours.encode('\u4f60 x')];
    expect(Buffer.concat(ids.map((id) => ours.tokenBytes(id))).toString()).toBe('\u4f60 x');
    expect(ours.tokenBytes(ours.tokenToId('<|im_end|>')!)).toEqual(new Uint8Array(Buffer.from('<|im_end|>')));
    expect(ours.tokenBytes(999_999)).toHaveLength(0);
  });

  it('knows which tokens are hidden', () => {
    expect(ours.isSpecial(ours.tokenToId('<|im_end|>')!)).toBe(true);
    expect(ours.isSpecial(ours.tokenToId('<think>')!)).toBe(false);
    expect(ours.isSpecial(999_999)).toBe(false);
  });

  it('passes over ids that do not exist', () => {
    expect(ours.decode([999_999, -1, ...ours.encode('ok')])).toBe('ok');
    expect(ours.createDetokenizer([]).push(999_999)).toBe('');
    expect(ours.tokenToId('no such token')).toBeUndefined();
  });
});

describe('byte-level detokenizer', () => {
  const { ours } = makePair('Qwen pattern, NFC');

  it('holds a character back until it is whole', () => {
    const detokenizer = ours.createDetokenizer([]);
    const pieces = [...ours.encode('\ud83d\ude42')].map((id) => detokenizer.push(id));
    expect(pieces).toEqual(['', '', '', '\ud83d\ude42']);
    expect(detokenizer.flush()).toBe('');
  });

  it('ends an unfinished character as one replacement character', () => {
    const detokenizer = ours.createDetokenizer([]);
    for (const id of ours.encode('\ud83d\ude42').slice(0, 3)) expect(detokenizer.push(id)).toBe('');
    expect(detokenizer.flush()).toBe('\ufffd');
    expect(detokenizer.flush()).toBe('');
  });

  it('completes a character that the prompt began', () => {
    const ids = [...ours.encode('ab\u4f60')];
    const detokenizer = ours.createDetokenizer(ids.slice(0, -1));
    expect(detokenizer.push(ids.at(-1)!)).toBe('\u4f60');
  });

  it('repeats nothing of the prompt', () => {
    const detokenizer = ours.createDetokenizer(ours.encode('Once upon a time'));
    expect([...ours.encode(' there')].map((id) => detokenizer.push(id)).join('')).toBe(' there');
  });

  it('keeps what it holds across a hidden token and gives it up before a shown one', () => {
    const [first, second, third] = [...ours.encode('\u4f60')];
    const end = ours.tokenToId('<|im_end|>')!;
    const hiding = ours.createDetokenizer([]);
    expect([first!, end, second!, third!].map((id) => hiding.push(id)).join('')).toBe('\u4f60');
    const showing = ours.createDetokenizer([], { skipSpecialTokens: false });
    expect([first!, end].map((id) => showing.push(id)).join('')).toBe('\ufffd<|im_end|>');
  });
});
