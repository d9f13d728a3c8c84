import type { Random } from '../../../clock/index.ts';
import { anthropicErrorBody, type ServeError, workerError } from '../../../errors/index.ts';
import type { FinishReason, TextFinish, Usage } from '../../../protocol/index.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import type { Inference } from '../serve-inference.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { sendFailure, statusOf } from '../sinks/send.ts';

/** Why a message ended, in Anthropic's terms. */
export interface MessageStop {
  readonly stop_reason: 'end_turn' | 'max_tokens' | 'stop_sequence' | 'tool_use' | 'refusal';
  /** The client's stop sequence that was found. */
  readonly stop_sequence: string | null;
}

/** How a message ends of which nobody said why. */
export const END_OF_TURN: MessageStop = Object.freeze({ stop_reason: 'end_turn', stop_sequence: null });

const STOP_REASONS = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
} as const satisfies Record<FinishReason, MessageStop['stop_reason']>;

/** @param stopSequences those the client asked for: an engine may name other things that stopped it */
export function messageStop({ reason, stopReason }: TextFinish, stopSequences: readonly string[]): MessageStop {
  if (reason === null) return END_OF_TURN;
  if (reason === 'stop' && typeof stopReason === 'string' && stopSequences.includes(stopReason)) {
    return { stop_reason: 'stop_sequence', stop_sequence: stopReason };
  }
  return { stop_reason: STOP_REASONS[reason], stop_sequence: null };
}

/** `usage` of a message. */
export function messageUsage(usage: Usage): object {
  const cached = usage.hidesCache === true ? 0 : (usage.cachedTokens ?? 0);
  return {
    input_tokens: usage.promptTokens - cached,
    output_tokens: usage.completionTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
  };
}

/** The message object; in a stream's first event it is empty and has not stopped. */
export function messageBody(
  { id, model }: WireNames,
  content: readonly object[],
  stop: MessageStop | undefined,
  usage: object,
): object {
  return {
    id,
    type: 'message',
    role: 'assistant',
    content,
    model,
    stop_reason: stop?.stop_reason ?? null,
    stop_sequence: stop?.stop_sequence ?? null,
    usage,
  };
}

/** A tool use has an id of our own: what workers call it stays between them and us. */
export function toolUseId(uuid: string): string {
  return `toolu_${uuid.replaceAll('-', '')}`;
}

/** A worker goes on with a tool call whose block is closed, and cannot grow. */
export function notUnderWay(index: number): ServeError {
  return workerError('BackendProtocol', `arguments of tool call ${index}, which is not the one under way`);
}

/** What Anthropic's clients know as overload; no setting moves it. */
export const OVERLOAD_STATUS = 529;

/** The id by which clients name a response in a report; Anthropic's header and error body carry it. */
export function anthropicRequestId(uuid: string): string {
  return `req_${uuid.replaceAll('-', '')}`;
}

export function newRequestId(random: Random): string {
  return anthropicRequestId(random.uuid());
}

/** The header that tells a client the response's id. */
export function requestIdHeader(requestId: string): { readonly 'request-id': string } {
  return { 'request-id': requestId };
}

/** Sends a failure in Anthropic's envelope. Returns its status. */
export function sendMessagesError(
  exchange: HttpExchange,
  error: ServeError,
  requestId: string,
  headers?: Readonly<Record<string, string>>,
): number {
  return sendFailure(exchange, error, {
    status: statusOf(error, OVERLOAD_STATUS),
    body: anthropicErrorBody(error, requestId),
    headers: { ...headers, ...requestIdHeader(requestId) },
  });
}

/** An inference request failed; see `Inference.refuse`. */
export function refuseMessages(inference: Inference, error: ServeError, requestId: string): void {
  inference.refuse(error, ({ exchange }) => sendMessagesError(exchange, error, requestId));
}
