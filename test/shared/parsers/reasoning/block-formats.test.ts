import { describe, expect, it } from 'vitest';
import { cut, runParser, runSteps, type Split } from './run-parser.ts';

const CALL = '<|channel|>commentary to=functions.scan <|constrain|>json<|message|>{"deep": true}<|call|>';
const ANALYSIS = '<|channel|>analysis<|message|>';
const START = '<|start|>assistant';

type Row = readonly [string, string, Split];
const row = (what: string, text: string, reasoning: string, content: string): Row => [
  what,
  text,
  { reasoning, content },
];

const HARMONY: readonly Row[] = [
  row('text without markers', 'Hello there', '', 'Hello there'),
  row('a final message alone', '<|channel|>final<|message|>Yes<|return|>', '', 'Yes'),
  row(
    'two analysis messages, joined by a line end',
    `${ANALYSIS}a<|end|>${START}${ANALYSIS}b<|end|>${START}<|channel|>final<|message|>c`,
    'a\nb',
    'c',
  ),
  row('no line end for an empty message', `${ANALYSIS}a<|end|>${START}${ANALYSIS}<|end|>`, 'a', ''),
  row('a call with its header and its end', `${ANALYSIS}hm<|end|>${START}${CALL}`, 'hm', START + CALL),
  row(
    'a call whose recipient stands before the channel',
    `${ANALYSIS}hm<|end|>${START} to=functions.f<|channel|>commentary json<|message|>{}<|call|>`,
    'hm',
    `${START} to=functions.f<|channel|>commentary json<|message|>{}<|call|>`,
  ),
  row(
    'a recipient as the very first text, with the part of the header that the prompt has',
    ' to=functions.f<|channel|>commentary json<|message|>{}',
    '',
    `${START} to=functions.f<|channel|>commentary json<|message|>{}`,
  ),
  row('text that only begins like a recipient', ' to be', '', ' to be'),
  row('commentary for the user as plain content', '<|channel|>commentary<|message|>First,<|end|>', '', 'First,'),
  row(
    'markers inside a JSON string of a call as text',
    '<|channel|>commentary to=functions.f<|message|>{"a":"\\"<|call|>"}<|call|>',
    '',
    '<|channel|>commentary to=functions.f<|message|>{"a":"\\"<|call|>"}<|call|>',
  ),
  row('a message that begins before the last one ended', `${ANALYSIS}a<|channel|>final<|message|>b`, 'a', 'b'),
  row('a header that begins anew', `<|channel|>analysis${START}<|channel|>final<|message|>b`, '', 'b'),
  row('nothing of a header that the text ends in', `${ANALYSIS}a<|end|>${START}<|channel|>fin`, 'a', ''),
  row('nothing of a header that ends without a body', '<|channel|>analysis<|end|>b', '', 'b'),
  row('a header too long to be one as text', `<|channel|>${'x'.repeat(1100)}`, '', `<|channel|>${'x'.repeat(1100)}`),
  row('stray markers as nothing', 'a<|message|>b<|constrain|>c<|end|>d', '', 'abcd'),
];

const TOOL = '<|message_model|>go<|content_invoke_tool_json|>{"name":"go","args":{"z":1}}<|end_message|>';
const INKLING: readonly Row[] = [
  row('text without markers', 'Hello there', '', 'Hello there'),
  row(
    'thinking and text blocks in any order',
    '<|content_thinking|>a<|end_message|><|message_model|><|content_text|>b<|end_message|>' +
      '<|message_model|><|content_thinking|>c<|end_message|><|content_model_end_sampling|>',
    'ac',
    'b',
  ),
  row('calls verbatim', `<|content_thinking|>a<|end_message|>${TOOL}${TOOL}`, 'a', TOOL + TOOL),
  row(
    'an end marker inside a JSON string of a call as text',
    `${TOOL.replace('"z":1', '"z":"<|end_message|>"')}<|message_model|><|content_text|>b<|end_message|>`,
    '',
    `${TOOL.replace('"z":1', '"z":"<|end_message|>"')}b`,
  ),
  row('a bare name before a call', `go${TOOL.slice('<|message_model|>go'.length)}`, '', `go${TOOL.slice(19)}`),
  row('a message without a type as text', '<|message_model|>Hi<|end_message|>', '', 'Hi'),
  row('nothing of a name that the text ends in', 'a<|message_model|>get_w', '', 'a'),
  row('thinking that never ends', '<|message_model|><|content_thinking|>hm', 'hm', ''),
];

