import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../../shared/errors/index.ts';
import { socketFrame as frame, SOCKET_KEY as KEY, upgradeText } from '../../../support/raw-websocket.ts';
import { playTexts } from '../../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { waitUntil } from '../../../support/wait-until.ts';
import { CREATE, closeServers, openServer, SocketClient } from './socket-bed.ts';

afterEach(closeServers);

const UPGRADE = upgradeText('localhost');

/** A client that writes bytes as it likes. */
class RawSocket {
  readonly socket: Socket;
  bytes = Buffer.alloc(0);
  isClosed = false;

  /** @param isLazy never ends its side of the connection */
  constructor(port: number, isLazy = false) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: isLazy });
    this.socket.on('data', (chunk) => {
      this.bytes = Buffer.concat([this.bytes, chunk]);
    });
    this.socket.on('close', () => {
      this.isClosed = true;
    });
    this.socket.on('error', () => undefined);
  }

  async upgraded(): Promise<this> {
    this.socket.write(UPGRADE);
    await waitUntil(() => this.bytes.includes('\r\n\r\n'));
    this.bytes = this.bytes.subarray(this.bytes.indexOf('\r\n\r\n') + 4);
    return this;
  }

  /** The code of the close frame that it was sent. */
  async closeCode(): Promise<number> {
    const at = () => this.bytes.lastIndexOf(Buffer.from([0x88]));
    await waitUntil(() => at() >= 0 && this.bytes.length >= at() + 4);
    return this.bytes.readUInt16BE(at() + 2);
  }
}

const EVENT = JSON.stringify(CREATE);

describe('frames', () => {
  it('are read in any pieces', async () => {
    const { server } = await openServer();
    const client = await new RawSocket(server.port).upgraded();
    const [a, b] = [EVENT.slice(0, 20), EVENT.slice(20)];
    const all = Buffer.concat([
      frame(a, { isLast: false }),
      frame('between', { opcode: 9 }),
      frame('', { opcode: 0, isLast: false }),
      frame(b, { opcode: 0, length: BigInt(b.length) }),
    ]);
    for (const byte of all) client.socket.write(Buffer.of(byte));
    await waitUntil(() => client.bytes.includes('"type":"response.completed"'));
    expect(client.bytes.includes('between')).toBe(true); // its pong
    client.socket.destroy();
  });

  it('may come with the request for the socket', async () => {
    const { server } = await openServer();
    const client = new RawSocket(server.port);
    client.socket.write(Buffer.concat([Buffer.from(UPGRADE), frame(EVENT)]));
    await waitUntil(() => client.bytes.includes('"type":"response.completed"'));
    client.socket.destroy();
  });

  it.each<[string, Buffer, number]>([
    ['without a mask', frame(EVENT, { isMasked: false }), 1002],
    ['binary', frame(EVENT, { opcode: 2 }), 1003],
    ['of no UTF-8', frame(Buffer.from([0xc3, 0x28])), 1007],
    ['of 2 ** 63 bytes', frame('x', { length: 2n ** 63n }), 1009],
    ['of 2 ** 50 bytes', frame('x', { length: 2n ** 50n }), 1009],
    ['that go on with nothing', frame('x', { opcode: 0 }), 1002],
    ['of an unknown kind', frame('x', { opcode: 3 }), 1002],
    ['with compression that was not agreed on', frame('x', { reserved: 0x40 }), 1002],
    ['of a ping in pieces', frame('x', { opcode: 9, isLast: false }), 1002],
    ['of a ping that is long', frame('x'.repeat(200), { opcode: 9 }), 1002],
    ['of a close with half a code', frame('x', { opcode: 8 }), 1002],
  ])('%s end the connection, not the server', async (_, bytes, code) => {
    const { server, deps } = await openServer();
    const client = await new RawSocket(server.port).upgraded();
    client.socket.write(bytes);
    expect(await client.closeCode()).toBe(code);
    client.socket.destroy();
    expect((await fetch(`${server.url}/live`)).status).toBe(200);
    await waitUntil(() => deps.bodies.takenBytes === 0);
  });

  it.each([
    ['breaks the rules', frame(EVENT, { isMasked: false })],
    ['breaks them in the middle of a response', Buffer.concat([frame(EVENT), frame('x', { opcode: 3 })])],
    ['says goodbye', frame(Buffer.of(3, 232), { opcode: 8 })],
    ['says goodbye without a code', frame('', { opcode: 8 })],
  ])('of a client that %s and stays leave no connection, and no work', async (_, bytes) => {
    const clock = new VirtualClock();
    const { server, pipeline } = await openServer({ socketClock: clock, play: () => {} });
    const client = await new RawSocket(server.port, true).upgraded();
    const ended = new Promise((resolve) => client.socket.once('end', resolve));
    client.socket.write(bytes);
    await ended;
    await clock.advance(2000);
    await waitUntil(() => {
      if (client.socket.writable) client.socket.write('x');
      return client.isClosed;
    });
    for (const { options } of pipeline.calls) expect(options.signal.aborted).toBe(true);
  });

  it('of 2 ** 63 bytes leave nothing taken', async () => {
    const { server, deps } = await openServer();
    const client = await new RawSocket(server.port).upgraded();
    client.socket.write(frame('x'.repeat(1000), { isLast: false }));
    await waitUntil(() => deps.bodies.takenBytes > 0);
    client.socket.destroy();
    await waitUntil(() => deps.bodies.takenBytes === 0);
  });

  it('that are pings without end close the connection', async () => {
    const { server } = await openServer();
    const client = await new RawSocket(server.port).upgraded();
    client.socket.write(Buffer.concat(Array.from({ length: 2000 }, () => frame('', { opcode: 9 }))));
    expect(await client.closeCode()).toBe(1008);
    client.socket.destroy();
  });
});

