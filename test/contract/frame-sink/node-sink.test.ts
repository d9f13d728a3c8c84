import { createServer, IncomingMessage, type Server, ServerResponse } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NodeFrameSink } from '../../../shared/frontends/node/node-exchange.ts';
import { type FrameSinkHost, itKeepsTheFrameSinkContract, type OpenSink } from './frame-sink.contract.ts';
import { RawResponseReader } from './raw-response-reader.ts';

describe('FrameSink over a Node response', () => {
  let host: FrameSinkHost;
  beforeAll(async () => {
    host = await startNodeHost();
  });
  afterAll(() => host.close());
  itKeepsTheFrameSinkContract(() => host);

  it('leaves no listeners behind, however often its reader was waited for', async () => {
    const outgoing = new ServerResponse(new IncomingMessage(new Socket()));
    const slow = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => void setImmediate(done) });
    outgoing.assignSocket(slow as Socket);
    const sink = new NodeFrameSink(outgoing);
    sink.head(200, { 'content-length': '1000000' });
    const listeners = () => [outgoing.listenerCount('close'), slow.listenerCount('drain')];
    const before = listeners();
    for (let waits = 0; waits < 3; waits++) {
      sink.write(Buffer.alloc(100_000));
      expect(sink.isBlocked()).toBe(true);
      await new Promise<void>((resolve) => sink.onUnblocked(resolve));
      expect(listeners()).toEqual(before);
    }
  });
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
