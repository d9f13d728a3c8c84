import { describe, expect, it } from 'vitest';
import type { AnswerConstraint } from '../../../../shared/parsers/index.ts';
import { cut, runParser, runSteps } from './run-parser.ts';

const INSIDE = 'hi\n<think>\n';
const JSON_ANSWER: AnswerConstraint = { kind: 'json' };
const TEXT: AnswerConstraint = { kind: 'text' };
const CHOICE: AnswerConstraint = { kind: 'choice', choices: ['yes', 'no way'] };

/** Text, constraint, reasoning, content. */
const CASES: readonly (readonly [string, AnswerConstraint, string, string])[] = [
  ['{"a": 1}', JSON_ANSWER, '', '{"a": 1}'],
  ['\n { }', JSON_ANSWER, '', '\n { }'],
  ['[1, {"a": "</think>"}]', JSON_ANSWER, '', '[1, {"a": "</think>"}]'],
  ['"word"', JSON_ANSWER, '', '"word"'],
  ['42', JSON_ANSWER, '', '42'],
  ['so: {"a"}</think>{"a": 1}', JSON_ANSWER, 'so: {"a"}', '{"a": 1}'],
  ['{so} it is</think>{"a": 1}', JSON_ANSWER, '{so} it is', '{"a": 1}'],
  ['"Quoted" first</think>"word"', JSON_ANSWER, '"Quoted" first', '"word"'],
  ['never closed', JSON_ANSWER, 'never closed', ''],
  ['yes', CHOICE, '', 'yes'],
  ['no way', CHOICE, '', 'no way'],
  ['yes or no</think>yes', CHOICE, 'yes or no', 'yes'],
  ['hm</think>no way', CHOICE, 'hm', 'no way'],
  ['2026-01-01', TEXT, '', '2026-01-01'],
  ['a date</think>2026-01-01', TEXT, 'a date', '2026-01-01'],
];

describe.each(CASES)('%j where %j is wanted and the prompt began to reason', (text, constraint, reasoning, content) => {
  it('is recognised at every cut', () => {
    for (const pieces of [[text], [...text], [text.slice(0, 2), text.slice(2)]]) {
      for (const name of ['qwen3', 'glm45', 'step3', 'nemotron_nano']) {
        expect(runParser(name, pieces, { promptText: INSIDE, constraint })).toEqual({ reasoning, content });
      }
      expect(runParser('step3', pieces, { promptText: '', constraint })).toEqual({ reasoning, content });
    }
  });
});

describe('a forced tool call where the prompt began to reason', () => {
  it.each([
    ['[{"name":"f","parameters":{}}]', '', '[{"name":"f","parameters":{}}]'],
    ['plan</think>[{"name":"f","parameters":{}}]', 'plan', '[{"name":"f","parameters":{}}]'],
  ])('of %j', (text, reasoning, content) => {
    for (const name of ['qwen3', 'deepseek_r1', 'minimax_m2']) {
      expect(runParser(name, [...text], { promptText: INSIDE, forcesTool: true })).toEqual({ reasoning, content });
    }
  });
});

describe('a long text that may be the answer', () => {
  it.each(['{', '['])('is the answer once white space behind %j is longer than what is held', (bracket) => {
    const text = bracket + ' \n'.repeat(2_000);
    const steps = runSteps('qwen3', cut(text, 1), { promptText: INSIDE, constraint: JSON_ANSWER });
    expect(steps.at(2_000)).toEqual({ reasoning: '', content: '' });
    expect(steps.at(-2)).toEqual({ reasoning: '', content: text });
  });

  it('is reasoning once it is longer than what is held', () => {
    const text = 'x'.repeat(5_000);
    expect(runParser('qwen3', [...text], { promptText: INSIDE, constraint: TEXT })).toEqual({
      reasoning: text,
      content: '',
    });
  });
});
