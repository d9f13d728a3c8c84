import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, describe } from 'vitest';
import { NodeFrameSink } from '../../../shared/frontends/http/index.ts';
import { type FrameSinkHost, itKeepsTheFrameSinkContract, type OpenSink } from './frame-sink-contract.ts';
import { RawResponseReader } from './raw-response-reader.ts';

describe('FrameSink over a Node response', () => {
  let host: FrameSinkHost;
  beforeAll(async () => {
    host = await startNodeHost();
  });
  afterAll(() => host.close());
  itKeepsTheFrameSinkContract(() => host);
});

/** A real server; each `open` is a connection of its own, read byte by byte. */
async function startNodeHost(): Promise<FrameSinkHost> {
  const arrivals: ((outgoing: ServerResponse) => void)[] = [];
  const server: Server = createServer((_incoming: IncomingMessage, outgoing) => arrivals.shift()?.(outgoing));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    seesClientLeave: true,
    keepsWritesTogether: true,
    async open(): Promise<OpenSink> {
      const arrived = new Promise<ServerResponse>((resolve) => arrivals.push(resolve));
      const socket = connect(port, '127.0.0.1');
      const reader = new RawResponseReader(socket);
      socket.write('GET / HTTP/1.1\r\nhost: test\r\n\r\n');
      return { sink: new NodeFrameSink(await arrived), client: reader };
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
