import { describe, expect, it } from 'vitest';
import { systemRandom } from '../../../../shared/clock/index.ts';
import {
  createToolCallParser,
  describeToolCallParser,
  TOOL_CALL_PARSER_NAMES,
} from '../../../../shared/parsers/tool-calls/index.ts';
import { declare } from './read-calls.ts';

describe('names of tool-call parsers', () => {
  it('are all built', () => {
    for (const name of TOOL_CALL_PARSER_NAMES) expect(describeToolCallParser(name).kind).toBe('built');
    expect(TOOL_CALL_PARSER_NAMES).toHaveLength(34);
  });

  it('are matched exactly, and an unknown one is refused with the list of known ones', () => {
    const description = describeToolCallParser('Hermes');
    expect(description).toMatchObject({
      kind: 'refused',
      message: expect.stringMatching(/^Parser 'Hermes' is not implemented\. Available parsers: \[.*hermes, .*\]$/),
    });
  });

  it.each(['deepseek_v41', 'muse', 'muse_glimmer', 'typescript'])('%s is recognised and refused', (name) => {
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
