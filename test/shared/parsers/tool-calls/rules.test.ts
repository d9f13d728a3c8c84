import { describe, expect, it } from 'vitest';
import { declare, type ReadOptions, readCalls } from './read-calls.ts';

const WEATHER = declare({
  get_weather: {
    city: { type: 'string' },
    days: { type: 'integer' },
    tags: { type: 'array', items: { type: 'string' } },
  },
});
const D = '<｜DSML｜';
const DE = '</｜DSML｜';
const N = ']<]minimax[>[';

/** Parser, text, content, calls as `name(arguments)`. */
type Case = readonly [parser: string, rule: string, text: string, content: string, ...calls: string[]];

const CASES: readonly Case[] = [
  [
    'hermes',
    'white space behind the last call is dropped',
    'Hi\n<tool_call>{"name":"f"}</tool_call>\n\n',
    'Hi\n',
    'f({})',
  ],
  [
    'hermes',
    'arguments before the name wait for it',
    '<tool_call>{"arguments":{"a":1},"name":"f"}</tool_call>',
    '',
    'f({"a":1})',
  ],
  [
    'hermes',
    'an end marker inside a string is text',
    '<tool_call>{"name":"f","arguments":{"x":"</tool_call>"}}</tool_call>',
    '',
    'f({"x":"</tool_call>"})',
  ],
  [
    'hermes',
    'arguments that are an object in a string are that object',
    '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>',
    '',
    'f({"a":1})',
  ],
  ['hermes', 'null is no arguments', '<tool_call>{"name":"f","arguments":null}</tool_call>', '', 'f({})'],
  [
    'hermes',
    'a forgotten end marker does not hide the next call',
    '<tool_call>{"name":"a"}\n<tool_call>{"name":"b"}</tool_call>',
    '',
    'a({})',
    'b({})',
  ],
  ['hermes', 'a body that only lacks its end marker is a call', '<tool_call>{"name":"a","arguments":{}}', '', 'a({})'],
  ['hermes', 'a call cut before its arguments is text', 'So <tool_call>{"name":"get_w', 'So <tool_call>{"name":"get_w'],
  ['hermes', 'a beginning of a marker at the end is text', 'a <tool_ca', 'a <tool_ca'],
  ['hermes', 'bare JSON is a call only in front', 'See {"name":"f","arguments":{}}', 'See {"name":"f","arguments":{}}'],
  ['hermes', 'bare JSON cut before it is a call is text', '{"name":"f', '{"name":"f'],
  [
    'hermes',
    'text behind bare JSON is content',
    '{"name":"get_weather","arguments":{}} Done.',
    ' Done.',
    'get_weather({})',
  ],
  ['hermes', 'text behind JSON that is no call follows it', '{"a":1}\nDone.\n', '{"a":1}\nDone.\n'],
  [
    'mistral',
    'a bare array is a call, the marker begins like one',
    '[{"name":"get_weather","arguments":{}}]',
    '',
    'get_weather({})',
  ],
  ['mistral', 'the end marker is markup', '[TOOL_CALLS][{"name":"a","arguments":{}}][/TOOL_CALLS] ok', ' ok', 'a({})'],
  [
    'nemotron_deci',
    'the end marker behind a bare array is markup',
    '[{"name":"get_weather","arguments":{}}]</TOOLCALL>',
    '',
    'get_weather({})',
  ],
  ['jamba', 'an orphan end marker is dropped', 'Done.</tool_calls>', 'Done.'],
  [
    'llama3_json',
    'the marker may be repeated',
    '<|python_tag|>{"name":"a","parameters":{}}<|python_tag|>{"name":"b","parameters":{}}',
    '',
    'a({})',
    'b({})',
  ],
  [
    'llama3_json',
    'bare objects may be parted by semicolons',
    '{"name":"get_weather","parameters":{}}; {"name":"get_weather","parameters":{"days":2}}',
    '',
    'get_weather({})',
    'get_weather({"days":2})',
  ],
  ['phi4', 'the word without JSON behind it is a word', 'Use functools here', 'Use functools here'],
  [
    'deepseek_v3_1',
    'a call that is whole needs no outer end',
    'Ok <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>',
    'Ok ',
    'f({})',
  ],
  [
    'deepseek_v3_1',
    'raw line ends inside a string are repaired',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a":"x\n  y"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    '',
    'f({"a":"x\\n  y"})',
  ],
  [
    'deepseek_v3',
    'the fence may be missing',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    '',
    'f({"a":1})',
  ],
  [
    'deepseek_v4',
    'an empty line in front of the block is markup',
    `Let me see.\n\n${D}tool_calls>\n${D}invoke name="f">\n${DE}invoke>\n${DE}tool_calls>`,
    'Let me see.',
    'f({})',
  ],
  [
    'deepseek_v4',
    'an empty line in front of a bare invoke is content',
    `A\n\n${D}invoke name="f">${DE}invoke>`,
    'A\n\n',
    'f({})',
  ],
  [
    'deepseek_v3_1',
    'arguments that are not JSON make it text',
    'A <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{bad}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    'A <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{bad}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  ],
  [
    'deepseek_v4',
    'a block without invoke is text',
    `A ${D}tool_calls>junk${DE}tool_calls>`,
    `A ${D}tool_calls>junk${DE}tool_calls>`,
  ],
  [
    'deepseek_v4',
    'a tag on its own is text',
    `A ${D}parameter name="x" string="true">v`,
    `A ${D}parameter name="x" string="true">v`,
  ],
  [
    'qwen3_coder',
    'a closing tag that only is talked about stays in the value',
    '<tool_call><function=f><parameter=a>x</function> y</parameter></function></tool_call>',
    '',
    'f({"a":"x</function> y"})',
  ],
  [
    'qwen3_coder',
    'closing tags may be missing at the end of the block',
    '<tool_call><function=f><parameter=a>1</tool_call>',
    '',
    'f({"a":"1"})',
  ],
  [
    'qwen3_coder',
    'two functions in one block',
    '<tool_call><function=a></function><function=b></function></tool_call>',
    '',
    'a({})',
    'b({})',
  ],
  [
    'qwen3_coder',
    'a tag that is only talked about is text',
    'Write <tool_call> in front',
    'Write <tool_call> in front',
  ],
  [
    'qwen3_coder',
    'a whole number beyond 64 bits keeps its digits',
    '<function=get_weather><parameter=days>123456789012345678901234567890</parameter></function>',
    '',
    'get_weather({"days":123456789012345678901234567890})',
  ],
  [
    'minimax_m2',
    'a bare invoke is a call, with the block end behind it',
    'A <invoke name="f"><parameter name="a">x</parameter></invoke>\n</minimax:tool_call>',
    'A ',
    'f({"a":"x"})',
  ],
  [
    'minimax_m3',
    'repeated tags are a list, nested ones an object',
    `${N}<tool_call>${N}<invoke name="f">${N}<a>x${N}</a>${N}<a>y${N}</a>${N}<o>${N}<k>v${N}</k>${N}</o>${N}</invoke>${N}</tool_call>`,
    '',
    'f({"a":["x","y"],"o":{"k":"v"}})',
  ],
  [
    'minimax_m3',
    'text beside tags has a key of its own',
    `${N}<tool_call>${N}<invoke name="f">${N}<o>hi ${N}<k>v${N}</k>${N}</o>${N}</invoke>${N}</tool_call>`,
    '',
    'f({"o":{"k":"v","$text":"hi"}})',
  ],
  [
    'glm47',
    'white space between key and value is nothing',
    '<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>',
    '',
    'get_weather({"days":3})',
  ],
  [
    'glm47',
    'a list may be parted by commas',
    '<tool_call>get_weather<arg_key>tags</arg_key><arg_value>a, b</arg_value></tool_call>',
    '',
    'get_weather({"tags":["a","b"]})',
  ],
  [
    'glm47',
    'a declared name needs no opener',
    'A get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>',
    'A ',
    'get_weather({"city":"Oslo"})',
  ],
  ['glm47', 'other tags standing alone are dropped', 'A </arg_value></tool_call> B', 'A  B'],
  [
    'poolside_v1',
    'a call that the text ends in keeps what it has',
    '<tool_call>get_weather<arg_key>city</arg_key><arg_value>Os',
    '',
    'get_weather({"city":"Os)',
  ],
  [
    'kimi_k2',
    'a call without its section is a call',
    'A <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{ "a" : 1 }<|tool_call_end|>',
    'A ',
    'f({"a":1})',
  ],
  [
    'kimi_k2',
    'arguments that are not JSON pass when the call is closed',
    '<|tool_call_begin|>f:0<|tool_call_argument_begin|>oops<|tool_call_end|>',
    '',
    'f(oops)',
  ],
  [
    'kimi_k2',
    'an id of another form is not a call',
    '<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>x',
    '<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>x',
  ],
  [
    'kimi_k3',
    'arguments may be one JSON text',
    '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|open|>json<|sep|>{ "a":1 }<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
    '',
    'f({ "a":1 })',
  ],
  [
    'kimi_k3',
    'what follows the message is content',
    '<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>junk',
    'Hijunk',
  ],
  [
    'gemma4',
    'arguments that cannot be read make it text',
    '<|tool_call>call:f{a=1}<tool_call|>',
    '<|tool_call>call:f{a=1}<tool_call|>',
  ],
  [
    'gemma4',
    'nested values',
    '<|tool_call>call:f{o:{a:[1,<|"|>x<|"|>],b:true,c:none}}<tool_call|>',
    '',
    'f({"o":{"a":[1,"x"],"b":true,"c":null}})',
  ],
  [
    'harmony',
    'the end of the text closes a whole call',
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}',
    '',
    'f({"a":1})',
  ],
  [
    'harmony',
    'a cut call is not repaired',
    '<|channel|>commentary to=functions.f <|message|>{"a": 1',
    '<|channel|>commentary to=functions.f <|message|>{"a": 1',
  ],
  ['harmony', 'commentary without a recipient is content', '<|channel|>commentary<|message|>Hi<|end|>', 'Hi'],
  [
    'qwen3_coder',
    'white space behind an entity that opens a value belongs to it',
    '<tool_call><function=get_weather><parameter=city>&amp;\nb</parameter></function></tool_call>',
    '',
    'get_weather({"city":"&\\nb"})',
  ],
  [
    'qwen3_coder',
    'null behind an entity is not null',
    '<tool_call><function=get_weather><parameter=city>&amp;null</parameter></function></tool_call>',
    '',
    'get_weather({"city":"&null"})',
  ],
  [
    'minimax_m3',
    'white space behind an entity that opens a value belongs to it',
    `${N}<tool_call>${N}<invoke name="get_weather">${N}<city>&amp; b${N}</city>${N}</invoke>${N}</tool_call>`,
    '',
    'get_weather({"city":"& b"})',
  ],
  ['pythonic', 'negative numbers are constants', "[f(n=-1.5, z='q')]", '', 'f({"n":-1.5,"z":"q"})'],
  ['pythonic', 'a value that is no constant makes no call', "[f(n=1, x=g(1), z='q')]", "[f(n=1, x=g(1), z='q')]"],
  ['pythonic', 'members of a name are not known', 'So [f(n=1, **more)].', 'So [f(n=1, **more)].'],
  [
    'pythonic',
    'calls beside one that cannot be made',
    '[f(a=1), g(b=x + 1), h()]!',
    'g(b=x + 1)!',
    'f({"a":1})',
    'h({})',
  ],
  ['deepseek_v4', 'an empty line before a block of text stays', `Go.\n\n${D}tool_calls>hm`, `Go.\n\n${D}tool_calls>hm`],
  [
    'deepseek_v4',
    'an empty line behind calls and before a block of text stays',
    `${D}tool_calls>${D}invoke name="f">${DE}invoke>${DE}tool_calls>\n\n${D}tool_calls>hm${DE}tool_calls>`,
    `\n\n${D}tool_calls>hm${DE}tool_calls>`,
    'f({})',
  ],
  [
    'hermes',
    'a line end behind calls and before a block of text stays',
    '<tool_call>{"name":"f","arguments":{}}</tool_call>\n<tool_call>hm</tool_call>',
    '\n<tool_call>hm</tool_call>',
    'f({})',
  ],
  ['pythonic', 'positional arguments are prose', 'See [foo(1)] there', 'See [foo(1)] there'],
  ['pythonic', 'special tokens around the list are markup', '<|python_start|>[f()]<|python_end|>', '', 'f({})'],
  ['pythonic', 'a list that the text ends in is text', "[f(a='x", "[f(a='x"],
  [
    'inkling',
    'the name in front of a block belongs to it',
    '<|message_model|>go<|content_invoke_tool_json|>{"name":"go"}<|end_message|>',
    '',
    'go({})',
  ],
  [
    'inkling',
    'another word there is content',
    '<|message_model|>Hey<|content_invoke_tool_json|>{"name":"go"}<|end_message|>',
    'Hey',
    'go({})',
  ],
];

