import type { Clock } from '../../clock/index.ts';
import type { MetricRegistry } from '../../telemetry/index.ts';
import { type LoopbackServer, serveLoopback } from './serve-loopback.ts';

/** Serves `/metrics` on loopback; undefined for port 0. @throws Error with one line if the port is taken */
export async function serveMetrics(
  registry: MetricRegistry,
  port: number,
  clock: Clock,
): Promise<LoopbackServer | undefined> {
  if (port === 0) return undefined;
  const server = await serveLoopback(
    'metrics (PLANNER_PROMETHEUS_PORT)',
    port,
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