const K3: readonly Row[] = [
  row(
    'the body of the response channel',
    '<|open|>message<|sep|><|open|>think<|sep|>a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|>' +
      '<|close|>message<|sep|><|end_of_msg|>',
    'a',
    'b',
  ),
  row(
    'tool calls verbatim',
    '<|open|>think<|sep|>a<|close|>think<|sep|><|open|>tools<|sep|><|open|>call tool="f"<|sep|><|close|>call<|sep|>',
    'a',
    '<|open|>tools<|sep|><|open|>call tool="f"<|sep|><|close|>call<|sep|>',
  ),
  row(
    'tool calls that begin inside reasoning',
    '<|open|>think<|sep|>a<|open|>tools<|sep|>',
    'a',
    '<|open|>tools<|sep|>',
  ),
  row('a marker cut off at the end', '<|open|>think<|sep|>a<|clo', 'a<|clo', ''),
];

const GEMMA: readonly Row[] = [
  row('a span that is only its label', '<|channel>thought\n<channel|>b', '', 'b'),
  row('a span that ends inside its label', '<|channel>thou<channel|>b', '', 'b'),
  row('a span that only begins like its label', '<|channel>thoughts<channel|>b', 'thoughts', 'b'),
  row('a label in each span', '<|channel>thought\na<channel|>b<|channel>thought\nc<channel|>d', 'ac', 'bd'),
];

const GRANITE: readonly Row[] = [
  row('text before the phrase', "Hm. Here's my thought process:a Here's my response:b", 'a ', 'Hm. b'),
  row(
    'one block only',
    'Here is my thought process:aHere is my response:bHere is my thought process:c',
    'a',
    ['b', 'Here is my thought process:c'].join(''),
  ),
  row('a closing phrase alone as text', "Here's my response: b", '', "Here's my response: b"),
  row('other case as text', 'here is my thought process: a', '', 'here is my thought process: a'),
];

describe.each([
  ['gpt_oss', HARMONY],
  ['inkling', INKLING],
  ['kimi_k3', K3],
  ['gemma4', GEMMA],
  ['granite', GRANITE],
] as const)('%s', (name, rows) => {
  it.each(rows)('reads %s', (_what, text, expected) => {
    expect(runParser(name, [text])).toEqual(expected);
    expect(runParser(name, cut(text, 1))).toEqual(expected);
  });
});

describe('reasoning parsers', () => {
  it('continue a reasoning span that the prompt began', () => {
    const inside = (name: string, promptText: string, text: string): Split => runParser(name, [text], { promptText });
    expect(inside('gpt_oss', `<|start|>assistant${ANALYSIS}`, 'a<|end|>b')).toEqual({ reasoning: 'a', content: 'b' });
    expect(inside('inkling', '<|content_thinking|>', 'a<|end_message|>b')).toEqual({ reasoning: 'a', content: 'b' });
    expect(inside('gemma4', '<|channel>thought\n', 'a<channel|>b')).toEqual({ reasoning: 'a', content: 'b' });
    expect(inside('qwen3', '<think>\n', '<think>a</think>b')).toEqual({ reasoning: '<think>a', content: 'b' });
  });

  it('hold back one character when a marker may begin with it, and nothing else', () => {
    const steps = runSteps('qwen3', ['a <', ' b </', 'thin', 'g <think>c', '<']);
    expect(steps.map((step) => step.content)).toEqual([
      'a ',
      'a < b ',
      'a < b ',
      'a < b </thing ',
      'a < b </thing ',
      'a < b </thing ',
    ]);
    expect(steps.map((step) => step.reasoning)).toEqual(['', '', '', 'c', 'c', 'c<']);
  });
});
