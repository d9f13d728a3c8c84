import { describe, expect, it } from 'vitest';
import { systemRandom } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import {
  REASONING_PARSER_SPELLINGS,
  REASONING_PARSERS,
  TOOL_CALL_PARSER_SPELLINGS,
  TOOL_CALL_PARSERS,
  TOOL_CALL_PARSERS_WITHOUT_GRAMMAR,
} from '../../../../shared/config/parser-names.ts';
import { createToolCallParser, describeToolCallParser, findReasoningFormat } from '../../../../shared/parsers/index.ts';
import { REASONING_FORMATS } from '../../../../shared/parsers/reasoning/formats.ts';
import { TOOL_CALL_PARSER_NAMES } from '../../../../shared/parsers/tool-calls/registry.ts';
import { declare } from './read-calls.ts';

describe('the flags for parsers', () => {
  const resolve = (flag: string, name: string) =>
    resolveConfig('worker', ['--engine', 'mocker', flag, name], {}, { allowMissing: true }).settings;

  it('take every tool-call parser that is built, in every spelling, and no other', () => {
    for (const name of TOOL_CALL_PARSER_NAMES) {
      const { toolCallParser = '' } = resolve('--dyn-tool-call-parser', name);
      expect(describeToolCallParser(toolCallParser)).toEqual(describeToolCallParser(name));
    }
    for (const name of TOOL_CALL_PARSERS) expect(describeToolCallParser(name).kind).toBe('built');
    for (const name of [...TOOL_CALL_PARSERS_WITHOUT_GRAMMAR, 'nope']) {
      expect(() => resolve('--dyn-tool-call-parser', name)).toThrow(`--dyn-tool-call-parser "${name}"`);
    }
  });

  it('take every reasoning parser that is built, in every spelling, and no other', () => {
    expect(REASONING_FORMATS.map(({ name }) => name).sort()).toEqual([...REASONING_PARSERS].sort());
    for (const name of REASONING_PARSERS) expect(resolve('--dyn-reasoning-parser', name).reasoningParser).toBe(name);
    for (const [spelling, name] of Object.entries(REASONING_PARSER_SPELLINGS)) {
      expect(resolve('--dyn-reasoning-parser', spelling).reasoningParser).toBe(name);
      expect(findReasoningFormat(spelling)).toMatchObject({ kind: 'found', format: { name } });
    }
    expect(() => resolve('--dyn-reasoning-parser', 'nope')).toThrow('--dyn-reasoning-parser "nope"');
  });
});

/** Names under which vLLM and SGLang register parsers whose formats are built, as far as the two differ from ours. */
const OF_ENGINES =
  'apertus apertus2509 cohere_command3 cohere_command4 deepseek_v31 deepseek_v32 deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 dots ernie45 functiongemma gemma4 gigachat3 gigachat35 glm glm45 glm47 gpt-oss granite granite-20b-fc granite4 hermes hunyuan hunyuan_a13b hy_v3 hy_v4 inkling internlm interns1 jamba kimi_k2 kimi_k3 lfm2 ling3 llama3 llama3_json llama4_json llama4_pythonic longcat mimo minicpm5 minimax-m2 minimax-m3 minimax_m2 minimax_m3 mistral muse muse_glimmer olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic qwen qwen25 qwen3_coder qwen3_xml seed_oss solar_open2 spark25 step3 step3p5 trinity xlam';

describe('names of tool-call parsers', () => {
  it.each(OF_ENGINES.split(' '))('%s, the name of an engine, is known', (name) => {
    expect(describeToolCallParser(name)).toMatchObject({ kind: 'built' });
  });

  it('are all built', () => {
    for (const name of TOOL_CALL_PARSER_NAMES) expect(describeToolCallParser(name).kind).toBe('built');
    const spellings = Object.keys(TOOL_CALL_PARSER_SPELLINGS);
    expect([...TOOL_CALL_PARSER_NAMES].sort()).toEqual([...TOOL_CALL_PARSERS, ...spellings].sort());
  });

  it('are matched exactly, and an unknown one is refused with the list of known ones', () => {
    const description = describeToolCallParser('Hermes');
    expect(description).toMatchObject({
      kind: 'refused',
      message: expect.stringMatching(/^Parser 'Hermes' is not implemented\. Available parsers: \[.*hermes, .*\]$/),
    });
  });

  it.each(['typescript'])('%s is recognised and refused', (name) => {
    expect(describeToolCallParser(name)).toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('known by name only'),
    });
  });

  it('do not serve a request when refused', () => {
    const options = { tools: declare({ f: {} }), random: systemRandom };
    expect(() => createToolCallParser('nope', options)).toThrow("Parser 'nope' is not implemented");
  });

  it('say which markers are special tokens of the tokenizer', () => {
    expect(describeToolCallParser('kimi_k2')).toMatchObject({ keepsSpecialTokens: true });
    expect(describeToolCallParser('harmony')).toMatchObject({ endTokens: ['<|call|>', '<|return|>'] });
    expect(describeToolCallParser('hermes')).toMatchObject({ keepsSpecialTokens: false, endTokens: [] });
  });
});