describe('bounds', () => {
  it('hold for an event as for a body', async () => {
    const settings = { bodyLimitBytes: 1000 };
    const { server } = await openServer({ settings });
    const client = await new SocketClient(server.port).opened();
    client.send({ ...CREATE, input: 'x'.repeat(2000) });
    await waitUntil(() => client.closed !== undefined);
    expect(client.closed?.code).toBe(1009);
  });

  it('hold for what comes of all events, and the room is given back', async () => {
    const { server, deps } = await openServer({ bodyBudgetBytes: 100_000 });
    const [first, second] = [await new RawSocket(server.port).upgraded(), await new RawSocket(server.port).upgraded()];
    first.socket.write(frame('x'.repeat(60_000), { isLast: false }));
    await waitUntil(() => deps.bodies.takenBytes >= 60_000);
    second.socket.write(frame('x'.repeat(60_000), { isLast: false }));
    expect(await second.closeCode()).toBe(1013);
    first.socket.destroy();
    second.socket.destroy();
    await waitUntil(() => deps.bodies.takenBytes === 0);
  });

  it('hold for connections: the address with the most gives its longest idle one up, and gets no more', async () => {
    const { server } = await openServer({ socketsMax: 2 });
    const first = await new SocketClient(server.port).opened();
    const second = await new SocketClient(server.port).opened();
    const third = await new SocketClient(server.port).opened();
    expect(third.refused).toMatchObject({ status: 503, body: { error: { code: 'server_overloaded' } } });
    const other = await new SocketClient(server.port, { localAddress: '127.0.0.2' }).opened();
    expect(await other.ask(CREATE)).toMatchObject({ type: 'response.completed' });
    await waitUntil(() => first.closed !== undefined);
    expect(first.closed?.code).toBe(1013);
    expect(await second.ask(CREATE)).toMatchObject({ type: 'response.completed' });
  });

  it('hold for connections that come at once', async () => {
    const { server } = await openServer({ socketsMax: 1 });
    const clients = await Promise.all([1, 2, 3].map(() => new SocketClient(server.port).opened()));
    expect(clients.filter(({ refused }) => refused === undefined)).toHaveLength(1);
  });

  it('hold for the events that wait for a response', async () => {
    const { server } = await openServer({ play: () => {} });
    const client = await new SocketClient(server.port).opened();
    for (let at = 0; at < LIMITS.websocket_events.max + 2; at++) client.send(CREATE);
    await waitUntil(() => client.closed !== undefined);
    expect(client.closed?.code).toBe(1008);
  });

  it('make the work wait for a client that does not read', async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const client = await new SocketClient(server.port).opened();
    client.socket.pause();
    client.send(CREATE);
    const { sink } = await pipeline.call(0);
    let chars = 0;
    while (!sink.isBlocked() && chars < 2 ** 26) {
      sink.text(0, 'x'.repeat(2 ** 16), 1);
      chars += 2 ** 16;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(sink.isBlocked()).toBe(true);
    const free = new Promise<void>((resolve) => sink.onUnblocked(resolve));
    client.socket.resume();
    await free;
    playTexts(sink, ['y']);
    await client.ended();
  });

  it('end a connection that has gone without a word, and one whose event does not end', async () => {
    const clock = new VirtualClock();
    const { server } = await openServer({ socketClock: clock });
    const gone = await new RawSocket(server.port).upgraded();
    gone.socket.pause();
    for (let at = 0; at < 4; at++) await clock.advance(30_000);
    gone.socket.resume();
    await waitUntil(() => gone.isClosed);
    const slow = await new RawSocket(server.port).upgraded();
    slow.socket.write(frame('{', { isLast: false }));
    for (let at = 0; at < 12; at++) {
      const pongs = slow.bytes.length;
      slow.socket.write(frame('', { opcode: 9 }));
      await waitUntil(() => slow.bytes.length > pongs || slow.isClosed);
      await clock.advance(30_000);
    }
    expect(await slow.closeCode()).toBe(1008);
    slow.socket.destroy();
  });
});

