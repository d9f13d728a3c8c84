import type { ChatMessage, Endpoint, GenerationRequest, PromptInput } from '../generation/generation-request.ts';
import type { JsonBody } from '../json/json-body.ts';
import { checkChatBody } from './chat-checks.ts';
import { type ChatBody, type CheckedChat, chatShape } from './chat-schema.ts';
import { readChatTools } from './chat-tools.ts';
import type { DecodeContext } from './decode-context.ts';
import { decodeGuided, guidedByToolChoice } from './decode-guided.ts';
import { assembleRequest, decodeUsageReporting, type UsageReporting } from './decode-request.ts';
import { effectiveNvext } from './decode-routing.ts';
import { invalidValue, requireShape } from './field-checks.ts';
import { type History, readHistory } from './history.ts';
import type { Nvext } from './shared-fields.ts';

/** Chat request with the information that the answer's encoder needs. */
export interface DecodedChat extends UsageReporting {
  readonly request: GenerationRequest;
  /** Names of the tools whose calls the answer shows as `custom`; to the model they are functions with one text. */
  readonly customTools: ReadonlySet<string>;
}

/** Checks the types of a chat body. @throws ServeError 400; see `requireShape`. */
export function parseChatBody(body: JsonBody): ChatBody {
  return requireShape(chatShape, body) as ChatBody; // new messages of the user are checked with the rest of their turn
}

/**
 * Decodes a chat body whose types are right into a request.
 * @throws ServeError `invalid_value`, `unknown_parameter`, `unsupported_parameter`, `headers_too_large`.
 */
export function decodeChat(body: ChatBody, context: DecodeContext): DecodedChat {
  checkChatBody(body, context.settings);
  const { tools, choice, customTools } = readChatTools(body, context.leftOut);
  const { tools: _tools, tool_choice: _choice, ...rest } = body;
  const chat: CheckedChat = {
    ...rest,
    messages: body.messages as readonly ChatMessage[], // fields may also be null
    ...(tools === undefined ? {} : { tools }),
    ...(choice === undefined ? {} : { tool_choice: choice }),
  };
  const request = decodeChatRequest(chat, context, 'chat_completions');
  return { request, customTools, ...decodeUsageReporting(body, context.settings.forcesUsage) };
}

/**
 * Decodes a chat body within its bounds into a request; other dialects use it through their equivalent chat body.
 * @param given `nvext`, if it is not part of the body for workers. @default the body's own
 * @throws ServeError `invalid_value`, `headers_too_large`.
 */
export function decodeChatRequest(
  body: CheckedChat,
  context: DecodeContext,
  endpoint: Endpoint,
  given: CheckedChat['nvext'] = body.nvext,
): GenerationRequest {
  const nvext = effectiveNvext(given, context);
  const guided = guidedByToolChoice(body, nvext) ?? decodeGuided(body, nvext);
  requireOneChoice(body, nvext);
  const history = readHistory(body.messages, context.leftOut, context.isBlind);
  const request = assembleRequest({
    body: bodyForWorkers(body, history),
    nvext,
    context,
    endpoint,
    prompt: decodePrompt(body, nvext, history),
    choices: body.n ?? 1,
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    guided,
    logprobs: body.logprobs === true ? (body.top_logprobs ?? 1) : undefined,
    promptLogprobs: body.prompt_logprobs,
  });
  if (body.reasoning_effort != null) request.reasoning = { effort: body.reasoning_effort };
  if (body.mm_processor_kwargs != null) request.mmProcessorKwargs = body.mm_processor_kwargs;
  return request;
}

/** Returns the equivalent body for a worker that takes no prompt. */
function bodyForWorkers(body: CheckedChat, history: History): CheckedChat {
  const messages = { enumerable: true, configurable: true, get: () => history.forwarded };
  return Object.defineProperty({ ...body }, 'messages', messages);
}

/**
 * Refuses several choices with `completion_token_ids`: the answer has one list of generated ids, which only one choice
 * can fill.
 */
export function requireOneChoice(body: { readonly n?: number | null | undefined }, nvext: Nvext, prompts = 1): void {
  if (!nvext.extra_fields?.includes('completion_token_ids') || (body.n ?? 1) * prompts === 1) return;
  throw invalidValue(
    '`nvext.extra_fields=["completion_token_ids"]` requires exactly one generated choice',
    'nvext.extra_fields',
  );
}

/** Returns the prompt of a chat body: its messages, or `nvext.token_data` instead of them. */
function decodePrompt(body: CheckedChat, nvext: Nvext, { rendered }: History): PromptInput {
  if (nvext.token_data != null) return { kind: 'tokens', tokenIds: nvext.token_data };
  const templateArgs = decodeTemplateArgs(body);
  const choice = body.tool_choice;
  return {
    kind: 'chat',
    messages: rendered,
    ...(body.tools === undefined ? {} : { tools: body.tools }),
    ...(choice == null ? {} : { toolChoice: typeof choice === 'string' ? choice : { name: choice.function.name } }),
    ...(body.parallel_tool_calls == null ? {} : { parallelToolCalls: body.parallel_tool_calls }),
    ...(body.add_generation_prompt == null ? {} : { addGenerationPrompt: body.add_generation_prompt }),
    ...(body.continue_final_message == null ? {} : { continueFinalMessage: body.continue_final_message }),
    ...(templateArgs === undefined ? {} : { templateArgs }),
  };
}

/**
 * Returns the template variables: the client's own, and those derived from `documents`, `reasoning_effort`, `thinking`
 * and `enable_thinking`, the name of the same switch at hosts of Qwen.
 */
function decodeTemplateArgs(body: CheckedChat): Readonly<Record<string, unknown>> | undefined {
  const given = body.chat_template_args ?? body.chat_template_kwargs;
  const { documents } = body;
  const thinking = body.thinking ?? body.enable_thinking;
  if (given == null && body.reasoning_effort == null && thinking == null && documents == null) return undefined;
  const args: Record<string, unknown> = { ...(documents == null ? {} : { documents }), ...given };
  if (body.reasoning_effort != null) {
    args.reasoning_effort = body.reasoning_effort;
    args.enable_thinking ??= body.reasoning_effort !== 'none';
  }
  const mode = thinkingMode(thinking);
  if (mode !== undefined) args.thinking_mode = mode;
  if (mode === 'enabled' || mode === 'disabled') args.thinking = mode === 'enabled';
  if (typeof args.thinking === 'boolean') {
    // Template families read one of these names each; the switch must reach all of them (1.6.1).
    args.thinking_mode ??= args.thinking ? 'enabled' : 'disabled';
    args.enable_thinking ??= args.thinking;
  }
  return args;
}

function thinkingMode(thinking: unknown): 'enabled' | 'disabled' | 'adaptive' | undefined {
  if (thinking == null) return undefined;
  if (typeof thinking === 'boolean') return thinking ? 'enabled' : 'disabled';
  return (thinking as { type: 'enabled' | 'disabled' | 'adaptive' }).type; // checked by checkChatBody
}
