import { ServeError } from '../../../errors/index.ts';
import { requestKeyOf } from '../../../protocol/generation/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { decodePath, shownId } from '../route.ts';
import { sendError, sendJson } from '../sinks/send.ts';

/** Below it stands a response id (`chatcmpl-...`) or the request id that the server gave. */
export const CANCEL_PATH = '/v1/cancel';

/**
 * `POST /v1/cancel/{id}`: ends a running request, for clients whose leaving no edge can see. The request's own
 * response, at whatever edge, ends as cancelled.
 */
export async function serveCancel(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = decodePath(exchange.path.slice(CANCEL_PATH.length + 1));
  if (await cancelRequest(deps, id)) sendJson(exchange, 200, { id, object: 'cancellation', cancelled: true });
  else {
    const error = new ServeError('not_found', `No running request has the id ${shownId(id)}`);
    sendError(exchange, error, deps.settings.overloadStatus);
  }
}

/**
 * Ends what runs under `id`, in this process or, where this process does not know it, at the workers. False when nothing does.
 * @throws ServeError `service_unavailable` when nobody had it and some could not be asked, `server_overloaded` when too many
 *   are cancelled at once
 */
export async function cancelRequest({ lifecycle, canceller }: HttpAppDeps, id: string): Promise<boolean> {
  if (requestKeyOf(id) === undefined) return false; // no id of ours: nobody need be asked
  if (lifecycle.running.cancel(id)) return true;
  if (canceller === undefined) return false;
  const { isCancelled, silent } = await canceller.cancel(id);
  if (isCancelled || silent === 0) return isCancelled;
  throw new ServeError('service_unavailable', `${silent} workers did not say whether they work on ${id}`, {
    retryAfterMs: 1000,
  });
}
