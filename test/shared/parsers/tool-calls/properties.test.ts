import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TOOL_CALL_PARSERS } from '../../../../shared/config/parser-names.ts';
import type { ToolChoice } from '../../../../shared/protocol/index.ts';
import { BARRED, FRAGMENTS, JSON_BITS, PROSE } from '../../../support/model-texts.ts';
import { anyCut, declare, readCalls } from './read-calls.ts';

const TOOLS = declare({
  f: { a: { type: 'string' }, n: { type: 'integer' }, l: { type: 'array', items: { type: 'number' } }, o: {} },
  get_x: {},
});

const soup = fc
  .array(
    fc.oneof(
      fc.constantFrom(...FRAGMENTS),
      fc.constantFrom(...BARRED),
      fc.constantFrom(...JSON_BITS),
      fc.constantFrom(...PROSE),
      fc.string({ unit: 'binary', maxLength: 4 }),
    ),
    { maxLength: 24 },
  )
  .map((parts) => parts.join(''));

/** Markup with words strewn in between, each of which stands there once. */
const wordSoup = fc
  .array(
    fc.oneof(
      fc.constantFrom(...FRAGMENTS),
      fc.constantFrom(...BARRED),
      fc.constantFrom(...JSON_BITS),
      fc.constantFrom(' word ', ' word ', '\n', 'word', '"word"', '</parameter>word'),
    ),
    { maxLength: 24 },
  )
  .map((parts) => {
    const words: string[] = [];
    const numbered = parts.map((part) =>
      part.replace('word', () => {
        words.push(`w${words.length}z`);
        return words.at(-1)!;
      }),
    );
    return { text: numbered.join(''), words };
  });

const cutSoup = soup.chain((text) => fc.tuple(fc.constant(text), anyCut(text)));
const CHOICES: readonly ToolChoice[] = ['auto', 'required', { name: 'f' }];

describe.each(TOOL_CALL_PARSERS)('%s', (name) => {
  it('reads any text the same however it is cut, and never takes back what it showed', () => {
    fc.assert(
      fc.property(
        cutSoup,
        fc.constantFrom(...CHOICES),
        fc.boolean(),
        ([text, pieces], toolChoice, parallelToolCalls) => {
          const options = { tools: TOOLS, toolChoice, parallelToolCalls };
          const whole = readCalls(name, [text], options);
          const shown = readCalls(name, pieces, options, (soFar) => {
            expect(whole.content.startsWith(soFar.content)).toBe(true);
            for (const [index, call] of soFar.calls.entries()) {
              expect(whole.calls[index]).toMatchObject({ id: call.id, name: call.name });
              expect(whole.calls[index]!.arguments.startsWith(call.arguments)).toBe(true);
            }
          });
          expect(shown).toEqual(whole);
          if (!parallelToolCalls) expect(shown.calls.length).toBeLessThanOrEqual(1);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('loses no word: each is content, or a part of a call', () => {
    fc.assert(
      fc.property(wordSoup, ({ text, words }) => {
        const { content, calls } = readCalls(name, [text], { tools: TOOLS });
        const shown = content + calls.map((call) => call.id + call.name + call.arguments).join('');
        expect(words.filter((word) => !shown.includes(word))).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });

  it('passes plain prose on at once, but for white space that may belong to markup', () => {
    const words = ['Plain ', 'prose, ', 'with 3 > 2 ', 'and 50 % ', 'of it: ', 'done.'];
    const shown: string[] = [];
    readCalls(name, words, { tools: TOOLS }, ({ content }) => shown.push(content.trimEnd()));
    expect(shown).toEqual(
      words.map((_, at) =>
        words
          .slice(0, at + 1)
          .join('')
          .trimEnd(),
      ),
    );
  });
});

describe('endless output', () => {
  const FLOODS: readonly (readonly [string, string, string])[] = [
    ['hermes', '<tool_call>{"name":"f"}</tool_call>', '\n'],
    ['hermes', '{"name":"f","arguments":{}}', ' '],
    ['mistral', '[TOOL_CALLS]', 'f'],
    ['mistral', '', '[TOOL_CALLS]f[ARGS]{}'],
    ['hermes', '<tool_call>{"name":"f","arguments":{"a":"', '\\n'],
    ['qwen3_coder', '<function=f><parameter=a>x', '\n'],
    ['deepseek_v4', 'Hi', '\n'],
    ['pythonic', '', '[f('],
    ['pythonic', '', '[f(a='],
    ['minimax_m2', '<invoke name="f">', '<parameter name="a">'],
    ['minimax_m3', ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">', ']<]minimax[>[<a>'],
    ['gemma4', '<|tool_call>call:f{a:', '{a:'],
    ['glm47', '', '<tool_call>'],
  ];

  it.each(FLOODS)('%s reads %j and then no end of %j', (name, start, flood) => {
    const pieces = [start, ...Array.from({ length: 20_000 }, () => flood)];
    const whole = readCalls(name, [pieces.join('')], { tools: TOOLS, finish: 'length' });
    expect(readCalls(name, pieces, { tools: TOOLS, finish: 'length' })).toEqual(whole);
  });
});
