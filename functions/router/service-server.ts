import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { ServiceApp } from '../../shared/router/standalone/index.ts';

export interface ServiceServer {
  /** Without a trailing slash. */
  readonly url: string;
  /** Answers under way have `graceMs` to end. */
  close(graceMs: number): Promise<void>;
}

/**
 * Serves one of the standalone services on a port; 0 = any free one.
 * @throws Error with one line that names the setting to change when the port cannot be bound
 */
export async function serveApp(app: ServiceApp, host: string, port: number): Promise<ServiceServer> {
  const answer = getRequestListener((request) => app.fetch(request), { overrideGlobalObjects: false });
  const server = createServer({ noDelay: true }, (incoming, outgoing) => void answer(incoming, outgoing));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      reject(new Error(`cannot listen on ${host}:${port} (--service-host, --service-port): ${error.message}`));
    });
    server.listen({ host, port }, resolve);
  });
  server.removeAllListeners('error');
  const { port: bound } = server.address() as AddressInfo; // a TCP server that listens has one
  const shown = host === '0.0.0.0' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${shown}:${bound}`,
    close: (graceMs) =>
      new Promise((resolve) => {
        const cut = setTimeout(() => server.closeAllConnections(), graceMs);
        server.close(() => {
          clearTimeout(cut);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}
