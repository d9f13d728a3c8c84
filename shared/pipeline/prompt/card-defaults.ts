import type { ModelCard } from '../../discovery/index.ts';
import type { GenerationRequest } from '../../protocol/generation/index.ts';

/** The request with what the model's card and this deployment say about its prompt. */
export function withCardDefaults(
  request: GenerationRequest,
  card: ModelCard,
  excludesTools: boolean,
): GenerationRequest {
  return withoutUnusableTools(withDefaultThinking(request, card), card, excludesTools);
}

/** Template variables that say whether to think; `reasoning_effort` sets one of them. */
const SWITCHES = ['thinking', 'enable_thinking', 'thinking_mode'] as const;

/** The request with the model's own thinking mode (`--dyn-default-thinking-mode`) where it names none itself. */
function withDefaultThinking(request: GenerationRequest, card: ModelCard): GenerationRequest {
  const mode = card.runtime_config.default_thinking_mode;
  const { prompt } = request;
  if (mode === undefined || prompt.kind !== 'chat') return request;
  const args = prompt.templateArgs ?? {};
  if (SWITCHES.some((name) => args[name] != null)) return request;
  const isOn = mode === 'enabled';
  const templateArgs = { ...args, thinking: isOn, enable_thinking: isOn, thinking_mode: mode };
  return { ...request, prompt: { ...prompt, templateArgs } };
}

/**
 * The request without tools that it forbids to call, so that the template does not tempt the model; unless the deployment
 * or the model's card shows them.
 */
function withoutUnusableTools(request: GenerationRequest, card: ModelCard, excludesTools: boolean): GenerationRequest {
  const { prompt } = request;
  if (prompt.kind !== 'chat' || prompt.toolChoice !== 'none' || prompt.tools === undefined) return request;
  if (!excludesTools || card.runtime_config.exclude_tools_when_tool_choice_none === false) return request;
  const { tools: _unusable, ...withoutTools } = prompt;
  return { ...request, prompt: withoutTools };
}
