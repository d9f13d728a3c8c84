import { describe, expect, it } from 'vitest';
import type { RuntimeConfig } from '../../../../shared/discovery/index.ts';
import { withCardDefaults } from '../../../../shared/pipeline/prompt/preprocess.ts';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { model, request } from '../fixtures.ts';

function argsFor(runtime_config: RuntimeConfig, templateArgs?: Record<string, unknown>) {
  const asked: GenerationRequest = request({
    prompt: {
      kind: 'chat',
      messages: [{ role: 'user', content: 'abc' }],
      ...(templateArgs === undefined ? {} : { templateArgs }),
    },
  });
  const { prompt } = withCardDefaults(asked, { ...model().card, runtime_config }, true);
  return prompt.kind === 'chat' ? prompt.templateArgs : undefined;
}

describe("a model's default thinking mode", () => {
  it('reaches the template under every name when the request names none', () => {
    expect(argsFor({ default_thinking_mode: 'disabled' }, { a: 1 })).toEqual({
      a: 1,
      thinking: false,
      enable_thinking: false,
      thinking_mode: 'disabled',
    });
    expect(argsFor({ default_thinking_mode: 'enabled' })).toMatchObject({ thinking: true, thinking_mode: 'enabled' });
  });

  it('gives way to whatever the request says', () => {
    for (const said of [{ thinking: true }, { enable_thinking: true }, { thinking_mode: 'adaptive' }]) {
      expect(argsFor({ default_thinking_mode: 'disabled' }, said)).toEqual(said);
    }
  });

  it('changes nothing when the model has none', () => {
    expect(argsFor({})).toBeUndefined();
  });
});
