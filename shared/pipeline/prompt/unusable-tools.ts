import type { ModelCard } from '../../discovery/index.ts';
import type { GenerationRequest } from '../../protocol/generation/index.ts';

/**
 * The request without tools that it forbids to call, so that the template does not tempt the model; unless the deployment
 * or the model's card shows them.
 */
export function withoutUnusableTools(
  request: GenerationRequest,
  card: ModelCard,
  excludesTools: boolean,
): GenerationRequest {
  const { prompt } = request;
  if (prompt.kind !== 'chat' || prompt.toolChoice !== 'none' || prompt.tools === undefined) return request;
  if (!excludesTools || card.runtime_config.exclude_tools_when_tool_choice_none === false) return request;
  const { tools: _unusable, ...withoutTools } = prompt;
  return { ...request, prompt: withoutTools };
}
