import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

const REQUEST_MS_MAX = 10_000;
const CONNECTIONS_MAX = 64;

export interface LoopbackServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves on loopback, for people and programs of this machine. @throws Error with one line where the port is taken */
export async function serveLoopback(what: string, port: number, listener: RequestListener): Promise<LoopbackServer> {
  const server = createServer({ requestTimeout: REQUEST_MS_MAX }, listener);
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