describe.each(CASES)('%s: %s', (parser, _rule, text, content, ...calls) => {
  it('holds in one piece and character by character', () => {
    for (const pieces of [[text], [...text]]) {
      const read = readCalls(parser, pieces, { tools: WEATHER });
      expect(read.content).toBe(content);
      expect(read.calls.map((call) => `${call.name}(${call.arguments})`)).toEqual(calls);
    }
  });
});

describe('streaming', () => {
  it('shows name and arguments while the call is written', () => {
    const seen: string[] = [];
    const pieces = ['<tool_call>{"name":"f",', '"arguments":', ' {"a"', ':"x', 'y"}', '}</tool_call>'];
    readCalls('hermes', pieces, {}, ({ calls }) => seen.push(calls.map((call) => call.name + call.arguments).join()));
    expect(seen).toEqual(['', '', 'f{"a"', 'f{"a":"x', 'f{"a":"xy"}', 'f{"a":"xy"}']);
  });

  it('shows a string parameter while it is written, without the line end and half entities at its end', () => {
    const seen: string[] = [];
    const pieces = ['<function=f><parameter=a>\nnu', 'mber ', 'one &', 'amp; two\n', '</parameter></function>'];
    readCalls('qwen3_coder', pieces, {}, ({ calls }) => seen.push(calls.map((call) => call.arguments).join()));
    const start = '{"a":"number';
    expect(seen).toEqual(['', `${start} `, `${start} one `, `${start} one & two`, `${start} one & two"}`]);
  });
});

