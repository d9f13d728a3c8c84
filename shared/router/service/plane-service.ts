import { toServeError } from '../../errors/index.ts';
import type { IncomingCall, PlaneServer, Transport } from '../../planes/request/index.ts';
import { explanationRecord } from '../scheduler/explanation-record.ts';
import {
  CHOOSE_ENDPOINT,
  decodeChange,
  decodeQuery,
  EXPLAIN_ENDPOINT,
  encodeDecision,
  encodeQueued,
  isProbe,
  LOADS_ENDPOINT,
  RELEASE_ENDPOINT,
  ROUTER_COMPONENT,
} from './messages.ts';
import type { ChooseService } from './types.ts';

/** An endpoint of the router as it is registered in discovery. */
export interface RouterEndpoint {
  readonly endpoint: string;
  readonly transport: Transport;
}

/** Where a resident router serves. */
export interface RouterAddress {
  readonly instanceId: string;
  readonly namespace: string;
}

type Handler = (service: ChooseService, call: IncomingCall) => void;

const HANDLERS: Readonly<Record<string, Handler>> = {
  [CHOOSE_ENDPOINT]: serveChoose,
  [RELEASE_ENDPOINT]: serveRelease,
  [LOADS_ENDPOINT]: serveLoads,
  [EXPLAIN_ENDPOINT]: serveExplain,
};

/** Serves the router on a request plane; returns its endpoints for discovery. */
export function serveRouterOnPlane(
  server: PlaneServer,
  { instanceId, namespace }: RouterAddress,
  service: ChooseService,
): readonly RouterEndpoint[] {
  return Object.entries(HANDLERS).map(([endpoint, handler]) => {
    const path = `${instanceId}/${namespace}/${ROUTER_COMPONENT}/${endpoint}`;
    return { endpoint, transport: server.handle(path, (call) => answer(handler, service, call)) };
  });
}

function answer(handler: Handler, service: ChooseService, call: IncomingCall): void {
  try {
    handler(service, call);
  } catch (thrown) {
    call.fail(toServeError(thrown));
  }
}

/** A stream: `queued` or not, then the decision. Losing the caller leaves the queue. */
function serveChoose(service: ChooseService, call: IncomingCall): void {
  if (isProbe(call.body)) {
    call.end();
    return;
  }
  const query = decodeQuery(call.id, call.body, call.tokenIds);
  const leave = service.choose(query, {
    queued: (position) => call.output({ body: encodeQueued(position) }),
    decided: (chosen) => {
      call.output({ body: encodeDecision(chosen) });
      call.end();
    },
    failed: (error) => call.fail(error),
  });
  call.stopped.addEventListener('abort', leave, { once: true });
  if (call.stopped.aborted) leave();
}

function serveRelease(service: ChooseService, call: IncomingCall): void {
  service.release(decodeChange(call.body));
  call.end();
}

function serveLoads(service: ChooseService, call: IncomingCall): void {
  call.output({ body: service.loads() });
  call.end();
}

/** By request id (`{ explain: id }`), or of a query. */
function serveExplain(service: ChooseService, call: IncomingCall): void {
  const { explain } = call.body as { readonly explain?: unknown };
  const explanation =
    typeof explain === 'string'
      ? service.explained(explain)
      : service.explain(decodeQuery(call.id, call.body, call.tokenIds));
  call.output({ body: { explanation: explanation === undefined ? null : explanationRecord(explanation) } });
  call.end();
}
