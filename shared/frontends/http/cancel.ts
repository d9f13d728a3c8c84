import { ServeError } from '../../errors/index.ts';
import { answerError, answerJson } from './answer.ts';
import { decodePath } from './decode-path.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './exchange.ts';

/** Below it stands a response id (`chatcmpl-...`), a server request id, or the `x-request-id` that the client sent. */
export const CANCEL_PATH = '/v1/cancel';

/**
 * `POST /v1/cancel/{id}`: ends a running request of this process, for clients whose leaving no edge can see (design.md,
 * section 3). The request's own answer ends as cancelled.
 */
export function serveCancel({ lifecycle, settings }: HttpAppDeps, exchange: HttpExchange): void {
  const id = decodePath(exchange.path.slice(CANCEL_PATH.length + 1));
  if (lifecycle.running.cancel(id)) answerJson(exchange, 200, { id, object: 'cancellation', cancelled: true });
  else
    answerError(exchange, new ServeError('not_found', `No running request has the id ${id}`), settings.overloadStatus);
}
