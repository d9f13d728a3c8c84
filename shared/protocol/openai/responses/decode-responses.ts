import { ServeError } from '../../../errors/index.ts';
import type { ChatMessage, GenerationRequest } from '../../generation/generation-request.ts';
import type { JsonBody } from '../../json/json-body.ts';
import type { CheckedChat } from '../chat-schema.ts';
import { decodeChatRequest } from '../decode-chat.ts';
import type { DecodeContext, Mutable } from '../decode-context.ts';
import { checkModel, checkRange, invalidValue, requireShape, shapeError } from '../field-checks.ts';
import { RANGES } from '../shared-fields.ts';
import { type CompactBody, checkKeys, compactSchema, type ResponsesBody, responsesSchema } from './body-schema.ts';
import { type CallShape, type DecodedTools, decodeTools } from './decode-tools.ts';
import { type InputItem, parseItems } from './items.ts';
import { itemsToMessages } from './items-to-messages.ts';

/** Item that ends a conversation to be compacted. */
export const COMPACTION_TRIGGER: InputItem = Object.freeze({ type: 'compaction_trigger' });

/** Root keys that have a meaning for the route, or are published and harmless. */
export const COMPACT_KEYS: ReadonlySet<string> = new Set(Object.keys(compactSchema.shape));

/** Most alternatives for each token that a client can request. */
const TOP_LOGPROBS_MAX = 20;

/** Fields of the request that a response object repeats, with the published defaults. */
export type ResponseEcho = ReturnType<typeof echoOf>;

/** Body whose types are right, with its items. */
export interface ParsedResponses {
  readonly body: ResponsesBody;
  /** Items of the body's own `input`, each with its `type`. */
  readonly items: readonly InputItem[];
}

/** Request with the information that the answer's encoder needs. */
export interface DecodedResponses {
  readonly request: GenerationRequest;
  readonly echo: ResponseEcho;
  /** Format of calls in the answer, by the function's name in the chat. */
  readonly callShapes: ReadonlyMap<string, CallShape>;
  /** Whether the answer's text is a summary that replaces the conversation. */
  readonly compacts: boolean;
  /** Whether reasoning is also shown as a summary (`reasoning.summary`). */
  readonly showsSummary: boolean;
}

/** Origin of a request's items, and whether its answer is stored. */
interface ResponsesSource {
  /** Items of the earlier conversation (`previous_response_id`). */
  readonly earlier: readonly InputItem[];
  /** The body's own items, with references resolved. */
  readonly own: readonly InputItem[];
  readonly isStored: boolean;
}

/**
 * Checks the types of a body and of its items. A body that follows a response may have no items of its own.
 * @throws ServeError 400; see `requireShape`.
 */
export function parseResponsesBody(json: JsonBody): ParsedResponses {
  const body = requireShape(responsesSchema, json);
  if (body.input == null && body.previous_response_id == null) {
    throw body.input === undefined
      ? shapeError('missing_required_parameter', 'missing field `input`', 'input')
      : shapeError('invalid_value', 'input: expected a text or a list of items', 'input');
  }
  return { body, items: parseItems(body.input ?? []) };
}

/**
 * Checks everything about a body that its types do not express, apart from tools.
 * @throws ServeError `invalid_value`, `unsupported_parameter`.
 */
export function checkResponsesBody(body: ResponsesBody): void {
  checkKeys(body);
  for (const field of ['completion_token_ids', 'prompt_logprobs']) {
    if (body.nvext?.extra_fields?.includes(field) !== true) continue;
    const message = `\`nvext.extra_fields=["${field}"]\` is not supported by the Responses API.`;
    throw new ServeError('unsupported_parameter', message, { param: 'nvext.extra_fields' });
  }
  checkModel(body.model ?? '');
  checkRange(body.temperature, RANGES.temperature, 'Temperature', 'temperature');
  checkRange(body.top_p, RANGES.top_p, 'Top_p', 'top_p');
  checkRange(body.frequency_penalty, RANGES.frequency_penalty, 'Frequency penalty', 'frequency_penalty');
  checkRange(body.presence_penalty, RANGES.presence_penalty, 'Presence penalty', 'presence_penalty');
  if (body.max_output_tokens === 0) {
    throw invalidValue('Max output tokens must be greater than 0, got 0', 'max_output_tokens');
  }
}

/**
 * Decodes a checked body into a request: a chat, with the items as its messages.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `headers_too_large`.
 */
export function decodeResponses(
  body: ResponsesBody,
  source: ResponsesSource,
  context: DecodeContext,
): DecodedResponses {
  if (source.own.length === 0 && source.earlier.length === 0) {
    throw invalidValue('Messages array cannot be empty', 'input');
  }
  const items = [...source.earlier, ...source.own];
  const ownFrom = source.earlier.length;
  const tools = decodeTools(body, items, ownFrom);
  for (const type of tools.dropped) context.leftOut.note('tool', type);
  const compacts = hasCompactionTrigger(items, ownFrom);
  const chat = toChatBody(body, itemsToMessages(body.instructions, items, ownFrom, context.leftOut), tools);
  if (compacts) {
    chat.tool_choice = 'none'; // a summary is text
    delete chat.response_format;
  }
  const request = decodeChatRequest(chat, context, 'responses', body.nvext);
  const { prompt_cache_key } = body;
  return {
    request: prompt_cache_key ? { ...request, routing: { ...request.routing, prompt_cache_key } } : request,
    echo: echoOf(body, tools, source.isStored),
    callShapes: tools.shapes,
    compacts,
    showsSummary: body.reasoning?.summary != null,
  };
}

