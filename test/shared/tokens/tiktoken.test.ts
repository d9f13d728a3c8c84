import fc from 'fast-check';
import { Tokenizer as Reference } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { toWellFormed, unspellBytes } from '../../../shared/tokens/bpe/byte-text.ts';
import { scanTiktoken } from '../../../shared/tokens/bpe/tiktoken.ts';
import { createBpeTokenizer } from '../../../shared/tokens/bpe/tokenizer.ts';
import type { Tokenizer } from '../../../shared/tokens/index.ts';
import { completeTiktoken } from '../../../shared/tokens/load-tokenizer.ts';
import { anyText } from '../../support/tokens/texts.ts';
import { builtinTokenizer } from '../../support/tokens/variants.ts';

const BYTES = Array.from({ length: 256 }, (_, byte) => Buffer.of(byte));

/** A tiktoken file of tokens in order of their rank. */
const fileOf = (tokens: readonly Buffer[]): Buffer =>
  Buffer.from(tokens.map((token, rank) => `${token.toString('base64')} ${rank}\n`).join(''));
const open = (tokens: readonly Buffer[], config: Readonly<Record<string, unknown>> = {}): Tokenizer =>
  createBpeTokenizer(completeTiktoken(scanTiktoken(fileOf(tokens)), 'kimi_k2', config))!;

/** tiktoken's own definition: a token as a whole, else the adjacent parts of the lowest rank together, again and again. */
function encodeNaively(tokens: readonly Buffer[], word: string): number[] {
  const ranks = new Map(tokens.map((token, rank) => [token.toString('latin1'), rank]));
  const whole = ranks.get(Buffer.from(word).toString('latin1'));
  if (whole !== undefined) return [whole];
  const parts = [...Buffer.from(word)].map((byte) => String.fromCharCode(byte));
  for (;;) {
    const pairs = parts.slice(1).map((part, at) => ranks.get(parts[at]! + part) ?? Number.POSITIVE_INFINITY);
    const lowest = Math.min(...pairs);
    if (lowest === Number.POSITIVE_INFINITY) return parts.map((part) => ranks.get(part)!);
    const at = pairs.indexOf(lowest);
    parts.splice(at, 2, parts[at]! + parts[at + 1]!);
  }
}

const word = (lengthMin: number, lengthMax: number): fc.Arbitrary<string> =>
  fc
    .array(fc.constantFrom('a', 'b', 'c', 'é'), { minLength: lengthMin, maxLength: lengthMax })
    .map((letters) => letters.join(''));

