import { describe, expect, it } from 'vitest';
import { readEveryWay, shown } from './every-cut.ts';
import { declare } from './read-calls.ts';
import { CALL_TEXTS, type CallText } from './write-calls.ts';

const TOOLS = declare({ f: { a: { type: 'string' }, n: { type: 'integer' } }, g: {} });
const FORMATS = Object.entries(CALL_TEXTS);
/** Formats in which only calls of declared tools count, and their tools. */
const ONLY_DECLARED = new Set(['minicpm5']);
const ALL_TOOLS = [...TOOLS, ...declare({ nope: {}, 'mcp.srv-x_1': {}, wëtter日: {} })];

interface Kind {
  readonly text: (write: CallText) => string;
  readonly content?: string;
  /** Names and arguments as values. */
  readonly calls: readonly (readonly [name: string, args: unknown])[];
}

const one = (name: string, args: Readonly<Record<string, string>>): Kind => ({
  text: (write) => write([{ name, args }]),
  calls: [[name, args]],
});

/** What is odd about a call in any format. */
const KINDS: Readonly<Record<string, Kind>> = {
  'parallel calls, one of them twice': {
    text: (write) => write([call('f', { a: 'x' }), call('f', { a: 'x' }), call('g', {})]),
    calls: [
      ['f', { a: 'x' }],
      ['f', { a: 'x' }],
      ['g', {}],
    ],
  },
  'calls between text': {
    text: (write) => `Before ${write([call('f', { a: 'x' })])} between ${write([call('g', {})])} after`,
    content: 'Before  between  after',
    calls: [
      ['f', { a: 'x' }],
      ['g', {}],
    ],
  },
  'no arguments': one('g', {}),
  'a tool that is not declared': one('nope', { q: 'v' }),
  'a name of dots and dashes': one('mcp.srv-x_1', { q: 'v' }),
  'a name of other scripts': one('wëtter日', { a: 'v' }),
  'markup of other languages': one('f', { a: '<![CDATA[<b>x & y</b>]]> a < b && c > d </p>' }),
  'markers of other formats': one('f', { a: 'say <think> </think> <x> [ARGS <|x|> }] ) end' }),
  'characters that are escaped': one('f', { a: 'é😀\u0001 "q" \\ \n\t end' }),
  'numbers beside text that looks like one': {
    text: (write) => write([{ name: 'f', args: { a: '007', n: -12 } }]),
    calls: [['f', { a: '007', n: -12 }]],
  },
};

function call(
  name: string,
  args: Readonly<Record<string, string>>,
): { readonly name: string; readonly args: typeof args } {
  return { name, args };
}

describe.each(FORMATS)('%s', (format, write) => {
  it.each(Object.entries(KINDS))('%s: the same in every cut, and nothing taken back', (_kind, wanted) => {
    const tools = ONLY_DECLARED.has(format) ? ALL_TOOLS : TOOLS;
    const read = readEveryWay(format, wanted.text(write), { tools });
    const calls = read.calls.map(({ name, arguments: text }) => [name, JSON.parse(text)]);
    expect([read.content, ...calls]).toEqual([wanted.content ?? '', ...wanted.calls]);
    expect(read.reason).toBe('tool_calls');
    expect(new Set(read.calls.map(({ id }) => id)).size).toBe(wanted.calls.length);
  });
});

const D = '｜DSML｜';
const N = ']<]minimax[>[';
/** A value as each format of XML has it. */
const VALUE_TEXTS: Readonly<Record<string, (key: string, value: string) => string>> = {
  qwen3_coder: (key, value) =>
    `<tool_call>\n<function=f>\n<parameter=${key}>\n${value}\n</parameter>\n</function>\n</tool_call>`,
  seed_oss: (key, value) =>
    `<seed:tool_call>\n<function=f>\n<parameter=${key}>\n${value}\n</parameter>\n</function>\n</seed:tool_call>`,
  step3: (key, value) =>
    `<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="${key}">${value}</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>`,
  minimax_m2: (key, value) =>
    `<minimax:tool_call><invoke name="f"><parameter name="${key}">${value}</parameter></invoke></minimax:tool_call>`,
  minimax_m3: (key, value) =>
    `${N}<tool_call>${N}<invoke name="f">${N}<${key}>${value}${N}</${key}>${N}</invoke>${N}</tool_call>`,
  deepseek_v3_2: (key, value) =>
    `<${D}function_calls><${D}invoke name="f"><${D}parameter name="${key}" string="false">${value}</${D}parameter></${D}invoke></${D}function_calls>`,
  deepseek_v4: (key, value) =>
    `<${D}tool_calls><${D}invoke name="f"><${D}parameter name="${key}">${value}</${D}parameter></${D}invoke></${D}tool_calls>`,
  glm47: (key, value) => `<tool_call>f<arg_key>${key}</arg_key><arg_value>${value}</arg_value></tool_call>`,
  poolside_v1: (key, value) => `<tool_call>f<arg_key>${key}</arg_key><arg_value>${value}</arg_value></tool_call>`,
  hy_v3: (key, value) =>
    `<tool_calls><tool_call>f<tool_sep><arg_key>${key}</arg_key><arg_value>${value}</arg_value></tool_call></tool_calls>`,
  solar_open2: (key, value) =>
    `<|tool_call:start|>f\n<|tool_arg:start|>${key}<|tool_arg:value|>${value}<|tool_arg:end|><|tool_call:end|>`,
  minicpm5: (key, value) => `<function name="f"><param name="${key}">${value}</param></function>`,
  dots: (key, value) =>
    `<dots_function_call><invoke name="f"><parameter name="${key}">\n${value}\n</parameter></invoke></dots_function_call>`,
};

