import { ServeError } from '../../../errors/index.ts';
import { cancelRequest } from '../../inference/lifecycle.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { decodePath, shownId } from '../route.ts';
import { sendJson } from '../sinks/send.ts';

/** Path above a response id, or above a request id that this edge gave. */
export const CANCEL_PATH = '/v1/cancel';

/**
 * `POST /v1/cancel/{id}`: ends a running request, for clients whose leaving no edge can see. The response to the
 * request, at any edge, ends as cancelled.
 */
export async function serveCancel(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = decodePath(exchange.path.slice(CANCEL_PATH.length + 1));
  if (!(await cancelRequest(deps, id, exchange.grant.owner))) {
    throw new ServeError('not_found', `No running request has the id ${shownId(id)}`);
  }
  sendJson(exchange, 200, { id, object: 'cancellation', cancelled: true });
}