describe('tiktoken files', () => {
  it('encode words as their ranks say, in any order of ranks and with tokens that no merge leads to', () => {
    const vocabulary = fc
      .uniqueArray(word(2, 6), { maxLength: 30 })
      .chain((words) =>
        fc.shuffledSubarray([...BYTES, ...words.map((text) => Buffer.from(text))], { minLength: 256 + words.length }),
      );
    fc.assert(
      fc.property(vocabulary, fc.array(word(1, 60), { minLength: 1, maxLength: 5 }), (tokens, words) => {
        const tokenizer = open(tokens);
        for (const text of words) expect([...tokenizer.encode(text)]).toEqual(encodeNaively(tokens, text));
      }),
      { numRuns: 300 },
    );
  });

  it('encode any text as the same vocabulary and words of a tokenizer.json', async () => {
    const json = builtinTokenizer();
    const entries = Object.entries(json.model.vocab).sort((a, b) => a[1] - b[1]);
    const ours = open(entries.map(([token]) => Buffer.from(unspellBytes(token)!)));
    const letters = (first: string): string => `[${first}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]`;
    const [upper, lower] = [letters('\\p{Lu}\\p{Lt}'), letters('\\p{Ll}')];
    const ending = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
    const pattern = `[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${ending}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${ending}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
    const reference = Reference.fromString(
      JSON.stringify({
        ...json,
        normalizer: null,
        added_tokens: [],
        model: { ...json.model, ignore_merges: true },
        pre_tokenizer: {
          type: 'Sequence',
          pretokenizers: [
            { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false },
            { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
          ],
        },
      }),
    );
    await fc.assert(
      fc.asyncProperty(anyText, async (text) => {
        const expected = (await reference.encode(toWellFormed(text), null, { addSpecialTokens: false })).getIds();
        expect([...ours.encode(text)]).toEqual(expected);
        expect(ours.decode(ours.encode(text))).toBe(toWellFormed(text));
      }),
      { numRuns: 300 },
    );
  });

  it('split Han characters from letters, letters at changes of case, and numbers by three', () => {
    const words = ['Hello', ',', ' World', '你好', '，', '世界', 'Camel', 'Case', '123', '45', '\n\n', ' the', ' end'];
    const tokens = [...BYTES, ...words.filter((text) => Buffer.byteLength(text) > 1).map((text) => Buffer.from(text))];
    const tokenizer = open(tokens);
    const ids = [...tokenizer.encode('Hello, World你好，世界CamelCase12345\n\n the end')];
    expect(ids.map((id) => tokenizer.decode([id]))).toEqual(words);
  });

  it('name the special tokens of tokenizer_config.json, and reserve 256 ids', () => {
    const tokenizer = open(BYTES, {
      added_tokens_decoder: {
        256: { content: '[BOS]', special: true },
        258: { content: '<think>', special: false },
        9000: { content: '<|far|>' },
      },
    });
    expect(tokenizer.idToToken(256)).toBe('[BOS]');
    expect(tokenizer.idToToken(257)).toBe('<|reserved_token_257|>');
    expect(tokenizer.idToToken(511)).toBe('<|reserved_token_511|>');
    expect(tokenizer.idToToken(512)).toBeUndefined();
    expect(tokenizer.tokenToId('<|far|>')).toBe(9000);
    expect([256, 257, 258, 9000].map((id) => tokenizer.isSpecial(id))).toEqual([true, true, false, true]);
    expect(tokenizer.vocabSize).toBe(256 + 256 + 1);
    expect([...tokenizer.encode('[BOS]a<think>')]).toEqual([256, 97, 258]);
    expect(tokenizer.decode([256, 97, 258])).toBe('a<think>');
  });

  it('take line ends of either kind, empty lines and a last line without an end', () => {
    const text = fileOf(BYTES).toString();
    const expected = scanTiktoken(Buffer.from(text));
    expect(scanTiktoken(Buffer.from(text.replaceAll('\n', '\r\n')))).toEqual(expected);
    expect(scanTiktoken(Buffer.from(`\n${text.replaceAll('\n', '\n\n').trimEnd()}`))).toEqual(expected);
  });

  it.each([
    ['no rank', 'YQ==\n', 'line 1: not a token in base64'],
    ['an empty rank', 'YQ== \n', 'line 1: not a token in base64'],
    ['a rank that is not a number', 'YQ== 1\nYg== x', 'line 2: not a token in base64'],
    ['a negative rank', 'YQ== -1', 'line 1: not a token in base64'],
    ['a huge rank', 'YQ== 99999999999', 'line 1: a rank above'],
    ['no token', ' 3', 'line 1: not a token'],
    ['bytes that are no base64', '\u0000\u0001\u0002', 'line 1: not a token'],
    ['too little for a byte', 'A 0', 'line 1: the token is not valid base64'],
    ['a text after the rank', 'YQ== 1 2', 'line 1: not a token in base64'],
    ['a token of enormous length', `${'A'.repeat(4000)} 0`, 'line 1: a token of more than 1024 bytes'],
    ['too few tokens', 'YQ== 0\n', 'a byte has no token of its own'],
    ['nothing', '', 'a byte has no token of its own'],
    ['the same token twice', `${fileOf(BYTES).toString()}YQ== 256\n`, 'listed twice'],
  ])('are refused with %s', (_, text, message) => {
    expect(() => scanTiktoken(Buffer.from(text))).toThrow(SyntaxError);
    expect(() => scanTiktoken(Buffer.from(text))).toThrow(message);
  });

  it('never crash the reader, with any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(() => scanTiktoken(bytes)).toThrow(SyntaxError);
      }),
    );
  });
});