const TYPED = [
  {
    type: 'function' as const,
    function: {
      name: 'f',
      parameters: {
        type: 'object',
        properties: {
          text: { type: 'string' },
          number: { type: 'number' },
          whole: { type: 'integer' },
          flag: { type: 'boolean' },
          list: { type: 'array', items: { type: 'string' } },
          object: { type: 'object' },
          reference: { $ref: '#/$defs/Point' },
          union: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
          maybe: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
          nullable: { type: 'integer', nullable: true },
          words: { enum: ['1', '2'] },
        },
        $defs: { Point: { type: 'object', properties: { x: { type: 'integer' } } } },
      },
    },
  },
];

/** Parameter, value, and what it is in JSON. */
const VALUES: readonly (readonly [string, string, string])[] = [
  ['text', ' x ', '" x "'],
  ['text', '007', '"007"'],
  ['text', '{"a":1}', '"{\\"a\\":1}"'],
  ['text', '', '""'],
  ['number', '1.50', '1.50'],
  ['number', '12345678901234567890.5', '12345678901234567890.5'],
  ['whole', '-7', '-7'],
  ['whole', '007', '7'],
  ['whole', '123456789012345678901234567890', '123456789012345678901234567890'],
  ['whole', 'many', '"many"'],
  ['flag', 'True', 'true'],
  ['flag', 'false', 'false'],
  ['list', '["a", "b"]', '["a","b"]'],
  ['list', "['a', 'b']", '["a","b"]'],
  ['object', '{"k": 1}', '{"k":1}'],
  ['object', "{'k': None}", '{"k":null}'],
  ['reference', '{"x": 1}', '{"x":1}'],
  ['union', '5', '5'],
  ['union', '05', '"05"'],
  ['union', 'x', '"x"'],
  ['maybe', 'null', 'null'],
  ['maybe', '4', '4'],
  ['nullable', 'None', 'null'],
  ['words', '1', '"1"'],
];

describe.each(Object.entries(VALUE_TEXTS))('%s', (format, write) => {
  it.each(VALUES)('takes %s %j for %s', (key, value, json) => {
    const read = readEveryWay(format, write(key, value), { tools: TYPED });
    expect([read.content, ...shown(read)]).toEqual(['', `f({"${key}":${json}})`]);
  });
});

/** Formats whose calls have arguments as JSON. */
const JSON_TEXTS: Readonly<Record<string, (json: string) => string>> = {
  hermes: (json) => `<tool_call>{"name":"f","arguments":${json}}</tool_call>`,
  qwen25: (json) => `<tool_call>{"name":"f","arguments":${json}}</tool_call>`,
  llama3_json: (json) => `<|python_tag|>{"name":"f","parameters":${json}}`,
  granite: (json) => `<|tool_call|>[{"name":"f","arguments":${json}}]`,
  internlm: (json) => `<|action_start|><|plugin|>{"name":"f","parameters":${json}}<|action_end|>`,
  mistral: (json) => `[TOOL_CALLS]f[ARGS]${json}`,
  kimi_k2: (json) => `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>${json}<|tool_call_end|>`,
  deepseek_v3_1: (json) => `<｜tool▁call▁begin｜>f<｜tool▁sep｜>${json}<｜tool▁call▁end｜>`,
  harmony: (json) => `<|channel|>commentary to=functions.f <|constrain|>json<|message|>${json}<|call|>`,
  cohere_command4: (json) =>
    `<|START_ACTION|>[{"tool_call_id":"0","tool_name":"f","parameters":${json}}]<|END_ACTION|>`,
  apertus: (json) => `<|tools_prefix|>[{"f": ${json}}]<|tools_suffix|>`,
  gigachat3: (json) => `<|function_call|>{"name":"f","arguments":${json}}`,
};
const OBJECT = '{"a":"é \\u00e9 \\ud83d\\ude00","n":[1,{"k":null}]}';
const inString = (json: string): string => JSON.stringify(json);

describe.each(Object.entries(JSON_TEXTS))('%s', (format, write) => {
  it.each([
    ['an object with escapes', OBJECT, OBJECT],
    ['an object in a string', inString(OBJECT), OBJECT],
    ['an object in a string in a string', inString(inString(OBJECT)), OBJECT],
    ['nothing in a string', '""', '{}'],
    ['null', 'null', '{}'],
    ["Python's dictionary", "{'a': 'é', 'n': [True, None]}", '{"a":"é","n":[true,null]}'],
  ])('takes %s for arguments', (_what, json, wanted) => {
    const read = readEveryWay(format, write(json), { tools: TOOLS });
    expect(read.calls.map(({ name, arguments: text }) => [name, JSON.parse(text)])).toEqual([
      ['f', JSON.parse(wanted)],
    ]);
    expect(read.content).toBe('');
  });
});
