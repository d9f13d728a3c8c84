import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';
import { namesThisMachine } from '../../access/index.ts';
import type { Clock } from '../../clock/index.ts';
import { createServiceServer } from '../../fleet/index.ts';
import { isLoopback } from '../../planes/index.ts';

/** Milliseconds in which a whole request must arrive; the server looks for late ones every `CHECK_MS`. */
const REQUEST_MS_MAX = 10_000;
const CHECK_MS = 2000;
const CONNECTIONS_MAX = 64;
const FOREIGN = '{"error":"ask 127.0.0.1 or localhost"}\n';

export interface PageServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Address at which a page listens; `host` is an IP address. */
export interface PageAddress {
  readonly host: string;
  readonly port: number;
}

/** Serves people and programs of this machine on loopback. @throws Error with one line if the port is taken */
export function serveLoopback(
  what: string,
  port: number,
  listener: RequestListener,
  clock: Clock,
): Promise<PageServer> {
  return servePage(what, { host: '127.0.0.1', port }, listener, clock);
}

/**
 * Serves a page at an address. On loopback it refuses other names than those of this machine, so that a page in a
 * browser cannot reach it by a name that was made to point here. Elsewhere it cannot know its names.
 * @throws Error with one line if the address cannot be used
 */
export async function servePage(
  what: string,
  { host, port }: PageAddress,
  listener: RequestListener,
  clock: Clock,
): Promise<PageServer> {
  const takesEveryName = !isLoopback(host);
  const limits = { requestTimeout: REQUEST_MS_MAX, connectionsCheckingInterval: CHECK_MS };
  const { server } = createServiceServer(
    limits,
    undefined,
    (request, response) => {
      if (takesEveryName || namesThisMachine(request.headers.host)) listener(request, response);
      else response.writeHead(403, { 'content-type': 'application/json' }).end(FOREIGN);
    },
    clock,
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (thrown) {
    const where = isLoopback(host) ? `port ${port}` : `port ${port} of ${host}`;
    throw new Error(`cannot serve ${what} on ${where}: ${(thrown as Error).message}`);
  }
  server.unref();
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${bound}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
