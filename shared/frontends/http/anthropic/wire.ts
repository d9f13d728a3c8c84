import type { Random } from '../../../clock/index.ts';
import { anthropicErrorBody, type ServeError, workerError } from '../../../errors/index.ts';
import type { FinishReason, TextFinish, Usage } from '../../../protocol/index.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import type { Inference } from '../serve-inference.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { sendFailure, statusOf } from '../sinks/send.ts';

/** Reason for which a message ended, in Anthropic's terms. */
export interface MessageStop {
  readonly stop_reason: 'end_turn' | 'max_tokens' | 'stop_sequence' | 'tool_use' | 'refusal';
  /** Stop sequence of the client that was found. */
  readonly stop_sequence: string | null;
}

/** End of a message whose worker gave no reason. */
export const END_OF_TURN: MessageStop = Object.freeze({ stop_reason: 'end_turn', stop_sequence: null });

const STOP_REASONS = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
} as const satisfies Record<FinishReason, MessageStop['stop_reason']>;

/**
 * Returns the reason in Anthropic's terms. @param stopSequences those of the client; an engine may name others that
 * stopped it
 */
export function messageStop({ reason, stopReason }: TextFinish, stopSequences: readonly string[]): MessageStop {
  if (reason === null) return END_OF_TURN;
  if (reason === 'stop' && typeof stopReason === 'string' && stopSequences.includes(stopReason)) {
    return { stop_reason: 'stop_sequence', stop_sequence: stopReason };
  }
  return { stop_reason: STOP_REASONS[reason], stop_sequence: null };
}

/**
 * Signature of every thought. No part of Stator verifies it, but clients take thoughts without a signature for broken:
 * they drop them from the history, or send them back as text.
 */
export const SIGNATURE = 'erased';

/** Returns the `usage` of a message. */
export function messageUsage(usage: Usage): object {
  const cached = usage.hidesCache === true ? 0 : (usage.cachedTokens ?? 0);
  return {
    input_tokens: usage.promptTokens - cached,
    output_tokens: usage.completionTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
  };
}

/** Returns the message object. In a stream's first event it is empty and has not stopped. */
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

/** Returns the id of a tool use, which is generated here: clients do not get the ids of workers. */
export function toolUseId(uuid: string): string {
  return `toolu_${uuid.replaceAll('-', '')}`;
}

/** Returns the failure of a worker that goes on with a tool call whose block is closed. */
export function notUnderWay(index: number): ServeError {
  return workerError('BackendProtocol', `arguments of tool call ${index}, which is not the one under way`);
}

/** Status that Anthropic's clients know as overload; no setting moves it. */
export const OVERLOAD_STATUS = 529;

/** Returns the id by which clients name a response in a report. Anthropic's header and error body carry it. */
export function anthropicRequestId(uuid: string): string {
  return `req_${uuid.replaceAll('-', '')}`;
}

export function newRequestId(random: Random): string {
  return anthropicRequestId(random.uuid());
}

/** Returns the header with the response's id. */
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

/** Ends a failed inference request in Anthropic's envelope; see `Inference.refuse`. */
export function refuseMessages(inference: Inference, error: ServeError, requestId: string): void {
  inference.refuse(error, ({ exchange }) => sendMessagesError(exchange, error, requestId));
}
