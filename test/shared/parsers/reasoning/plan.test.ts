import { describe, expect, it } from 'vitest';
import { findReasoningFormat, needsSpecialTokens, planReasoning } from '../../../../shared/parsers/index.ts';
import { REASONING_FORMATS } from '../../../../shared/parsers/reasoning/formats.ts';
import type { ReasoningRequest } from '../../../../shared/parsers/reasoning/split-rules.ts';
import { cut, formatOf, runParser } from './run-parser.ts';

const isSplit = (name: string, request: Partial<ReasoningRequest>): boolean =>
  planReasoning(formatOf(name), { promptText: '', ...request }) !== undefined;
const withArgs = (name: string, templateArgs: Readonly<Record<string, unknown>>): boolean =>
  isSplit(name, { templateArgs });

describe('findReasoningFormat', () => {
  it.each([
    ['DeepSeek-V4', 'deepseek_v4'],
    ['deepseekv4', 'deepseek_v4'],
    ['minimax-m3', 'minimax_m3'],
    ['kimi-k3', 'kimi_k3'],
    ['gemma-4', 'gemma4'],
    ['QWEN3', 'qwen3'],
    ['gpt_oss', 'gpt_oss'],
    ['openai_gptoss', 'gpt_oss'],
    ['cohere-command3', 'cohere_command4'],
    ['hunyuan', 'hy_v3'],
    ['Muse', 'muse_glimmer'],
  ])('takes %s for %s', (name, expected) => {
    expect(findReasoningFormat(name)).toMatchObject({ kind: 'found', format: { name: expected } });
  });

  it('lets basic stand in for an unknown name, with a warning that names it', () => {
    const found = findReasoningFormat('unknown_name');
    expect(found).toMatchObject({ kind: 'fallback', format: { name: 'basic' } });
    expect(found.kind === 'fallback' && found.warning).toMatch(/'unknown_name'.*basic.*qwen3/);
  });

  it('finds every name once', () => {
    expect(new Set(REASONING_FORMATS.map((format) => format.name)).size).toBe(REASONING_FORMATS.length);
    for (const format of REASONING_FORMATS) expect(findReasoningFormat(format.name)).toEqual({ kind: 'found', format });
  });
});