describe('a request for a socket', () => {
  it.each([
    ['two hosts', UPGRADE.replace('\r\n\r\n', '\r\nHost: localhost\r\n\r\n')],
    ['no host', UPGRADE.replace('host: localhost\r\n', '')],
    ['a host of which no URL can be made', UPGRADE.replace('host: localhost', 'host: a b')],
    ['two framings', UPGRADE.replace('\r\n\r\n', '\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n')],
    ['a target with a user', UPGRADE.replace(' /v1', ' http://u@localhost/v1')],
  ])('with %s is refused as any other', async (_fault, text) => {
    const { server } = await openServer();
    const client = new RawSocket(server.port);
    client.socket.write(text);
    await waitUntil(() => client.isClosed);
    expect(client.bytes.toString('latin1')).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe('other upgrades', () => {
  it('are answered as if nothing had been offered', async () => {
    const { server } = await openServer();
    const client = new RawSocket(server.port);
    const body = JSON.stringify({ model: 'm', input: 'hi' });
    client.socket.write(
      'POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n' +
        `http2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await waitUntil(() => client.bytes.includes('"text":"hello"'));
    client.socket.destroy();
  });

  it.each([
    ['no key', UPGRADE.replace(/sec-websocket-key.*\r\n/, ''), 400],
    ['an invalid key', UPGRADE.replace(KEY, 'x'), 400],
    ['another version', UPGRADE.replace('version: 13', 'version: 7'), 400],
  ])('with %s are refused', async (_, text, status) => {
    const { server } = await openServer();
    const client = new RawSocket(server.port);
    client.socket.write(text);
    await waitUntil(() => client.isClosed);
    expect(client.bytes.toString()).toMatch(new RegExp(`^HTTP/1.1 ${status} .*"code":"invalid_value"}}$`, 's'));
  });

  it('behind a response that is under way close the connection', async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const client = new RawSocket(server.port);
    const body = JSON.stringify({ model: 'm', input: 'hi' });
    client.socket.write(
      `POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}${UPGRADE}`,
    );
    await pipeline.call(0);
    await waitUntil(() => client.isClosed);
  });
});
