import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { MetricRegistry } from '../../telemetry/index.ts';

const REQUEST_MS_MAX = 10_000;
const CONNECTIONS_MAX = 64;

export interface MetricsPage {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves `/metrics` on loopback; undefined for port 0. @throws Error with one line where the port is taken */
export async function serveMetrics(registry: MetricRegistry, port: number): Promise<MetricsPage | undefined> {
  if (port === 0) return undefined;
  const server = createServer({ requestTimeout: REQUEST_MS_MAX }, (request, response) => {
    if (request.url !== '/metrics') {
      response.writeHead(404).end('only /metrics is here\n');
      return;
    }
    registry.render().then(
      (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (thrown) {
    throw new Error(`cannot serve metrics on port ${port} (PLANNER_PROMETHEUS_PORT): ${(thrown as Error).message}`);
  }
  server.unref();
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}/metrics`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