describe('ids', () => {
  const idsOf = (parser: string, text: string): string[] => readCalls(parser, [text]).calls.map((call) => call.id);

  it('have the form of their format', () => {
    const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
    expect(idsOf('hermes', '<tool_call>{"name":"f"}')[0]).toMatch(new RegExp(`^call-${uuid}$`));
    expect(idsOf('glm47', '<tool_call>f</tool_call>')[0]).toMatch(new RegExp(`^${uuid}$`));
    expect(idsOf('deepseek_v4', `${D}invoke name="f">${DE}invoke>`)[0]).toMatch(/^call_[0-9a-f]{24}$/);
    expect(idsOf('pythonic', '[f(), g()]')).toEqual(['call-1', 'call-2']);
    expect(idsOf('kimi_k3', '<|open|>call tool="f" index="3"<|sep|><|close|>call<|sep|>')).toEqual(['f:2']);
  });
});

describe('tool_choice', () => {
  const forced = (text: string, options: ReadOptions, parser?: string): readonly string[] => {
    const results = [[text], [...text]].map((pieces) => readCalls(parser, pieces, { tools: WEATHER, ...options }));
    expect(results[1]).toEqual(results[0]);
    const [{ content, calls, reason }] = results as [(typeof results)[0]];
    return [content, ...calls.map((call) => `${call.name}(${call.arguments})`), String(reason)];
  };
  const named: ReadOptions = { toolChoice: { name: 'get_weather' } };
  const required: ReadOptions = { toolChoice: 'required' };

  it('named: the object is the arguments, and nothing behind it counts', () => {
    const call = 'get_weather({"city": "Oslo"})';
    expect(forced(' {"city": "Oslo"}{"x":1} more', named)).toEqual(['', call, 'tool_calls']);
  });

  it('named: calls of other tools are removed and nothing leaks', () => {
    const text = 'Ok. <tool_call>{"name":"other","arguments":{}}</tool_call>';
    expect(forced(text, named, 'hermes')).toEqual(['Ok. ', 'stop']);
    expect(forced('[{"name":"other","parameters":{}}]', named)).toEqual(['', 'stop']);
  });

  it('required: falls back to the format of the model, without its prose', () => {
    const text = 'Let me look. <tool_call>{"name":"get_weather","arguments":{}}</tool_call> Done.';
    expect(forced(text, required, 'hermes')).toEqual(['', 'get_weather({})', 'tool_calls']);
  });

  it('required: text without any call is content', () => {
    expect(forced('Hello world!', required)).toEqual(['Hello world!', 'stop']);
    expect(forced('[{"nom":"a"}]', { ...required, finish: 'length' })).toEqual(['[{"nom":"a"}]', 'length']);
  });

  it('required: reads what stands behind reasoning that no parser took out', () => {
    const thought = '<think>a {b}</think>';
    expect(forced(`${thought}[{"name":"a","parameters":{}}]`, required)).toEqual(['', 'a({})', 'tool_calls']);
    const plan = 'plan</think>';
    expect(forced(`${plan}{"city":1}`, named)).toEqual(['', 'get_weather({"city":1})', 'tool_calls']);
  });

  it('none, or no tools: all is content', () => {
    const text = '<tool_call>{"name":"f"}</tool_call>';
    expect(forced(text, { toolChoice: 'none' }, 'hermes')).toEqual([text, 'stop']);
    expect(forced(text, { tools: [] }, 'hermes')).toEqual([text, 'stop']);
    expect(forced(text, {})).toEqual([text, 'stop']);
  });

  it('parallel_tool_calls: false keeps the first call', () => {
    const text = '<tool_call>{"name":"a"}</tool_call><tool_call>{"name":"b"}</tool_call>';
    expect(forced(text, { parallelToolCalls: false }, 'hermes')).toEqual(['', 'a({})', 'tool_calls']);
  });
});

describe('finish reason', () => {
  it.each([
    ['stop', 'tool_calls'],
    [null, 'tool_calls'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
  ] as const)('%s becomes %s once a call was shown', (finish, reason) => {
    expect(readCalls('hermes', ['<tool_call>{"name":"f"}'], { finish }).reason).toBe(reason);
    expect(readCalls('hermes', ['text'], { finish }).reason).toBe(finish);
  });
});
