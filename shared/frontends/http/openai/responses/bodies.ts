import { assertNever, type ServeError } from '../../../../errors/index.ts';
import {
  type FinishReason,
  LazyList,
  type NamedLogprob,
  type ResponseEcho,
  sealSummary,
  type TokenLogprob,
  type Usage,
} from '../../../../protocol/index.ts';
import type { WireNames } from '../../sinks/response-names.ts';
import type { OutputItem } from './output-items.ts';

/** The state of a response. */
export interface ResponseState {
  readonly status: 'in_progress' | 'completed' | 'incomplete' | 'cancelled' | 'failed';
  readonly output: readonly unknown[];
  /** Absent until the end, and if no worker counted the tokens. */
  readonly usage?: Usage;
  /** Unix seconds; only completed responses have it. */
  readonly completedAt?: number;
  readonly incompleteReason?: 'max_output_tokens' | 'content_filter';
  readonly error?: ServeError;
}

/** Returns a response object with every published key. */
export function responseBody(names: WireNames, echo: ResponseEcho, state: ResponseState): Record<string, unknown> {
  const { status, output, usage, completedAt, incompleteReason, error } = state;
  return {
    background: false,
    billing: null,
    conversation: null,
    created_at: names.created,
    completed_at: completedAt ?? null,
    error: error === undefined ? null : { code: failureCode(error), message: error.message },
    id: names.id,
    incomplete_details: incompleteReason === undefined ? null : { reason: incompleteReason },
    instructions: echo.instructions,
    max_output_tokens: echo.max_output_tokens,
    max_tool_calls: echo.max_tool_calls,
    metadata: echo.metadata,
    model: names.model,
    object: 'response',
    output,
    parallel_tool_calls: echo.parallel_tool_calls,
    previous_response_id: echo.previous_response_id,
    prompt: null,
    prompt_cache_key: echo.prompt_cache_key,
    prompt_cache_retention: echo.prompt_cache_retention,
    reasoning: echo.reasoning,
    safety_identifier: echo.safety_identifier,
    service_tier: echo.service_tier,
    status,
    temperature: echo.temperature,
    text: echo.text,
    tool_choice: echo.tool_choice,
    tools: echo.tools,
    top_logprobs: echo.top_logprobs,
    top_p: echo.top_p,
    truncation: echo.truncation,
    usage: usage === undefined ? null : responseUsage(usage),
    presence_penalty: echo.presence_penalty,
    frequency_penalty: echo.frequency_penalty,
    store: echo.store,
  };
}

/** Returns why a response is not complete, as one of the two reasons that OpenAI publishes. */
export function incompleteReasonOf(
  reason: FinishReason | null | undefined,
): 'max_output_tokens' | 'content_filter' | undefined {
  if (reason === 'length') return 'max_output_tokens';
  return reason === 'content_filter' ? reason : undefined;
}

/**
 * Returns the published code of a failure. The codes only tell apart the caller's limit, the caller's mistake and the
 * server's. The code of a prompt that is too long is not published, but OpenAI sends it, and clients look for it.
 */
function failureCode({ status, code }: ServeError): string {
  if (code === 'context_length_exceeded') return code;
  if (status === 429) return 'rate_limit_exceeded';
  return status >= 400 && status < 500 ? 'invalid_prompt' : 'server_error';
}

/** Returns `usage` of a response. */
export function responseUsage(usage: Usage): object {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens, hidesCache = false } = usage;
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: hidesCache ? 0 : (cachedTokens ?? 0) },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens ?? 0 },
    total_tokens: promptTokens + completionTokens,
  };
}

/** Returns an item as clients read it, complete or not. */
export function itemBody(item: OutputItem, showsSummary: boolean): Readonly<Record<string, unknown>> {
  const { kind, id, callId, text, status } = item;
  switch (kind) {
    case 'message':
      return { type: kind, content: [textPart(item)], id, role: 'assistant', status };
    case 'reasoning':
      return {
        type: kind,
        id,
        summary: showsSummary ? [{ type: 'summary_text', text }] : [],
        content: [{ type: 'reasoning_text', text }],
        status,
      };
    case 'function_call':
      return { type: kind, arguments: text, call_id: callId, ...calledName(item), id, status };
    case 'custom_tool_call':
      return { type: kind, call_id: callId, input: text, ...calledName(item), id, status };
    case 'tool_search_call':
      return { type: kind, arguments: searchArguments(text), call_id: callId, execution: 'client', id, status };
    case 'compaction':
      return { type: kind, id, encrypted_content: sealSummary(text) };
    default:
      return assertNever(kind);
  }
}

function calledName({ name, namespace }: OutputItem): Readonly<Record<string, unknown>> {
  return namespace === undefined ? { name } : { name, namespace };
}

/**
 * Parses the arguments of a search, which are an object on this wire. Text that the model did not complete stays text.
 */
function searchArguments(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return text; // no output of the model is lost
  }
}

/** Returns an item that has just been opened. */
export function openedBody(item: OutputItem): Readonly<Record<string, unknown>> {
  const body = itemBody(item, false);
  return 'content' in body ? { ...body, content: [] } : body;
}

/** Returns the only part of a message. */
export function textPart({ text, logprobs }: OutputItem): Readonly<Record<string, unknown>> {
  return { type: 'output_text', annotations: [], logprobs: new LazyList(logprobs, logprobBody), text };
}

/** Returns a token's log probability. */
export function logprobBody(token: TokenLogprob): object {
  return { ...withBytes(token), top_logprobs: token.top.map(withBytes) };
}

function withBytes({ token, bytes, logprob }: NamedLogprob): object {
  return { token, bytes: bytes ?? [], logprob };
}
