import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { waitUntil } from '../wait-until.ts';

/** An HTTP server that answers only when the test allows it, which holds another process at a point. */
export interface Gate {
  readonly url: string;
  /** Waits for the next request and answers it. */
  open(): Promise<void>;
  /** Returns the number of requests that wait now. */
  waiting(): number;
  stop(): Promise<void>;
}

export async function startGate(): Promise<Gate> {
  const waiting: ServerResponse[] = [];
  const server = createServer((_request, response) => waiting.push(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    waiting: () => waiting.length,
    async open() {
      const response = await waitUntil(() => waiting.shift(), { what: 'a request at the gate' });
      response.end();
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
