import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import {
  createReasoningParser,
  createToolCallParser,
  describeToolCallParser,
  planReasoning,
} from '../../../../shared/parsers/index.ts';
import { anySplit, formatOf, THINKING_ARGS } from './run-parser.ts';

interface Message {
  reasoning: string;
  content: string;
  calls: { name: string; arguments: string }[];
}

/** The two parsers in their order: the content of the first is the text of the second. */
function runPair(reasoningName: string, toolName: string, pieces: readonly string[]): Message {
  const message: Message = { reasoning: '', content: '', calls: [] };
  const described = describeToolCallParser(toolName);
  const callTokens = described.kind === 'built' ? described.callTokens : [];
  const plan = planReasoning(formatOf(reasoningName), { templateArgs: THINKING_ARGS, promptText: '', callTokens });
  const reasoning = createReasoningParser(plan!);
  const tools = createToolCallParser(toolName, {
    tools: [
      {
        type: 'function',
        function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'integer' } } } },
      },
    ],
    random: seededRandom(1),
  })!;
  const calls = {
    content: (text: string): void => {
      message.content += text;
    },
    callStart: (index: number, _id: string, name: string): void => {
      message.calls[index] = { name, arguments: '' };
    },
    callArguments: (index: number, text: string): void => {
      message.calls[index]!.arguments += text;
    },
  };
  const out = {
    reasoning: (text: string): void => {
      message.reasoning += text;
    },
    content: (text: string): void => tools.push(text, calls),
  };
  for (const piece of pieces) reasoning.push(piece, out);
  reasoning.end(out);
  tools.end('stop', calls);
  return message;
}

const DSML =
  '<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>';
const MINIMAX = '<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>';
const KIMI =
  '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a":1}<|tool_call_end|><|tool_calls_section_end|>';
const K3_CALL =
  '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>';
const HARMONY_CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>';

const DSML_SPACED = DSML.replaceAll('｜DSML｜', '｜DSML｜ ').replaceAll(' tool_calls', ' calls');
const COHERE = '<|START_ACTION|>[{"tool_call_id":"0","tool_name":"f","parameters":{"a":1}}]<|END_ACTION|>';
const APERTUS = '<|tools_prefix|>[{"f":{"a":1}}]<|tools_suffix|>';
const HUNYUAN =
  '<tool_calls><tool_call>f<tool_sep><arg_key>a</arg_key><arg_value>1</arg_value></tool_call></tool_calls>';
const SOLAR = '<|tool_call:start|>f\n<|tool_arg:start|>a<|tool_arg:value|>1<|tool_arg:end|><|tool_call:end|>';

const MUSE =
  '<|start|>assistant to=f<|message|><atem:invoke name="f"><atem:parameter name="a">1</atem:parameter></atem:invoke><|eom|><|start|>assistant';

