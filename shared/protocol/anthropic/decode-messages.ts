import { ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { ChatMessage, GenerationRequest, ToolChoice, ToolDefinition } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import type { JsonBody } from '../json/json-body.ts';
import type { CheckedChat } from '../openai/chat-schema.ts';
import { checkTool, hostedChoice, requireHostedType } from '../openai/chat-tools.ts';
import { decodeChatRequest } from '../openai/decode-chat.ts';
import type { DecodeContext, Mutable } from '../openai/decode-context.ts';
import { checkModel, checkSharedBounds, invalidValue, requireShape } from '../openai/field-checks.ts';
import { checkCacheWarming, WARMING_TOKENS, warmsCache } from './cache-warming.ts';
import { chatMessages } from './chat-messages.ts';
import { clientTool } from './client-tools.ts';
import {
  type CountTokensBody,
  countTokensSchema,
  type MessagesBody,
  messagesSchema,
  type ToolParam,
} from './messages-schema.ts';

const PREAMBLE = 'x-anthropic-billing-header:';

/** Settings of the deployment and facts about the requested model that the decoder needs. */
export interface MessagesDecodeOptions {
  /** Whether to remove a client's billing preamble from the system prompt (`--strip-anthropic-preamble`). */
  readonly stripsPreamble: boolean;
  /**
   * Whether the model's reasoning is separated from its answer, so that `thinking` has a meaning. `if-asked`: only the
   * engine knows, so that a request which does not name `thinking` leaves it to the engine.
   */
  readonly hasReasoningParser: boolean | 'if-asked';
}

/** Checks the types of a Messages body. @throws ServeError 400; see `requireShape`. */
export function parseMessagesBody(body: JsonBody): MessagesBody {
  return requireShape(messagesSchema, body);
}

/** Checks the types of a `count_tokens` body. @throws ServeError 400; see `requireShape`. */
export function parseCountTokensBody(body: JsonBody): CountTokensBody {
  return requireShape(countTokensSchema, body);
}

/**
 * Decodes a Messages body whose types are right, by way of the equivalent chat body. Workers that take untouched bodies
 * get that chat body.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `unsupported_parameter`, `headers_too_large`.
 */
export function decodeMessages(
  body: MessagesBody,
  context: DecodeContext,
  options: MessagesDecodeOptions,
): GenerationRequest {
  const isWarming = warmsCache(body);
  if (isWarming) checkCacheWarming(body);
  const chat = chatBody(body, options, context.leftOut);
  chat.max_tokens = isWarming ? WARMING_TOKENS : body.max_tokens;
  if (body.stream === true) chat.stream = true;
  if (body.temperature != null) chat.temperature = body.temperature;
  if (body.top_p != null) chat.top_p = body.top_p;
  if (body.top_k != null) chat.top_k = body.top_k;
  if (body.stop_sequences != null && body.stop_sequences.length > 0) chat.stop = body.stop_sequences;
  if (body.nvext != null) chat.nvext = body.nvext;
  checkModel(body.model);
  checkSharedBounds(chat, context.settings, 'stop_sequences');
  return decodeChatRequest(chat, context, 'anthropic_messages');
}

/** Decodes the request whose prompt `count_tokens` counts. @throws ServeError as `decodeMessages` */
export function decodeCountTokens(
  body: CountTokensBody,
  context: DecodeContext,
  options: MessagesDecodeOptions,
): GenerationRequest {
  return decodeChatRequest(chatBody(body, options, context.leftOut), context, 'anthropic_messages');
}

function chatBody(body: CountTokensBody, options: MessagesDecodeOptions, leftOut: LeftOut): Mutable<CheckedChat> {
  if (body.messages.length === 0) throw invalidValue('messages: field required', 'messages');
  const messages = chatMessages(body.messages, leftOut);
  const system = systemText(body.system, options.stripsPreamble);
  const chat: Mutable<CheckedChat> = {
    model: body.model,
    messages: system === '' ? messages : [{ role: 'system', content: system }, ...messages],
  };
  addTools(body, chat, leftOut);
  addOutputFormat(body, chat);
  const { hasReasoningParser: reads } = options;
  if (reads === true || (reads === 'if-asked' && asksOfThinking(body))) addThinking(body, chat);
  if (isPrefill(messages.at(-1))) {
    chat.add_generation_prompt = false;
    chat.continue_final_message = true;
  }
  return chat;
}

function addTools(body: CountTokensBody, chat: Mutable<CheckedChat>, leftOut: LeftOut): void {
  if (Array.isArray(body.mcp_servers) && body.mcp_servers.length > 0) leftOut.note('tool', 'mcp_servers');
  const { tools, hosted } = chatTools(body.tools, leftOut);
  if (tools !== undefined) chat.tools = tools;
  const choice = chatToolChoice(body.tool_choice, tools, hosted);
  if (typeof choice === 'object') chat.tool_choice = { type: 'function', function: { name: choice.name } };
  else if (choice !== undefined) chat.tool_choice = choice;
  if (body.tool_choice?.disable_parallel_tool_use === true) chat.parallel_tool_calls = false;
}

function addOutputFormat({ output_config: config }: CountTokensBody, chat: Mutable<CheckedChat>): void {
  const format = config?.format;
  if (format?.type !== 'json_schema') return;
  const { schema } = format;
  if (!isRecord(schema)) {
    const param = 'output_config.format.schema';
    throw invalidValue(`${param}: must be a JSON schema object`, param);
  }
  chat.response_format = { type: 'json_schema', json_schema: { name: 'output', schema } };
}

function asksOfThinking({ thinking, output_config: config }: CountTokensBody): boolean {
  return thinking != null || config?.effort != null;
}

const EFFORTS: ReadonlySet<string> = new Set(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

/**
 * Sets the template's arguments from `thinking`, which is on unless it is switched off. Only for models whose reasoning
 * is parsed; others would show their reasoning as text.
 */
function addThinking({ thinking, output_config: config }: CountTokensBody, chat: Mutable<CheckedChat>): void {
  const isOff = thinking?.type === 'disabled';
  const mode = isOff || thinking?.type === 'enabled' || thinking?.type === 'adaptive' ? thinking.type : undefined;
  chat.chat_template_kwargs = {
    ...(isOff
      ? { thinking: false, enable_thinking: false }
      : { thinking: true, enable_thinking: true, truncate_history_thinking: false }),
    ...(mode === undefined ? {} : { thinking_mode: mode }),
  };
  if (!isOff && thinking?.budget_tokens != null) chat.thinking_token_budget = thinking.budget_tokens;
  if (config?.effort != null && EFFORTS.has(config.effort)) {
    chat.reasoning_effort = config.effort as NonNullable<CheckedChat['reasoning_effort']>; // the set contains it
  }
}

/**
 * Returns whether the conversation ends in the assistant's own text, from where the model continues it (published
 * contract).
 */
function isPrefill(last: ChatMessage | undefined): boolean {
  return last?.role === 'assistant' && last.tool_calls === undefined && last.content !== '';
}

interface ReadTools {
  /** Functions; undefined if there are none. */
  readonly tools: readonly ToolDefinition[] | undefined;
  /** Names and types of the hosted tools that were left out. */
  readonly hosted: ReadonlySet<string>;
}

/**
 * Returns the tools of a Messages body as functions: the client's own, and those of Anthropic's that a client executes.
 * Tools that only another server could run are left out.
 * @throws ServeError `missing_required_parameter`, `invalid_value`.
 */
function chatTools(given: CountTokensBody['tools'], leftOut: LeftOut): ReadTools {
  const hosted = new Set<string>();
  const tools = (given ?? []).flatMap((tool, at): readonly ToolDefinition[] => {
    if (tool.type == null || tool.type === 'custom') return [chatTool(tool, at)];
    const atClient = clientTool(tool);
    if (atClient !== undefined) {
      checkTool(atClient.function, at, `tools[${at}]`);
      return [atClient];
    }
    requireHostedType(tool.type, `tools[${at}]`, "custom and Anthropic's own");
    hosted.add(tool.type);
    if (tool.name != null) hosted.add(tool.name);
    leftOut.note('tool', tool.type);
    return [];
  });
  return { tools: tools.length === 0 ? undefined : tools, hosted };
}

function chatTool(tool: ToolParam, at: number): ToolDefinition {
  const param = `tools[${at}]`;
  if (tool.name == null) throw missing(`${param}.name`, 'field required');
  const { name, description, input_schema: parameters, strict } = tool;
  if (parameters == null) throw missing(`${param}.input_schema`, 'field required for client tools');
  if (typeof parameters !== 'object' || Array.isArray(parameters)) {
    throw invalidValue(`${param}.input_schema: must be a JSON schema object`, `${param}.input_schema`);
  }
  checkTool({ name, parameters, strict }, at, param);
  return {
    type: 'function',
    function: {
      name,
      ...(description == null ? {} : { description }),
      parameters,
      ...(strict == null ? {} : { strict }),
    },
  };
}

/**
 * Converts `tool_choice` to the form of chat; undefined leaves the choice to the model.
 * @throws ServeError 400 when the choice does not name a tool of `tools`.
 */
function chatToolChoice(
  choice: CountTokensBody['tool_choice'],
  tools: readonly ToolDefinition[] | undefined,
  hosted: ReadonlySet<string>,
): ToolChoice | undefined {
  if (choice == null) return undefined;
  if (choice.type === 'any') {
    const [left] = hosted;
    if (tools === undefined && left !== undefined) throw hostedChoice(left);
    if (tools === undefined) throw invalidValue('tool_choice: type "any" needs at least one tool', 'tool_choice');
    return 'required';
  }
  if (choice.type !== 'tool') return tools === undefined && hosted.size > 0 ? undefined : choice.type;
  const { name } = choice;
  if (name == null) throw missing('tool_choice.name', 'field required');
  if (hosted.has(name)) throw hostedChoice(name);
  if (tools?.some((tool) => tool.function.name === name) === true) return { name };
  throw invalidValue(`tool named "${name}" in tool_choice is not present in tools`, 'tool_choice.name');
}

/** Creates the error for an absent required field, in Anthropic's words. */
function missing(param: string, text: string): ServeError {
  return new ServeError('missing_required_parameter', `${param}: ${text}`, { param });
}

/**
 * Returns the system prompt as one text, its blocks joined by newlines. With `stripsPreamble`, a leading billing line
 * or block of a client is removed: it changes with every build of the client and would keep prompts from sharing a
 * prefix.
 */
function systemText(system: CountTokensBody['system'], stripsPreamble: boolean): string {
  if (system == null) return '';
  const text = typeof system === 'string' ? system : system.map((block) => block.text).join('\n');
  if (!stripsPreamble || !text.startsWith(PREAMBLE)) return text;
  const lineEnd = text.indexOf('\n');
  return lineEnd < 0 ? '' : text.slice(lineEnd + 1);
}