/**
 * Returns whether the conversation ends in the request to compact it.
 * @throws ServeError `invalid_value` for such a request anywhere else
 */
function hasCompactionTrigger(items: readonly InputItem[], ownFrom: number): boolean {
  const at = items.findIndex(({ type }) => type === 'compaction_trigger');
  if (at < 0) return false;
  if (at === items.length - 1) return true;
  const param = `input[${at - ownFrom}]`;
  throw invalidValue(`${param}: a compaction_trigger must be the last item of input`, param);
}

/** Returns the equivalent chat body, which workers that take bodies untouched get. */
function toChatBody(body: ResponsesBody, messages: readonly ChatMessage[], tools: DecodedTools): Mutable<CheckedChat> {
  const logprobs = wantedLogprobs(body);
  const format = chatFormat(body);
  return {
    model: body.model ?? '',
    messages,
    ...(body.stream == null ? {} : { stream: body.stream }),
    ...(body.stream === true ? { stream_options: { include_usage: true } } : {}),
    ...(body.temperature == null ? {} : { temperature: body.temperature }),
    ...(body.top_p == null ? {} : { top_p: body.top_p }),
    ...(body.presence_penalty == null ? {} : { presence_penalty: body.presence_penalty }),
    ...(body.frequency_penalty == null ? {} : { frequency_penalty: body.frequency_penalty }),
    ...(body.max_output_tokens == null ? {} : { max_completion_tokens: body.max_output_tokens }),
    ...(logprobs === undefined ? {} : { logprobs: true, top_logprobs: logprobs }),
    ...(format === undefined ? {} : { response_format: format }),
    ...(tools.chatTools.length === 0 ? {} : { tools: [...tools.chatTools] }),
    ...(tools.chatChoice === undefined || tools.chatTools.length === 0 ? {} : { tool_choice: tools.chatChoice }),
    ...(body.parallel_tool_calls == null ? {} : { parallel_tool_calls: body.parallel_tool_calls }),
    ...(body.reasoning?.effort == null ? {} : { reasoning_effort: body.reasoning.effort }),
  };
}

function chatFormat({ text }: ResponsesBody): CheckedChat['response_format'] {
  const format = text?.format;
  if (format == null || format.type === 'text') return undefined;
  if (format.type === 'json_object') return { type: 'json_object' };
  const { name, schema, description, strict } = format;
  if (name === '') throw invalidValue('`text.format.name` cannot be empty', 'text.format.name');
  return {
    type: 'json_schema',
    json_schema: {
      name,
      schema,
      ...(description == null ? {} : { description }),
      ...(strict == null ? {} : { strict }),
    },
  };
}

/**
 * Returns the requested alternatives for each token; undefined when log probabilities are not included, whatever their
 * number.
 */
function wantedLogprobs(body: ResponsesBody): number | undefined {
  if (body.include?.includes('message.output_text.logprobs') !== true) return undefined;
  return Math.min(body.top_logprobs ?? 0, TOP_LOGPROBS_MAX);
}

/**
 * Returns the fields that the answer repeats. @param isStored whether this answer is really stored, which may differ
 * from the request
 */
function echoOf(body: ResponsesBody, tools: DecodedTools, isStored: boolean) {
  return {
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    prompt_cache_retention: body.prompt_cache_retention ?? null,
    reasoning: echoedReasoning(body),
    safety_identifier: body.safety_identifier ?? null,
    service_tier: body.service_tier ?? 'auto',
    temperature: body.temperature ?? 1,
    text: { ...body.text, format: echoedFormat(body) },
    tool_choice: tools.echoChoice,
    tools: tools.echo,
    top_logprobs: wantedLogprobs(body) ?? 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? 'disabled',
    presence_penalty: body.presence_penalty ?? 0,
    frequency_penalty: body.frequency_penalty ?? 0,
    store: isStored,
  };
}

/** Returns the settings of reasoning with both published keys, because typed clients require them. */
function echoedReasoning({ reasoning }: ResponsesBody): object | null {
  if (reasoning == null) return null;
  return { ...reasoning, effort: reasoning.effort ?? null, summary: reasoning.summary ?? null };
}

/** Returns the format of the text with every published key. */
function echoedFormat({ text }: ResponsesBody): object {
  const format = text?.format ?? { type: 'text' };
  if (format.type !== 'json_schema') return format;
  return { ...format, description: format.description ?? null, strict: format.strict ?? false };
}

/** Checks the types of a body that asks to compact a conversation. @throws ServeError 400; see `requireShape`. */
export function parseCompactBody(json: JsonBody): ParsedResponses {
  const body = requireShape(compactSchema, json);
  return { body: responsesBodyOf(body), items: parseItems(body.input ?? []) };
}

/** Returns the equivalent body of `POST /v1/responses`, apart from its items. */
function responsesBodyOf({ model, instructions, previous_response_id }: CompactBody): ParsedResponses['body'] {
  return { model, instructions, previous_response_id, input: [], store: false };
}