type Pair = readonly [string, string, string, string, string];
const pair = (reasoning: string, tool: string, text: string, content = 'Ok.', thought = 'hm'): Pair => [
  reasoning,
  tool,
  text,
  content,
  thought,
];
const PAIRS = [
  pair('qwen3', 'hermes', '<think>hm</think>Ok.<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>'),
  pair('deepseek_v4', 'deepseek_v4', `<think>hm${DSML}`, ''),
  pair('deepseek_v4', 'deepseek_v4', `<think>hm</think>Ok.${DSML}`),
  pair('minimax_m2', 'minimax_m2', `hm${MINIMAX}`, ''),
  pair('kimi_k25', 'kimi_k2', `hm${KIMI}`, ''),
  pair('deepseek_v41', 'deepseek_v41', `<think>hm${DSML_SPACED}`, ''),
  pair('deepseek_v41', 'deepseek_v41', `<think>hm</think>Ok.${DSML_SPACED}`),
  pair('cohere_command4', 'cohere_command4', `<|START_THINKING|>hm<|END_THINKING|>${COHERE}`, ''),
  pair('cohere_command4', 'cohere_command4', `<|START_THINKING|>hm${COHERE}`, ''),
  pair('apertus', 'apertus', `<|inner_prefix|>hm<|inner_suffix|>Ok.${APERTUS}`),
  pair('apertus', 'apertus', `<|inner_prefix|>hm${APERTUS}`, ''),
  pair('hy_v3', 'hy_v3', `<think>hm${HUNYUAN}`, ''),
  pair('solar_open2', 'solar_open2', `<|think:start|>hm<|think:end|>Ok.${SOLAR}`),
  pair('solar_open2', 'solar_open2', `<|think:start|>hm${SOLAR}`, ''),
  pair('muse_glimmer', 'muse_glimmer', ` to=self<|message|>hm<|eom|>${MUSE} to=user<|message|>Ok.<|eot|>`),
  pair('kimi_k25', 'kimi_k2', `hm</think>Ok.${KIMI}`),
  pair(
    'kimi_k3',
    'kimi_k3',
    `<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>Ok.<|close|>response<|sep|>${K3_CALL}<|close|>message<|sep|><|end_of_msg|>`,
  ),
  pair(
    'gpt_oss',
    'harmony',
    `<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>Ok.<|end|><|start|>assistant${HARMONY_CALL}`,
  ),
  pair('gpt_oss', 'harmony', ' to=functions.f<|channel|>commentary json<|message|>{"a":1}<|call|>', '', ''),
  pair('gpt_oss', 'harmony', '<|channel|>analysis to=functions.f code<|message|>{"a":1}<|call|>', '', ''),
  pair('gpt_oss', 'harmony', ' to=functions.f<|channel|>analysis<|message|>{"a":1}<|call|>', '', ''),
  pair(
    'inkling',
    'inkling',
    '<|content_thinking|>hm<|end_message|><|message_model|><|content_text|>Ok.<|end_message|><|message_model|>f<|content_invoke_tool_json|>{"name":"f","args":{"a":1}}<|end_message|>',
  ),
  pair('gemma4', 'gemma4', '<|channel>thought\nhm<channel|>Ok.<|tool_call>call:f{a:1}<tool_call|>'),
];

describe.each(PAIRS)('%s, then %s: %s', (reasoningName, toolName, text, content, reasoning) => {
  it('gives reasoning, content and the call, however the text is cut', () => {
    const check = (pieces: readonly string[]): void => {
      const message = runPair(reasoningName, toolName, pieces);
      const calls = message.calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) as unknown }));
      expect({ ...message, calls }).toEqual({ reasoning, content, calls: [{ name: 'f', arguments: { a: 1 } }] });
    };
    check([text]);
    check([...text]);
    fc.assert(fc.property(anySplit(text), check), { numRuns: 60 });
  });
});

describe('reasoning, then tool calls', () => {
  it('ends reasoning at a call, and goes on behind one', () => {
    const call = (n: number): string => `<tool_call>{"name":"f","arguments":{"a":${n}}}</tool_call>`;
    const text = `<think>a${call(0)}</think>\n${call(1)}<think>b</think>${call(2)}`;
    const message = runPair('qwen3', 'hermes', [text]);
    expect({ ...message, content: message.content.trim() }).toEqual({
      reasoning: 'ab',
      content: '',
      calls: [0, 1, 2].map((n) => ({ name: 'f', arguments: `{"a":${n}}` })),
    });
  });

  it('takes no call out of reasoning where its markers are text of the model', () => {
    const xml = '<function=f><parameter=a>1</parameter></function>';
    for (const [reasoning, tool, call] of [
      ['qwen3', 'phi4', 'functools[{"name":"f","arguments":{"a":1}}]'],
      ['qwen3', 'qwen3_coder', xml],
      ['nemotron_deci', 'nemotron_deci', '<TOOLCALL>[{"name":"f","arguments":{"a":1}}]</TOOLCALL>'],
      ['qwen3', 'pythonic', '[f(a=1)]'],
    ] as const) {
      const text = `<think>so ${call} it is</think>Ok.`;
      expect(runPair(reasoning, tool, [text])).toEqual({ reasoning: `so ${call} it is`, content: 'Ok.', calls: [] });
    }
  });
});

const XML = '<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>';
const JSON_CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';
const GLM = '<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>';
const DEEPSEEK =
  '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a":1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>';
const GEMMA = '<|tool_call>call:f{a:1}<tool_call|>';
const M3 =
  ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>';

