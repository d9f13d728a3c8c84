import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TOOL_CALL_PARSERS } from '../../../../shared/config/parser-names.ts';
import type { ToolChoice } from '../../../../shared/protocol/index.ts';
import { anyCut, declare, readCalls } from './read-calls.ts';

const TOOLS = declare({
  f: { a: { type: 'string' }, n: { type: 'integer' }, l: { type: 'array', items: { type: 'number' } }, o: {} },
  get_x: {},
});

/** What models write, in no order that makes sense: every marker of every format, and what stands between them. */
const FRAGMENTS = [
  '<tool_call>|</tool_call>|<TOOLCALL>|</TOOLCALL>|[TOOL_CALLS]|[/TOOL_CALLS]|functools|<tool_calls>|</tool_calls>',
  '<｜tool▁calls▁begin｜>|<｜tool▁calls▁end｜>|<｜tool▁call▁begin｜>|<｜tool▁call▁end｜>|<｜tool▁sep｜>|```json\n|\n```',
  '<｜DSML｜tool_calls>|</｜DSML｜tool_calls>|<｜DSML｜function_calls>|</｜DSML｜function_calls>|<｜DSML｜invoke name="f">',
  '</｜DSML｜invoke>|<｜DSML｜parameter name="a" string="true">|<｜DSML｜parameter name="n" string="false">',
  '</｜DSML｜parameter>|<function=f>|</function>|<parameter=a>|<parameter=n>|</parameter>|<minimax:tool_call>',
  '</minimax:tool_call>|<invoke name="f">|</invoke>|<parameter name="a">|]<]minimax[>[<tool_call>|]<]minimax[>[<a>',
  ']<]minimax[>[</tool_call>|]<]minimax[>[<invoke name="f">|]<]minimax[>[</invoke>|]<]minimax[>[</a>|]<]minimax[>[<o>',
  ']<]minimax[>[</o>|]<]minimax[>[<item>|]<]minimax[>[</item>|f<arg_key>|<arg_key>|</arg_key>|<arg_value>|</arg_value>',
  '<end_message>|call:f{|a:|n:1|<tool_call|>|[TOOL_CALLS|[ARGS|[ARGS]|[CALL_ID]',
  '<｜tool_calls_begin｜>|<｜tool_calls_end｜>|<｜tool_call_begin｜>|<｜tool_call_end｜>|function<｜tool_sep｜>',
  '<steptml:invoke name="f">|</steptml:invoke>|<steptml:parameter name="a">|</steptml:parameter>|<seed:tool_call>',
  '</seed:tool_call>|<longcat_tool_call>|</longcat_tool_call>|<function_calls>|</function_calls>|f(a="x", n=1)',
].flatMap((line) => line.split('|').filter((part) => part !== ''));
const BARRED = [
  '<|python_tag|>',
  '<|tool_calls_section_begin|>',
  '<|tool_calls_section_end|>',
  '<|tool_call_begin|>',
  'functions.f:0',
  '3',
  '<|tool_call_argument_begin|>',
  '<|tool_call_end|>',
  '<|open|>',
  '<|close|>',
  '<|sep|>',
  'response',
  'tools',
  'call tool="f" index="1"',
  'argument key="a"',
  'argument key="n" type="number"',
  'json',
  '<|end_of_msg|>',
  '<|tool_call>',
  '<tool_call|>',
  '<|"|>',
  '<|start|>assistant',
  '<|channel|>commentary to=functions.f ',
  '<|channel|>final',
  '<|constrain|>json',
  '<|message|>',
  '<|call|>',
  '<|end|>',
  '<|message_model|>',
  '<|content_invoke_tool_json|>',
  '<|end_message|>',
  '<|python_start|>',
  '<|tool_call|>',
  '<|action_start|><|plugin|>',
  '<|action_end|>',
  '<|tool_call_start|>',
];
const JSON_BITS = [
  '{"name":"f","arguments":{"a":"x","n":1}}',
  '{"name":"f","arguments":',
  '{"arguments":{"a":1},"name":"get_x"}',
  '{"name":"f","args":{"a":"</tool_call>"}}',
  '{"name":"f"}',
  "{'name': 'f', 'arguments': {'a': True, 'n': None}}",
  "'a\\'b'",
  'None',
  'Tru',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  ';',
  '"',
  '\\',
  '"name"',
  '"a b"',
  'null',
  '-1.50',
  'true',
  '[f(a=1)]',
  '[f(a="x", n=[1, {"k": None}]), get_x()]',
  '[f(',
];
const PROSE = [' ', '\n', '\n\n', 'word', 'f', 'a < b', '&amp;', '&lt;', '&', 'é😀', '\ud83d', 'nu', "'"];

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
