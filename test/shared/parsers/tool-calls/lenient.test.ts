import { describe, expect, it } from 'vitest';
import { readEveryWay, shown } from './every-cut.ts';
import { declare, readCalls } from './read-calls.ts';

const TOOLS = declare({
  get_weather: { city: { type: 'string' }, days: { type: 'integer' } },
  get_time: { zone: { type: 'string' } },
});
const kimi = (id: string, json: string): string =>
  `<|tool_calls_section_begin|><|tool_call_begin|>${id}<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_calls_section_end|>`;

/** Parser, what models do, text, content, calls. */
const CASES: readonly (readonly [string, string, string, string, ...string[]])[] = [
  ['kimi_k2', 'a call that is only counted', kimi('3', '{"city": "Oslo"}'), '', 'get_weather({"city":"Oslo"})'],
  ['kimi_k2', 'one that two tools could take is text', kimi('3', '{}'), kimi('3', '{}')],
  ['kimi_k2', 'one that no tool takes is text', kimi('0', '{"x":1}'), kimi('0', '{"x":1}')],
  ['kimi_k2', 'one without JSON is text', kimi('0', 'Oslo'), kimi('0', 'Oslo')],
  ['kimi_k2', 'a name of any script', kimi('functions.wëtter-日.v2:0', '{}'), '', 'wëtter-日.v2({})'],
  [
    'qwen3_coder',
    'a value of no text that was cut is shown, and not half a value',
    '<tool_call><function=get_weather><parameter=city>Oslo<parameter=days> about 1',
    '<parameter=days> about 1',
    'get_weather({"city":"Oslo")',
  ],
  [
    'llama3_json',
    'a dictionary of Python',
    `<|python_tag|>{'name': 'f', 'parameters': {'a': "it's", 'b': [True, None, False, 'say "hi"\\n'], 'c': 'd\\'e\\x41\\d'}}`,
    '',
    String.raw`f({"a": "it's", "b": [true, null, false, "say \"hi\"\n"], "c": "d'e\u0041\\d"})`,
  ],
  [
    'llama3_json',
    'one without a marker',
    `{'name': 'get_time', 'parameters': {'zone': 'Z'}}`,
    '',
    'get_time({"zone": "Z"})',
  ],
  [
    'llama3_json',
    'one of a tool that is not declared is text',
    `{'name': 'f', 'parameters': {}}`,
    `{'name': 'f', 'parameters': {}}`,
  ],
  [
    'llama3_json',
    "Python's words in JSON",
    '<|python_tag|>{"name":"f","parameters":{"a":True,"s":"True \\\' None"}}; {"name":"g","parameters":None}',
    '',
    'f({"a":true,"s":"True \' None"})',
    'g({})',
  ],
  [
    'hermes',
    "Python's words behind what is no JSON, which stays",
    String.raw`<tool_call>{"name":"f","arguments":{"s":"it\'s \d","n":1True,"b":[True]}}</tool_call>`,
    '',
    String.raw`f({"s":"it\'s \d","n":1True,"b":[true]})`,
  ],
  ['hermes', "Python's notation", "<tool_call>{'name': 'f', 'arguments': {'n': -1}}</tool_call>", '', 'f({"n": -1})'],
  ['kimi_k2', "Python's notation", kimi('functions.f:0', "{'a': None, 'b': 'x y'}"), '', 'f({"a":null,"b":"x y"})'],
  ['mistral', 'brackets that are not closed', '[TOOL_CALLSf[ARGS{"a":1}', '', 'f({"a":1})'],
  [
    'mistral',
    'one that is closed behind one that is not',
    'Ok [TOOL_CALLS f[CALL_ID]abc123def[ARGS{"a":1}[TOOL_CALLS]g[ARGS]{}',
    'Ok ',
    'f({"a":1})',
    'g({})',
  ],
  ['mistral', 'a list behind one', '[TOOL_CALLS[{"name":"f","arguments":{}}]', '', 'f({})'],
  ['mistral', 'the word alone', 'Write [TOOL_CALLS in front', 'Write [TOOL_CALLS in front'],
  ['mistral', 'a name of any script', '[TOOL_CALLS]wëtter.日[ARGS]{}', '', 'wëtter.日({})'],
];

describe.each(CASES)('%s: %s', (parser, _what, text, content, ...calls) => {
  it('is read the same in every cut', () => {
    const read = readEveryWay(parser, text, { tools: TOOLS });
    expect([read.content, ...shown(read)]).toEqual([content, ...calls]);
  });
});

const N = ']<]minimax[>[';

describe('text beside a call', () => {
  it.each([
    ['qwen25', '<tool_call>{"name":"f","arguments":{}}<function=f>and words', '<function=f>and words', 'f({})'],
    [
      'minimax_m3',
      `${N}<invoke name="f">${N}<a>x${N}</a>${N}</a and <b> words`,
      `${N}</a and <b> words`,
      'f({"a":"x")',
    ],
    ['minimax_m3', `${N}<invoke name="f">${N}<a>x${N}</a> and words`, ' and words', 'f({"a":"x")'],
  ])('of %s is shown: %s', (parser, text, content, call) => {
    const tools = declare({ f: { a: { type: 'string' } } });
    const read = readEveryWay(parser, text, { tools });
    expect([read.content, ...shown(read)]).toEqual([content, call]);
  });
});

describe('a call of Kimi that is only counted', () => {
  it('keeps its number in the id, and belongs to the only tool there is', () => {
    const { calls } = readCalls('kimi_k2', [kimi('7', '{}')], { tools: declare({ now: {} }) });
    expect(calls).toEqual([{ id: 'functions.now:7', name: 'now', arguments: '{}' }]);
  });
});
