import { describe, expect, it } from 'vitest';
import { scanTokenizerJson } from '../../../shared/tokens/bpe/build-tables.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import type { Tokenizer } from '../../../shared/tokens/index.ts';
import { builtinTokenizer } from '../../support/tokens/variants.ts';

const open = (text: string): Tokenizer => createBpeTokenizer(scanTokenizerJson(Buffer.from(text)))!;
const TEXT = 'Hello, worker! <|im_end|> caf\u00e9 \u4f60\u597d';

describe('scanTokenizerJson', () => {
  const expected = [...open(JSON.stringify(builtinTokenizer())).encode(TEXT)];

  it('reads the same tables however the JSON is written', () => {
    const json = builtinTokenizer();
    const { vocab, merges, ...model } = json.model;
    const escaped = JSON.stringify(json).replace(
      /[\u007f-\uffff]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    const forms = [
      JSON.stringify(json, null, '\t'),
      escaped,
      JSON.stringify({ ...json, model: { merges, ...model, vocab } }),
      JSON.stringify(Object.fromEntries(Object.entries(json).reverse())),
    ];
    for (const form of forms) expect([...open(form).encode(TEXT)]).toEqual(expected);
  });

  it('leaves everything but the two big tables as plain JSON', () => {
    const json = builtinTokenizer();
    const { rest } = scanTokenizerJson(Buffer.from(JSON.stringify(json)));
    expect(rest).toEqual({ ...json, model: { ...json.model, vocab: null, merges: null } });
  });

  it('makes no tables of a vocabulary that is not byte-level', () => {
    const json = builtinTokenizer();
    delete json.model.vocab['!'];
    expect(scanTokenizerJson(Buffer.from(JSON.stringify(json))).tables).toBeUndefined();
  });

  it.each([
    ['a negative id', '{"model": {"vocab": {"a": -1}, "merges": []}}', 'token id'],
    ['a huge id', '{"model": {"vocab": {"a": 4000000001}, "merges": []}}', 'token id'],
    ['an id that is not a number', '{"model": {"vocab": {"a": "1"}, "merges": []}}', 'token id'],
    ['a bad escape', '{"model": {"vocab": {"\\q": 1}, "merges": []}}', 'bad escape'],
    ['an end inside a string', '{"model": {"vocab": {"abc', 'unterminated'],
    ['an end inside a list', '{"added_tokens": [1, 2', 'unexpected end'],
    ['a bracket too many', '{"a": ]}', 'closing bracket'],
  ])('names the byte of %s', (_, text, words) => {
    expect(() => scanTokenizerJson(Buffer.from(text))).toThrow(SyntaxError);
    expect(() => scanTokenizerJson(Buffer.from(text))).toThrow(words);
    expect(() => scanTokenizerJson(Buffer.from(text))).toThrow(/at byte \d+$/);
  });
});
