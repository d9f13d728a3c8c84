import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { type Admission, refuseCaller } from '../access/index.ts';
import type { Clock } from '../clock/index.ts';
import type { Settings } from '../config/index.ts';
import { createServiceServer, followServiceCertificate, secureService } from '../fleet/index.ts';
import { BODY_BYTES_MAX, type ServiceApp } from './service-app.ts';

export interface ServiceServer {
  /** Without a trailing slash. */
  readonly url: string;
  /** Answers under way have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

/** Asked by probes and scrapers, which have no secret to show; they change nothing and name no worker. */
const PUBLIC_PATHS: ReadonlySet<string> = new Set(['/health', '/ready', '/metrics']);
/** A whole request has to arrive within this, its body included; what is late is looked for every `CHECK_MS`. */
const REQUEST_MS_MAX = 30_000;
const CHECK_MS = 5000;
/** Bodies under way, all together; one whose length is not announced counts as the largest. */
const BODIES_BYTES_MAX = 32 * BODY_BYTES_MAX;

/**
 * Serves one of the standalone services, to callers that may use it.
 * @throws Error with one line that names the setting to change when the port cannot be bound, anybody would reach it, or the
 * token would cross a network in clear
 */
export async function serveService(
  { app, port: usualPort }: Pick<RunningService, 'app' | 'port'>,
  settings: ServiceSettings,
  clock: Clock,
): Promise<ServiceServer> {
  const { serviceHost: host, servicePort: port = usualPort } = settings;
  const remedy = 'set --service-host 127.0.0.1';
  const { admission, tls } = secureService(settings, { name: 'the HTTP service', host, remedy });
  const answer = getRequestListener((request) => app.fetch(request), { overrideGlobalObjects: false });
  const bodies = new BodiesUnderWay();
  const limits = { noDelay: true, requestTimeout: REQUEST_MS_MAX, connectionsCheckingInterval: CHECK_MS };
  const { server, useCertificate } = createServiceServer(limits, tls, (incoming, outgoing) => {
    const refused = refuse(admission, incoming) ?? bodies.take(incoming, outgoing);
    if (refused === undefined) void answer(incoming, outgoing);
    else sendRefusal(outgoing, refused);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      reject(new Error(`cannot listen on ${host}:${port} (--service-host, --service-port): ${error.message}`));
    });
    server.listen({ host, port }, resolve);
  });
  server.removeAllListeners('error');
  const { port: bound } = server.address() as AddressInfo; // a TCP server that listens has one
  const following = followServiceCertificate(settings, clock, tls, useCertificate);
  const shown = host === '0.0.0.0' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${shown}:${bound}`,
    close: (graceMs) =>
      new Promise((resolve) => {
        following?.cancel();
        const cut = clock.after(graceMs, () => server.closeAllConnections());
        server.close(() => {
          cut.cancel();
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}

interface Refused {
  readonly status: number;
  readonly message: string;
}

function refuse(admission: Admission, { method, url = '/', socket, headers }: IncomingMessage): Refused | undefined {
  const isRead = method === 'GET' || method === 'HEAD';
  if (isRead && PUBLIC_PATHS.has(url.split('?', 1)[0]!)) return undefined;
  const header = (name: string): string | undefined => [headers[name]].flat()[0];
  return refuseCaller(admission, { peer: socket.remoteAddress, header });
}

/** The rest of a refused request is not waited for. */
function sendRefusal(outgoing: ServerResponse, { status, message }: Refused): void {
  const headers = { 'content-type': 'application/json', connection: 'close' };
  const more = status === 401 ? { 'www-authenticate': 'Bearer' } : status === 503 ? { 'retry-after': '1' } : {};
  outgoing.writeHead(status, { ...headers, ...more }).end(JSON.stringify({ error: message }));
}

/** How many bytes of bodies are being read or worked on. */
class BodiesUnderWay {
  #bytes = 0;

  /** Counts the body of a request until its answer is over; a refusal when there is no room for it. */
  take({ headers }: IncomingMessage, outgoing: ServerResponse): Refused | undefined {
    const announced = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Infinity;
    const bytes = Math.min(announced, BODY_BYTES_MAX);
    if (this.#bytes + bytes > BODIES_BYTES_MAX) {
      return {
        status: 503,
        message: `request bodies under way fill the ${BODIES_BYTES_MAX} bytes for them; try again`,
      };
    }
    this.#bytes += bytes;
    outgoing.once('close', () => {
      this.#bytes -= bytes;
    });
    return undefined;
  }
}

/** Settings of `stator router`. */
export type ServiceSettings = Settings<'router'>;

/** A standalone service that answers HTTP. */
export interface RunningService {
  readonly app: ServiceApp;
  /** Where it listens unless the settings say otherwise. */
  readonly port: number;
  close(): Promise<void>;
}
