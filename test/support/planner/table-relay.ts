import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface TableRelay {
  readonly url: string;
  /** Runs with the body of each call before the call goes on. A call waits for as long as the promise does. */
  before: (body: string) => Promise<unknown> | undefined;
  close(): Promise<void>;
}

/** Starts a relay in front of a DynamoDB server, in which a test does something between two calls of a process. */
export async function startTableRelay(target: string): Promise<TableRelay> {
  const { hostname, port } = new URL(target);
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    await relay.before(body.toString('utf8'));
    const { method, headers, url: path } = request;
    const onward = httpRequest({ hostname, port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    onward.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay: TableRelay = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    before: () => undefined,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return relay;
}
