import { describe, expect, it } from 'vitest';
import { declare, readCalls } from './read-calls.ts';

/** What models of a family write, beside what their newest template writes, and what they write wrong. */

const TOOLS = declare({
  f: { a: { type: 'string' }, n: { type: 'integer' }, b: { type: 'string' } },
  g: {},
  edit: { old: { type: 'string' }, new: { type: 'string' } },
});
const D = '<｜DSML｜';
const DE = '</｜DSML｜';

/** Parser, text, content, calls as `name(arguments)`. */
type Case = readonly [parser: string, what: string, text: string, content: string, ...calls: string[]];

const CASES: readonly Case[] = [
  // Mistral
  ['mistral', 'names and arguments', '[TOOL_CALLS]f[ARGS]{"a":"x"}[TOOL_CALLS]g[ARGS]{}', '', 'f({"a":"x"})', 'g({})'],
  ['mistral', 'ids', 'So. [TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{"n":1}', 'So. ', 'f({"n":1})'],
  ['mistral', 'no [ARGS]', '[TOOL_CALLS]f{"n": 1}</s>', '</s>', 'f({"n": 1})'],
  ['mistral', 'no arguments', '[TOOL_CALLS]g[ARGS][TOOL_CALLS]g[ARGS]""', '', 'g({})', 'g({})'],
  ['mistral', 'white space', '[TOOL_CALLS] f [ARGS] {"n":1} \n[TOOL_CALLS]g{}', '', 'f({"n":1})', 'g({})'],
  ['mistral', 'text behind', '[TOOL_CALLS]f[ARGS]{"n":1} Done [1].', ' Done [1].', 'f({"n":1})'],
  [
    'mistral',
    'a marker in a string',
    '[TOOL_CALLS]f[ARGS]{"a":"[TOOL_CALLS]g[ARGS]{}"}',
    '',
    'f({"a":"[TOOL_CALLS]g[ARGS]{}"})',
  ],
  ['mistral', 'a marker without a call', 'Say [TOOL_CALLS] here', 'Say [TOOL_CALLS] here'],
  ['mistral', 'a name alone', '[TOOL_CALLS]f', '[TOOL_CALLS]f'],
  ['mistral', 'arguments that are not JSON', '[TOOL_CALLS]f[ARGS]oops', '[TOOL_CALLS]f[ARGS]oops'],
  ['mistral', 'a list of objects', '[TOOL_CALLS] [{"name": "f", "arguments": {"n": 1}}]', '', 'f({"n": 1})'],
  ['mistral', 'JSON of another kind', '[TOOL_CALLS]{"x":1}', '[TOOL_CALLS]{"x":1}'],
  // Hermes and Qwen
  ['hermes', 'a bare answer', '{"name":"Ada Lovelace","born":1815}', '{"name":"Ada Lovelace","born":1815}'],
  ['hermes', 'a bare answer about a tool', '{"name":"f","arguments":["a"]}', '{"name":"f","arguments":["a"]}'],
  [
    'hermes',
    'a bare list of people',
    '[{"name":"f"},{"name":"g","arguments":{}}]',
    '[{"name":"f"},{"name":"g","arguments":{}}]',
  ],
  ['hermes', 'bare calls', '[{"name":"g","arguments":{}},{"name":"f","arguments":{"n":1}}]', '', 'g({})', 'f({"n":1})'],
  [
    'hermes',
    'a function in XML',
    '<tool_call>\n<function=f>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>',
    '',
    'f({"n":3})',
  ],
  ['hermes', 'a brace too many', '<tool_call>{"name":"g","arguments":{}}}\n</tool_call>', '', 'g({})'],
  ['hermes', 'a brace too few', '<tool_call>{"name":"f","arguments":{"n":1}\n</tool_call>', '', 'f({"n":1})'],
  [
    'hermes',
    'a fence',
    '<tool_call>\n```json\n{"name":"g","arguments":{}}\n```\n</tool_call>',
    '<tool_call>\n```json\n```\n',
    'g({})',
  ],
  [
    'hermes',
    'two in one',
    '<tool_call>{"name":"g","arguments":{}}\n{"name":"f","arguments":{}}</tool_call>',
    '',
    'g({})',
    'f({})',
  ],
  ['hermes', 'no arguments', '<tool_call>{"name":"g","arguments":""}</tool_call>', '', 'g({})'],
  [
    'hermes',
    'text between',
    'A <tool_call>{"name":"g"}</tool_call> B <tool_call>{"name":"g"}</tool_call> C',
    'A  B  C',
    'g({})',
    'g({})',
  ],
  ['hermes', 'text inside', '<tool_call>{"name":"g"} so</tool_call>', 'so', 'g({})'],
  ['qwen3', 'JSON', '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>', '', 'f({"n": 1})'],
  ['qwen3_coder', 'JSON for arguments', '<tool_call><function=f>{"n":1}</function></tool_call>', '', 'f({"n":1})'],
  ['qwen3_coder', 'an opener that is torn', '<tool_call><function=f', '<tool_call><function=f'],
  [
    'qwen3_coder',
    'text between parameters',
    '<function=f>so <parameter=n>1</parameter></function>',
    'so ',
    'f({"n":1})',
  ],
  [
    'qwen3_coder',
    'all arguments in one parameter',
    '<function=f><parameter=arguments>{"n":1}</parameter></function>',
    '',
    'f({"n":1})',
  ],
  // Parameters without a closing tag
  [
    'qwen3_coder',
    'the next parameter',
    '<tool_call>\n<function=f>\n<parameter=a>\nNYC\n<parameter=n>\n3\n</function>\n</tool_call>',
    '',
    'f({"a":"NYC","n":3})',
  ],
  ['qwen3_coder', 'on one line', '<function=f><parameter=n>3<parameter=a>NYC</function>', '', 'f({"n":3,"a":"NYC"})'],
  [
    'qwen3_coder',
    'talk of a parameter',
    '<function=f><parameter=a>\nuse <parameter=x> or <parameter=a>\n</parameter></function>',
    '',
    'f({"a":"use <parameter=x> or <parameter=a>"})',
  ],
  [
    'minimax_m2',
    'the next parameter',
    '<minimax:tool_call><invoke name="f"><parameter name="a">NYC<parameter name="n">3</invoke></minimax:tool_call>',
    '',
    'f({"a":"NYC","n":3})',
  ],
  [
    'glm47',
    'the next key',
    '<tool_call>f<arg_key>a</arg_key><arg_value>NYC<arg_key>n</arg_key><arg_value>3</tool_call>',
    '',
    'f({"a":"NYC","n":3})',
  ],
  [
    'glm47',
    'the end of the block, with text behind',
    '<tool_call>f<arg_key>a</arg_key><arg_value>NYC</tool_call> ok',
    ' ok',
    'f({"a":"NYC"})',
  ],
  [
    'glm47',
    'talk of the end of the block',
    '<tool_call>f<arg_key>a</arg_key><arg_value>x</tool_call> y</arg_value></tool_call>',
    '',
    'f({"a":"x</tool_call> y"})',
  ],
  [
    'deepseek_v4',
    'the next parameter',
    `${D}tool_calls>${D}invoke name="f">${D}parameter name="a" string="true">NYC${D}parameter name="n" string="false">3${DE}invoke>${DE}tool_calls>`,
    '',
    'f({"a":"NYC","n":3})',
  ],
  // White space of values
  [
    'qwen3_coder',
    'lines of code',
    '<function=edit>\n<parameter=new>\n    total += row\n        log(row)\n\n</parameter>\n</function>',
    '',
    'edit({"new":"    total += row\\n        log(row)\\n"})',
  ],
  ['qwen3_coder', 'an empty value', '<function=f>\n<parameter=a>\n\n</parameter>\n</function>', '', 'f({"a":""})'],
  [
    'minimax_m2',
    'all of it',
    '<invoke name="edit"><parameter name="new">\n  x\n</parameter></invoke>',
    '',
    'edit({"new":"\\n  x\\n"})',
  ],
  [
    'deepseek_v3_2',
    'all of it',
    `${D}invoke name="edit">${D}parameter name="new" string="true">\n  x\n${DE}parameter>${DE}invoke>`,
    '',
    'edit({"new":"\\n  x\\n"})',
  ],
  [
    'glm47',
    'all of it',
    '<tool_call>edit<arg_key>new</arg_key><arg_value>  x\n</arg_value></tool_call>',
    '',
    'edit({"new":"  x\\n"})',
  ],
  [
    'glm47',
    'a text that looks like JSON',
    '<tool_call>f<arg_key>a</arg_key><arg_value>{"k": 1}</arg_value></tool_call>',
    '',
    'f({"a":"{\\"k\\": 1}"})',
  ],
  // DeepSeek
  [
    'deepseek_v3_1',
    'as V3 writes',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"n": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    '',
    'f({"n":1})',
  ],
  [
    'deepseek_v3',
    'as V3.1 writes',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"n":1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    '',
    'f({"n":1})',
  ],
  ['deepseek_v3_1', 'no outer marker', '<｜tool▁call▁begin｜>g<｜tool▁sep｜><｜tool▁call▁end｜> ok', ' ok', 'g({})'],
  [
    'deepseek_v4',
    'the block of V3.2',
    `${D}function_calls>${D}invoke name="g">${DE}invoke>${DE}function_calls>`,
    '',
    'g({})',
  ],
  [
    'deepseek_v4',
    'JSON for arguments',
    `${D}tool_calls>${D}invoke name="f">{"n":1}${DE}invoke>${DE}tool_calls>`,
    '',
    'f({"n":1})',
  ],
  // Others
  ['glm47', 'JSON', '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>', '', 'f({"n": 1})'],
  ['phi4', 'its tokens', '<|tool_call|>[{"name":"f","arguments":{"n":1}}]<|/tool_call|>', '', 'f({"n":1})'],
  [
    'kimi_k2',
    'an id without a number',
    '<|tool_call_begin|>functions.g<|tool_call_argument_begin|>{}<|tool_call_end|>',
    '',
    'g({})',
  ],
  [
    'kimi_k2',
    'no arguments',
    '<|tool_call_begin|>functions.g:0<|tool_call_argument_begin|><|tool_call_end|>',
    '',
    'g({})',
  ],
  [
    'kimi_k2',
    'an object in a string',
    '<|tool_call_begin|>g:0<|tool_call_argument_begin|>"{\\"n\\":1}"<|tool_call_end|>',
    '',
    'g({"n":1})',
  ],
  [
    'gemma4',
    'values without quotes',
    '<|tool_call>call:f{a:New York,n:3}<tool_call|>',
    '',
    'f({"a":"New York","n":3})',
  ],
  ['gemma4', 'JSON', '<|tool_call>call:f{"a":"x,y","n":3}<tool_call|>', '', 'f({"a":"x,y","n":3})'],
  ['gemma4', 'no end marker', '<|tool_call>call:f{n:3}', '', 'f({"n":3})'],
  ['pythonic', 'text around', 'A [g()] B', 'A  B', 'g({})'],
  // Harmony
  [
    'harmony',
    'analysis',
    '<|channel|>analysis to=functions.f code<|message|>{"a":"tea"}<|call|>',
    '',
    'f({"a":"tea"})',
  ],
  [
    'harmony',
    'the final channel',
    '<|start|>assistant<|channel|>final to=functions.g <|constrain|>json<|message|>{}<|call|>',
    '',
    'g({})',
  ],
  [
    'harmony',
    'the role',
    '<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"n":1}<|call|>',
    '',
    'f({"n":1})',
  ],
  ['harmony', 'the very start', ' to=functions.f<|channel|>analysis<|message|>{"n":1}<|call|>', '', 'f({"n":1})'],
  ['harmony', 'a tool of the model', '<|channel|>analysis to=python code<|message|>print(1)<|call|>', 'print(1)'],
  [
    'harmony',
    'arguments that are not JSON',
    '<|channel|>commentary to=functions.f<|message|>{"n":<|call|>',
    '',
    'f({"n":)',
  ],
];

