import type { ModelCard } from '../../discovery/index.ts';
import type { GenerationRequest } from '../../protocol/generation/index.ts';

/** Template variables that say whether to think; `reasoning_effort` sets one of them. */
const SWITCHES = ['thinking', 'enable_thinking', 'thinking_mode'] as const;

/** The request with the model's own thinking mode (`--dyn-default-thinking-mode`) where it names none itself. */
export function withDefaultThinking(request: GenerationRequest, card: ModelCard): GenerationRequest {
  const mode = card.runtime_config.default_thinking_mode;
  const { prompt } = request;
  if (mode === undefined || prompt.kind !== 'chat') return request;
  const args = prompt.templateArgs ?? {};
  if (SWITCHES.some((name) => args[name] != null)) return request;
  const isOn = mode === 'enabled';
  const templateArgs = { ...args, thinking: isOn, enable_thinking: isOn, thinking_mode: mode };
  return { ...request, prompt: { ...prompt, templateArgs } };
}
