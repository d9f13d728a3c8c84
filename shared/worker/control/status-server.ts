import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { reasonOf } from '../../errors/index.ts';
import type { Logger, WorkerMetrics } from '../../telemetry/index.ts';
import type { WorkerControl } from './control.ts';
import { answerControl, controlOf } from './control-routes.ts';
import type { EndpointHealth } from './endpoint-health.ts';
import { answerFile, fileOf, type ServedFiles } from './model-files.ts';

export interface StatusServerOptions {
  readonly health: EndpointHealth;
  readonly metrics: Pick<WorkerMetrics, 'contentType' | 'render'>;
  readonly logger: Logger;
  /** Controls of the worker, once it serves. Absent = none. */
  control?(): WorkerControl | undefined;
  /** What the worker says of its model, once it serves: the files named there are served. Absent = none. */
  model?(): ServedFiles | undefined;
  /** `DYN_SYSTEM_PORT`; 0 = any free one. */
  readonly port: number;
  /** `DYN_SYSTEM_HOST`. Default 0.0.0.0. */
  readonly host?: string;
  /** `DYN_SYSTEM_HEALTH_PATH`. Default `/health`. */
  readonly healthPath?: string;
  /** `DYN_SYSTEM_LIVE_PATH`. Default `/live`. */
  readonly livePath?: string;
}

export interface StatusServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves health, metrics, controls and model files of a worker process (runtime-and-workers.md, section 10.1). Start it before the engine loads:
 * it answers 503 until then.
 *
 * @throws Error with a text for the operator when the port cannot be had.
 */
export async function startStatusServer(options: StatusServerOptions): Promise<StatusServer> {
  const { host = '0.0.0.0', port } = options;
  const server = createServer((request, response) => {
    answer(options, request, response).catch((thrown: unknown) => {
      options.logger.error('status request failed', { reason: reasonOf(thrown) });
      if (!response.headersSent) response.writeHead(500);
      response.end();
    });
  });
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (thrown) {
    throw new Error(`the status server cannot listen on ${host}:${port} (${reasonOf(thrown)}): set DYN_SYSTEM_PORT`, {
      cause: thrown,
    });
  }
  return {
    port: (server.address() as AddressInfo).port, // a listening TCP server has an AddressInfo
    close: () => closeServer(server),
  };
}

async function answer(options: StatusServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { health, metrics, healthPath = '/health', livePath = '/live' } = options;
  const path = (request.url ?? '/').split('?', 1)[0];
  const control = options.control === undefined ? undefined : controlOf(request.method ?? '', path ?? '');
  if (control !== undefined) {
    await answerControl(options.control?.(), control, request, response);
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
  } else if (path === healthPath || path === livePath) {
    const body = health.report();
    response.writeHead(body.status === 'ready' ? 200 : 503, { 'content-type': 'text/plain' });
    response.end(JSON.stringify(body));
  } else if (path === '/metrics') {
    const text = await metrics.render();
    response.writeHead(200, { 'content-type': metrics.contentType }).end(text);
  } else if (path?.startsWith('/v1/metadata/') === true) {
    await answerFile(fileOf(path, options.model?.()), request.method ?? 'GET', response);
  } else {
    response.writeHead(404).end();
  }
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  if (!server.listening) return;
  await new Promise((resolve) => server.close(resolve));
}
