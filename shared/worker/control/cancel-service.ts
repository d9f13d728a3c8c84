import { workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/request/index.ts';
import type { CallsUnderWay } from '../calls/calls-under-way.ts';

/** Endpoint that ends a request at an edge's wish that is not the request's own edge. */
export const CANCEL_ENDPOINT = 'cancel';

const ID_LENGTH_MAX = 1024;

/** Ends what runs here under the id `{ id }`, and answers with how many calls that were: `{ cancelled }`. */
export function serveCancel(calls: Pick<CallsUnderWay, 'cancel'>, call: IncomingCall): void {
  const { id } = (call.body ?? {}) as { readonly id?: unknown };
  if (typeof id !== 'string' || id === '' || id.length > ID_LENGTH_MAX) {
    call.fail(workerError('InvalidArgument', `id must be a text of 1 to ${ID_LENGTH_MAX} characters`, { param: 'id' }));
    return;
  }
  call.accept();
  call.output({ body: { cancelled: calls.cancel(id) } });
  call.end();
}
