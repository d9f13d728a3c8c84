import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger, MetricRegistry } from '../telemetry/index.ts';
import { type SmallServer, startSmallServer } from '../worker/index.ts';

/** Body of `/health`. */
export interface HostHealth {
  /** Phase of the instance. */
  readonly status: string;
  /** Reason of a failure or a drain. */
  readonly reason?: string;
  /** End of a drain, as Unix ms. */
  readonly until_ms?: number;
  /** Phase of the start that is under way. */
  readonly start_phase?: string;
  readonly gpu_fault?: string;
  readonly workers: readonly { readonly state: string; readonly told: string; readonly failures: number }[];
}

interface StatusPageOptions {
  readonly host: string;
  readonly port: number;
  readonly logger: Logger;
  readonly registry: MetricRegistry;
  health(): HostHealth;
}

/** Phases in which a machine is as it should be. */
const GOOD: ReadonlySet<string> = new Set(['serving', 'warm']);

/** Serves `/health`, `/live` and `/metrics` of a host. @throws Error with one line if the port is not available */
export function startStatusPage(options: StatusPageOptions): Promise<SmallServer> {
  const { host, port, logger } = options;
  const ports = { first: port, last: port };
  const place = { name: 'status page', host, ports, portSetting: 'STATOR_HOST_PORT', logger };
  return startSmallServer(place, (request, response) => answer(options, request, response));
}

async function answer(
  { health, registry }: StatusPageOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? '/').split('?', 1)[0];
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
  } else if (path === '/health') {
    const body = health();
    response.writeHead(GOOD.has(body.status) ? 200 : 503, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  } else if (path === '/live') {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"live"}');
  } else if (path === '/metrics') {
    const text = registry.render();
    response.writeHead(200, { 'content-type': registry.contentType }).end(text);
  } else response.writeHead(404).end();
}
