import type { Random } from '../../../clock/index.ts';
import { anthropicErrorBody, type ServeError } from '../../../errors/index.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import type { Inference } from '../inference.ts';
import { sendFailure, statusOf } from '../sinks/send.ts';

/** What Anthropic's clients know as overload; no setting moves it. */
const OVERLOAD_STATUS = 529;

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

function messagesStatusOf(error: ServeError): number {
  return statusOf(error, OVERLOAD_STATUS);
}

/** Sends a failure in Anthropic's envelope. */
export function sendMessagesError(
  exchange: HttpExchange,
  error: ServeError,
  requestId: string,
  headers?: Readonly<Record<string, string>>,
): void {
  sendFailure(exchange, error, {
    status: messagesStatusOf(error),
    body: anthropicErrorBody(error, requestId),
    headers: { ...headers, ...requestIdHeader(requestId) },
  });
}

/** An inference request failed; see `Inference.refuse`. */
export function refuseMessages(inference: Inference, error: ServeError, requestId: string): void {
  inference.refuse(error, ({ exchange }) => {
    sendMessagesError(exchange, error, requestId);
    return messagesStatusOf(error);
  });
}
