import { ServeError } from '../../../errors/index.ts';
import type { ChatMessage, GenerationRequest } from '../../generation/generation-request.ts';
import type { JsonBody } from '../../json/json-body.ts';
import type { CheckedChat } from '../chat-schema.ts';
import { decodeChatRequest } from '../decode-chat.ts';
import type { DecodeContext, Mutable } from '../decode-context.ts';
import { checkModel, checkRange, invalidValue, requireShape } from '../field-checks.ts';
import { RANGES } from '../shared-fields.ts';
import { type CompactBody, checkKeys, compactSchema, type ResponsesBody, responsesSchema } from './body-schema.ts';
import { type CallShape, type DecodedTools, decodeTools } from './decode-tools.ts';
import { type InputItem, parseItems } from './items.ts';
import { itemsToMessages } from './items-to-messages.ts';

/** Ends a conversation that is to be compacted. */
export const COMPACTION_TRIGGER: InputItem = Object.freeze({ type: 'compaction_trigger' });

/** Root keys that mean something to the route, or are published and harmless. */
export const COMPACT_KEYS: ReadonlySet<string> = new Set(Object.keys(compactSchema.shape));

/** Alternatives a token that can be asked for. */
const TOP_LOGPROBS_MAX = 20;

/** What a response object says of its request, with the published defaults. */
export type ResponseEcho = ReturnType<typeof echoOf>;

/** A body whose types are right, with its items. */
export interface ParsedResponses {
  readonly body: ResponsesBody;
  /** The body's own `input`, every item with its `type`. */
  readonly items: readonly InputItem[];
}

/** A request with what the answer's encoder must know. */
export interface DecodedResponses {
  readonly request: GenerationRequest;
  readonly echo: ResponseEcho;
  /** How calls stand in the answer, by the function's name in the chat. */
  readonly callShapes: ReadonlyMap<string, CallShape>;
  /** The answer's text is a summary that takes the place of the conversation. */
  readonly compacts: boolean;
  /** Reasoning is shown as a summary too (`reasoning.summary`). */
  readonly showsSummary: boolean;
}

/** Where the items of a request come from, and what becomes of its answer. */
interface ResponsesSource {
  /** What was said before (`previous_response_id`). */
  readonly earlier: readonly InputItem[];
  /** The body's own items, references replaced by what they stand for. */
  readonly own: readonly InputItem[];
  readonly isStored: boolean;
}

/** Checks the types of a body and of its items. @throws ServeError 400; see `requireShape`. */
export function parseResponsesBody(json: JsonBody): ParsedResponses {
  const body = requireShape(responsesSchema, json);
  return { body, items: parseItems(body.input) };
}

/**
 * Everything about a body that its types do not say, apart from tools.
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
  if (body.max_output_tokens === 0) {
    throw invalidValue('Max output tokens must be greater than 0, got 0', 'max_output_tokens');
  }
}

/**
 * Turns a checked body into a request: a chat, with the items as its messages.
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
 * Whether the conversation ends in the request to compact it.
 * @throws ServeError `invalid_value` for one that stands elsewhere
 */
function hasCompactionTrigger(items: readonly InputItem[], ownFrom: number): boolean {
  const at = items.findIndex(({ type }) => type === 'compaction_trigger');
  if (at < 0) return false;
  if (at === items.length - 1) return true;
  const param = `input[${at - ownFrom}]`;
  throw invalidValue(`${param}: a compaction_trigger must be the last item of input`, param);
}

/** The chat body that means the same; workers that take bodies untouched get this one. */
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

/** Alternatives asked for a token; undefined when no log probabilities are wanted, however many were named. */
function wantedLogprobs(body: ResponsesBody): number | undefined {
  if (body.include?.includes('message.output_text.logprobs') !== true) return undefined;
  return Math.min(body.top_logprobs ?? 0, TOP_LOGPROBS_MAX);
}

/** @param isStored whether this answer will be found again: the truth, not what was asked */
function echoOf(body: ResponsesBody, tools: DecodedTools, isStored: boolean) {
  return {
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    prompt_cache_retention: body.prompt_cache_retention ?? null,
    reasoning: body.reasoning ?? null,
    safety_identifier: body.safety_identifier ?? null,
    service_tier: body.service_tier ?? 'auto',
    temperature: body.temperature ?? 1,
    text: { ...body.text, format: body.text?.format ?? { type: 'text' } },
    tool_choice: tools.echoChoice,
    tools: tools.echo,
    top_logprobs: wantedLogprobs(body) ?? 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? 'disabled',
    store: isStored,
  };
}

/** Checks the types of a body that asks for a conversation to be compacted. @throws ServeError 400; see `requireShape`. */
export function parseCompactBody(json: JsonBody): ParsedResponses {
  const body = requireShape(compactSchema, json);
  return { body: responsesBodyOf(body), items: parseItems(body.input ?? []) };
}

/** The body that asks for the same answer of `POST /v1/responses`, apart from its items. */
function responsesBodyOf({ model, instructions, previous_response_id }: CompactBody): ParsedResponses['body'] {
  return { model, instructions, previous_response_id, input: [], store: false };
}