describe.each(CASES)('%s, %s: %s', (parser, _what, text, content, ...calls) => {
  it('is read in one piece and character by character', () => {
    for (const pieces of [[text], [...text]]) {
      const read = readCalls(parser, pieces, { tools: TOOLS });
      expect([read.content, ...read.calls.map((call) => `${call.name}(${call.arguments})`)]).toEqual([
        content,
        ...calls,
      ]);
      expect(read.reason).toBe(calls.length > 0 ? 'tool_calls' : 'stop');
    }
  });
});

describe('ids that a model gives', () => {
  it("are its calls'", () => {
    const text = '[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{}[TOOL_CALLS]g[CALL_ID]def456UVW[ARGS]{}';
    expect(readCalls('mistral', [text]).calls.map((call) => call.id)).toEqual(['abc123XYZ', 'def456UVW']);
  });

  it('are unique for every output of the random source', () => {
    const call = '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>';
    const ids = readCalls('kimi_k2', [call.repeat(3)]).calls.map((one) => one.id);
    expect(ids.slice(0, 2)).toEqual(['functions.f:0', 'functions.f:1']);
    expect(new Set(ids).size).toBe(3);
  });
});

describe('values by the schema of their parameter', () => {
  const ROOT = {
    type: 'object',
    $defs: {
      Count: { type: 'integer' },
      Loop: { anyOf: [{ $ref: '#/$defs/Loop' }, { type: 'null' }] },
      Point: { type: 'object', properties: { x: { type: 'number' } } },
    },
    properties: {
      ref: { $ref: '#/$defs/Count' },
      both: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
      list: { type: ['array', 'null'] },
      words: { type: ['string', 'array'] },
      maybe: { type: 'integer', nullable: true },
      level: { enum: [1, 2] },
      code: { enum: ['1', '2'] },
      fixed: { const: 5 },
      all: { allOf: [{ $ref: '#/$defs/Point' }, { description: 'where' }] },
      loop: { $ref: '#/$defs/Loop' },
      flag: { anyOf: [{ type: 'boolean' }, { type: 'string' }] },
      number: { type: 'number' },
      text: { type: 'string' },
    },
  };
  const tools = [{ type: 'function' as const, function: { name: 'f', parameters: ROOT } }];

  it.each([
    ['ref', '7', '7'],
    ['ref', '123456789012345678901234567890', '123456789012345678901234567890'],
    ['ref', '5.0', '5'],
    ['both', '7', '7'],
    ['both', '007', '"007"'],
    ['both', '+7', '"+7"'],
    ['both', '7 days', '"7 days"'],
    ['both', '"7"', '"\\"7\\""'],
    ['list', '[1, 2]', '[1,2]'],
    ['list', "['a', None]", '["a",null]'],
    ['list', 'None', 'null'],
    ['list', '', 'null'],
    ['words', '["a"]', '["a"]'],
    ['words', '[a', '"[a"'],
    ['words', "['a']", '"[\'a\']"'],
    ['maybe', 'null', 'null'],
    ['maybe', '3', '3'],
    ['level', '2', '2'],
    ['code', '2', '"2"'],
    ['fixed', '5', '5'],
    ['all', '{"x": 1.50}', '{"x":1.50}'],
    ['all', '{"x": 1', '"{\\"x\\": 1"'],
    ['loop', '[]', '[]'],
    ['flag', 'true', 'true'],
    ['flag', 'True', '"True"'],
    ['number', '0.10', '0.10'],
    ['number', 'NaN', '"NaN"'],
    ['number', 'Infinity', '"Infinity"'],
    ['text', '007', '"007"'],
    ['text', ' x ', '" x "'],
  ])('%s %j is %s', (key, value, json) => {
    const texts = {
      qwen3_coder: `<function=f>\n<parameter=${key}>\n${value}\n</parameter>\n</function>`,
      minimax_m2: `<invoke name="f"><parameter name="${key}">${value}</parameter></invoke>`,
    };
    for (const [parser, text] of Object.entries(texts)) {
      for (const pieces of [[text], [...text]]) {
        expect(readCalls(parser, pieces, { tools }).calls.map((call) => call.arguments)).toEqual([
          `{"${key}":${json}}`,
        ]);
      }
    }
  });
});
