import type { Clock } from '../../clock/index.ts';
import type { MetricRegistry } from '../../telemetry/index.ts';
import { type PageAddress, type PageServer, servePage } from './serve-loopback.ts';

/**
 * Serves `/metrics`; undefined for port 0. Beyond loopback, every client that reaches the port may read it.
 * @throws Error with one line if the address cannot be used
 */
export async function serveMetrics(
  registry: MetricRegistry,
  address: PageAddress,
  clock: Clock,
): Promise<PageServer | undefined> {
  if (address.port === 0) return undefined;
  const server = await servePage(
    'metrics (PLANNER_PROMETHEUS_PORT)',
    address,
    (request, response) => {
      if (request.url !== '/metrics') {
        response.writeHead(404).end('only /metrics is here\n');
        return;
      }
      try {
        const text = registry.render();
        response.writeHead(200, { 'content-type': registry.contentType }).end(text);
      } catch {
        response.writeHead(500).end();
      }
    },
    clock,
  );
  return { ...server, url: `${server.url}/metrics` };
}
