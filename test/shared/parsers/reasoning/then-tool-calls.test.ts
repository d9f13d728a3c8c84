import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { createReasoningParser, createToolCallParser, planReasoning } from '../../../../shared/parsers/index.ts';
import { anySplit, formatOf, THINKING_ARGS } from './run-parser.ts';

interface Message {
  reasoning: string;
  content: string;
  calls: { name: string; arguments: string }[];
}

/** The two parsers in their order: the content of the first is the text of the second. */
function runPair(reasoningName: string, toolName: string, pieces: readonly string[]): Message {
  const message: Message = { reasoning: '', content: '', calls: [] };
  const plan = planReasoning(formatOf(reasoningName), { templateArgs: THINKING_ARGS, promptText: '' });
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
  it('takes no call out of reasoning, and goes on after one', () => {
    const call = (n: number): string => `<tool_call>{"name":"f","arguments":{"a":${n}}}</tool_call>`;
    const text = `<think>a${call(0)}</think>\n${call(1)}<think>b</think>${call(2)}`;
    expect(runPair('qwen3', 'hermes', [text])).toEqual({
      reasoning: `a${call(0)}b`,
      content: '\n',
      calls: [
        { name: 'f', arguments: '{"a":1}' },
        { name: 'f', arguments: '{"a":2}' },
      ],
    });
  });
});