describe('planReasoning', () => {
  it.each([
    ['deepseek_r1', { thinking: false }, false],
    ['deepseek_r1', { enable_thinking: false }, false],
    ['deepseek_r1', { thinking_mode: 'chat' }, false],
    ['deepseek_r1', {}, true],
    ['deepseek_v4', { thinking: false }, false],
    ['deepseek_v4', {}, true],
    ['deepseek_v3_2', { thinking: false }, true],
    ['deepseek_v3', {}, false],
    ['deepseek_v3', { thinking: true }, true],
    ['deepseek_v3_1', { reasoning_effort: 'low' }, true],
    ['deepseek_v3_1', { reasoning_effort: 'none', enable_thinking: false }, false],
    ['mistral', {}, false],
    ['mistral', { thinking: true }, false],
    ['mistral', { reasoning_effort: 'high' }, true],
    ['gemma4', {}, false],
    ['gemma4', { enable_thinking: true }, true],
    ['kimi_k25', { thinking: false }, false],
    ['kimi_k25', { enable_thinking: false }, true],
    ['kimi_k25', {}, true],
    ['qwen3', { enable_thinking: false }, true],
  ] as const)('of %s under %o: %s', (name, templateArgs, expected) => {
    expect(withArgs(name, templateArgs)).toBe(expected);
  });

  it.each([
    ['', '<think>', '</think>'],
    [':opensource', '<think:opensource>', '</think:opensource>'],
    [':6124c78e', '<think:6124c78e>', '</think:6124c78e>'],
  ])('of hy_v3 takes the suffix %j from the prompt', (suffix, opener, closer) => {
    const read = (promptText: string, text: string) => runParser('hy_v3', cut(text, 3), { promptText });
    const call = `<tool_calls${suffix}>`;
    expect(read(`hi${opener}`, `hm${closer}Ok`)).toEqual({ reasoning: 'hm', content: 'Ok' });
    expect(read(`hi${opener}`, `hm${call}`)).toEqual({ reasoning: 'hm', content: call });
    expect(read(`hi${opener}${closer}`, 'Ok')).toEqual({ reasoning: '', content: 'Ok' });
    expect(read(`hi${opener}${closer}`, `${opener}hm${closer}Ok`)).toEqual({ reasoning: 'hm', content: 'Ok' });
  });

  it('splits nothing for kimi_k25 after a tool result', () => {
    expect(isSplit('kimi_k25', { lastRole: 'tool' })).toBe(false);
    expect(isSplit('kimi_k25', { lastRole: 'user' })).toBe(true);
  });

  it('splits nothing of a forced tool call where reasoning would be assumed', () => {
    expect(isSplit('step3', { forcesTool: true })).toBe(false);
    expect(isSplit('qwen3', { forcesTool: true })).toBe(true);
  });

  it.each(['nemotron_nano', 'nemotron3', 'nemotron_v3'])('of %s without thinking strips one leading opener', (name) => {
    for (const templateArgs of [{ enable_thinking: false }, { force_nonempty_content: true }]) {
      for (const [text, content] of [
        ['<think>a</think>b', 'a</think>b'],
        ['<thin', '<thin'],
        ['a<think>', 'a<think>'],
        ['', ''],
      ] as const) {
        expect(runParser(name, [text], { templateArgs })).toEqual({ reasoning: '', content });
        expect(runParser(name, cut(text, 1), { templateArgs })).toEqual({ reasoning: '', content });
      }
    }
    expect(runParser(name, ['a</think>b'], { templateArgs: {} })).toEqual({ reasoning: 'a', content: 'b' });
  });

  it.each([
    ['qwen3', 'hi\n<think>\n\n', 'inside'],
    ['qwen3', 'hi\n<think>\n\n</think>\n\n', 'as-usual'],
    ['deepseek_v3_2', '<|Assistant|></think>', 'outside'],
    ['deepseek_r1', '<think> so', 'as-usual'],
    ['minimax_m3', 'x<mm:think>', 'inside'],
    ['minimax_m3', 'x<think>', 'as-usual'],
    ['kimi_k3', '<|open|> think\n<|sep|> ', 'inside'],
    ['gemma4', '<|channel>thought\n', 'inside'],
    ['gpt_oss', '<|start|>assistant', 'as-usual'],
  ])('of %s after %o starts %s', (name, promptText, start) => {
    const templateArgs = { thinking: true };
    expect(planReasoning(formatOf(name), { templateArgs, promptText })?.start).toBe(start);
  });

  it.each(['step3', 'minimax_m2', 'deepseek_v3_2', 'kimi_k25'])(
    'begins %s with content where thinking is off and no prompt says otherwise',
    (name) => {
      for (const templateArgs of [{ enable_thinking: false }, { thinking_mode: 'disabled' }]) {
        expect(runParser(name, ['Hi'], { templateArgs })).toEqual({ reasoning: '', content: 'Hi' });
        expect(runParser(name, cut('<think>hm</think>Hi', 1), { templateArgs })).toEqual({
          reasoning: 'hm',
          content: 'Hi',
        });
        const promptText = 'hi<think>\n';
        expect(runParser(name, ['hm</think>Hi'], { templateArgs, promptText })).toEqual({
          reasoning: 'hm',
          content: 'Hi',
        });
      }
    },
  );

  it('begins with content where the prompt has closed the reasoning', () => {
    expect(runParser('step3', ['Hi'], { promptText: '<think></think>\n' })).toEqual({ reasoning: '', content: 'Hi' });
  });
});

describe('needsSpecialTokens', () => {
  const none = (): boolean => false;

  it.each(['gemma4', 'gpt_oss', 'kimi_k25', 'kimi_k3', 'inkling', 'deepseek_v3_1', 'deepseek_r1'])(
    'is true of %s in every model',
    (name) => expect(needsSpecialTokens(formatOf(name), none)).toBe(true),
  );

  it('is true of any format whose markers are special tokens of the model', () => {
    expect(needsSpecialTokens(formatOf('qwen3'), none)).toBe(false);
    expect(needsSpecialTokens(formatOf('qwen3'), (text) => text === '</think>')).toBe(true);
    expect(needsSpecialTokens(formatOf('minimax_append_think'), () => true)).toBe(false);
  });
});
