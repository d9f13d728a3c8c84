import { describe, expect, it } from 'vitest';
import type { RuntimeConfig } from '../../../../shared/discovery/index.ts';
import { withCardDefaults } from '../../../../shared/pipeline/prompt/preprocess.ts';
import type { ToolChoice } from '../../../../shared/protocol/index.ts';
import { model, request } from '../fixtures.ts';

const TOOL = { type: 'function', function: { name: 'f' } } as const;

/** Whether the template sees the tools of a request. */
function showsTools(toolChoice: ToolChoice, card: RuntimeConfig = {}, excludes = true): boolean {
  const asked = request({
    prompt: { kind: 'chat', messages: [{ role: 'user', content: 'a' }], tools: [TOOL], toolChoice },
  });
  const { prompt } = withCardDefaults(asked, { ...model().card, runtime_config: card }, excludes);
  return prompt.kind === 'chat' && prompt.tools !== undefined;
}

describe('tools that a request forbids to call', () => {
  it('are hidden from the template', () => {
    expect(showsTools('none')).toBe(false);
  });

  it('are shown where the deployment or the model says so', () => {
    expect(showsTools('none', {}, false)).toBe(true);
    expect(showsTools('none', { exclude_tools_when_tool_choice_none: false })).toBe(true);
  });

  it('are those of no other choice', () => {
    for (const choice of ['auto', 'required', { name: 'f' }] as const) expect(showsTools(choice)).toBe(true);
  });
});
