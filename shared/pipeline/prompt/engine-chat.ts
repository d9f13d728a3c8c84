import type { GenerationRequest } from '../../protocol/index.ts';
import type { RoutableModel } from '../models/routable-model.ts';

/** Facts about the length of a chat that its engine renders. */
interface ChatRoom {
  /** Tokens of the prompt as rendered here. @default unknown */
  readonly plainTokens?: number | undefined;
  /** Tokens of a choice for requests that name no number. @default the engine decides */
  readonly maxTokensDefault?: number | undefined;
}

/** Template variables that engines also read at the root of a body. */
const AT_ROOT: ReadonlySet<string> = new Set(['documents', 'reasoning_effort']);

/**
 * Returns the request with the body that its engine gets, if chats are left to the engine (`--dyn-chat-processor`). The
 * body says what this process would have rendered, so that routing knows the engine's prompt: the template variables
 * that other fields imply, and no tools that the request forbids to call. Other requests stay as they are.
 */
export function forEngine(request: GenerationRequest, model: RoutableModel, room: ChatRoom = {}): GenerationRequest {
  const { prompt, body } = request;
  if (model.passesChats !== true || prompt.kind !== 'chat' || body === undefined) return request;
  const { templateArgs, tools } = prompt;
  const args = Object.entries(templateArgs ?? {}).filter(
    ([name, value]) => !(AT_ROOT.has(name) && body[name] === value),
  );
  const isHidden = tools === undefined && body.tools != null;
  return {
    ...request,
    body: {
      ...body,
      ...(args.length === 0 ? {} : { chat_template_kwargs: Object.fromEntries(args) }),
      ...(isHidden ? { tools: undefined, tool_choice: undefined, parallel_tool_calls: undefined } : {}),
      ...tokensOf(request, model, room),
    },
  };
}

/**
 * Returns the fields for the tokens of a choice: the default of this deployment, and at most what the context leaves,
 * because engines refuse more. A prompt that does not fit stays with the engine, which counts it exactly.
 */
function tokensOf(
  { stop: { max_tokens: asked }, body }: GenerationRequest,
  { contextLength }: RoutableModel,
  { plainTokens, maxTokensDefault }: ChatRoom,
): Readonly<Record<string, number>> {
  const tokens = asked ?? maxTokensDefault;
  if (tokens === undefined) return {};
  const left = contextLength - (plainTokens ?? contextLength);
  const fitting = left > 0 ? Math.min(tokens, left) : tokens;
  if (fitting === asked) return {};
  const name = body?.max_completion_tokens == null && body?.max_tokens != null ? 'max_tokens' : 'max_completion_tokens';
  return { [name]: fitting };
}
