import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Admission, refuseCaller } from '../../access/index.ts';
import type { PlaneServerTls } from '../../planes/request/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { WorkerControl } from './control.ts';
import { answerControl, answerJson, controlOf } from './control-routes.ts';
import { type SmallServer, startSmallServer } from './small-server.ts';

export interface ControlServerOptions {
  /** Controls of the worker, once it serves. */
  control(): WorkerControl | undefined;
  readonly admission: Admission;
  /** @default it speaks plainly */
  readonly tls?: PlaneServerTls | undefined;
  readonly logger: Logger;
  /** `STATOR_CONTROL_PORT`; 0 = any free one. */
  readonly port: number;
  /** `STATOR_CONTROL_HOST`. */
  readonly host: string;
}

/**
 * Serves the controls of a worker to whoever may use them, on a port of their own: what steers a worker does not stand where
 * its metrics are scraped.
 * @throws Error with a text for the operator when the port cannot be had.
 */
export function startControlServer(options: ControlServerOptions): Promise<SmallServer> {
  const { host, port, tls, logger } = options;
  const ports = { first: port, last: port };
  const place = { name: 'control server', host, ports, portSetting: 'STATOR_CONTROL_PORT', tls, logger };
  return startSmallServer(place, (request, response) => answer(options, request, response));
}

async function answer(
  { control, admission }: ControlServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const refusal = refuseCaller(admission, callerOf(request));
  if (refusal !== undefined) {
    const headers = refusal.status === 401 ? { 'www-authenticate': 'Bearer' } : {};
    answerJson(response, refusal.status, { status: 'error', message: refusal.message }, headers);
    return;
  }
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const call = controlOf(request.method ?? '', path);
  if (call === undefined) answerJson(response, 404, { status: 'error', message: 'no such control' });
  else await answerControl(control(), call, request, response);
}

function callerOf({ socket, headers }: IncomingMessage): Parameters<typeof refuseCaller>[1] {
  return { peer: socket.remoteAddress, header: (name) => [headers[name]].flat()[0] };
}
