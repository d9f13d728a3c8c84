import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { namesThisMachine } from '../../access/index.ts';
import type { Clock } from '../../clock/index.ts';
import { createServiceServer } from '../../fleet/index.ts';

/** Milliseconds in which a whole request must arrive; the server looks for late ones every `CHECK_MS`. */
const REQUEST_MS_MAX = 10_000;
const CHECK_MS = 2000;
const CONNECTIONS_MAX = 64;
const FOREIGN = '{"error":"ask 127.0.0.1 or localhost"}\n';

export interface LoopbackServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Serves people and programs of this machine on loopback. It refuses other names than those of this machine, so that a
 * page in a browser cannot reach it by a name that was made to point here.
 * @throws Error with one line if the port is taken
 */
export async function serveLoopback(
  what: string,
  port: number,
  listener: RequestListener,
  clock: Clock,
): Promise<LoopbackServer> {
  const limits = { requestTimeout: REQUEST_MS_MAX, connectionsCheckingInterval: CHECK_MS };
  const { server } = createServiceServer(
    limits,
    undefined,
    (request, response) => {
      if (namesThisMachine(request.headers.host)) listener(request, response);
      else response.writeHead(403, { 'content-type': 'application/json' }).end(FOREIGN);
    },
    clock,
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (thrown) {
    throw new Error(`cannot serve ${what} on port ${port}: ${(thrown as Error).message}`);
  }
  server.unref();
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