const STEP3 =
  '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="a">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>';

/** Which parsers belong together, and a call as their models write it. */
const NEVER_CLOSED: readonly (readonly [reasoning: string, tool: string, opener: string, call: string])[] = [
  ['qwen3', 'hermes', '<think>', JSON_CALL],
  ['qwen3', 'qwen25', '<think>', JSON_CALL],
  ['qwen3', 'qwen3', '<think>', JSON_CALL],
  ['qwen3', 'qwen3_coder', '<think>', XML],
  ['basic', 'hermes', '<think>', JSON_CALL],
  ['qwen3_coder', 'qwen3_coder', '<think>', XML],
  ['nemotron_nano', 'nemotron_nano', '', XML],
  ['nemotron_v3', 'qwen3_coder', '', XML],
  ['glm45', 'glm45', '<think>', GLM],
  ['glm45', 'glm47', '<think>', GLM],
  ['glm47', 'glm47', '<think>', GLM],
  ['basic', 'poolside_v1', '<think>', GLM],
  ['deepseek_r1', 'deepseek_v3', '', DEEPSEEK],
  ['deepseek_v3', 'deepseek_v3', '', DEEPSEEK],
  ['deepseek_v3_1', 'deepseek_v3_1', '', DEEPSEEK],
  ['deepseek_v3_2', 'deepseek_v3_2', '', DSML.replaceAll('tool_calls', 'function_calls')],
  ['deepseek_v4', 'deepseek_v4', '<think>', DSML],
  ['kimi_k2', 'kimi_k2', '<think>', KIMI],
  ['kimi_k25', 'kimi_k25', '', KIMI.replaceAll('calls_section', 'call_section')],
  ['kimi_k25', 'kimi_k2', '', KIMI.replace('<|tool_calls_section_begin|>', '')],
  ['minimax_m2', 'minimax_m2', '', MINIMAX],
  ['minimax_m3', 'minimax_m3', '<mm:think>', M3],
  ['mistral', 'mistral', '[THINK]', '[TOOL_CALLS]f[ARGS]{"a":1}'],
  ['gemma4', 'gemma4', '<|channel>thought\n', GEMMA],
  ['qwen3', 'llama3_json', '<think>', '<|python_tag|>{"name":"f","parameters":{"a":1}}'],
  ['qwen3', 'jamba', '<think>', '<tool_calls>[{"name":"f","arguments":{"a":1}}]</tool_calls>'],
  ['kimi_k3', 'kimi_k3', '<|open|>think<|sep|>', K3_CALL],
  ['step3', 'step3', '', STEP3],
  ['seed_oss', 'seed_oss', '<seed:think>', XML.replaceAll('tool_call>', 'seed:tool_call>')],
  ['basic', 'longcat', '<think>', JSON_CALL.replaceAll('tool_call>', 'longcat_tool_call>')],
  ['basic', 'internlm', '<think>', '<|action_start|><|plugin|>{"name":"f","parameters":{"a":1}}<|action_end|>'],
  ['ernie45', 'ernie45', '', JSON_CALL],
  ['hunyuan_a13b', 'hunyuan_a13b', '<think>', '<tool_calls>[{"name":"f","arguments":{"a":1}}]</tool_calls>'],
  ['basic', 'lfm2', '<think>', '<|tool_call_start|>[f(a=1)]<|tool_call_end|>'],
  ['basic', 'granite', '<think>', '<|tool_call|>[{"name":"f","arguments":{"a":1}}]'],
];

describe.each(NEVER_CLOSED)('reasoning of %s that never closes, with a call of %s', (reasoning, tool, opener, call) => {
  it('ends at the call', () => {
    const text = `${opener}let me call ${call}`;
    for (const pieces of [[text], [...text]]) {
      const message = runPair(reasoning, tool, pieces);
      const calls = message.calls.map((one) => ({ ...one, arguments: JSON.parse(one.arguments) as unknown }));
      expect({ ...message, calls }).toEqual({
        reasoning: 'let me call ',
        content: '',
        calls: [{ name: 'f', arguments: { a: 1 } }],
      });
    }
  });
});
