import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { systemClock } from '../../../../shared/clock/index.ts';
import { NatsClient } from '../../../../shared/planes/index.ts';

const INFO = 'INFO {"server_id":"a","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}\r\n';

describe('a NATS client whose server speaks through a WebSocket', () => {
  let server: WebSocketServer;
  let client: NatsClient | undefined;
  afterEach(async () => {
    await client?.close();
    server.close();
  });

  /** Greets, answers the first line with `text`, and resolves with the reason that the client closes for. */
  async function closedAfter(text: string | { readonly bytes: string }): Promise<string> {
    server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
    await once(server, 'listening');
    const closed = new Promise<string>((resolve) => {
      server.on('connection', (socket) => {
        socket.once('close', (_code, reason) => resolve(reason.toString()));
        socket.once('message', () => socket.send(typeof text === 'string' ? text : Buffer.from(text.bytes)));
        socket.send(Buffer.from(INFO));
      });
    });
    const { port } = server.address() as AddressInfo;
    client = new NatsClient({ clock: systemClock, servers: [`ws://127.0.0.1:${port}`], attemptsMax: 1 });
    const connecting = client.connected(new AbortController().signal).catch(() => {}); // it may be over before it is told
    const reason = await closed;
    await connecting;
    return reason;
  }

  it.each([
    ['a message of 99999999 bytes', 'PONG\r\nMSG a 1 99999999\r\n'],
    ['a line that NATS does not have', 'PONG\r\nGET / HTTP/1.1\r\n'],
    ['a line without an end', `PONG\r\nINFO ${'{'.repeat(1 << 20)}`],
  ])('closes when that sends %s', async (broken, text) => {
    expect(await closedAfter({ bytes: text })).toContain(broken);
  });

  it('closes when more comes at once than a message may have', async () => {
    expect(await closedAfter({ bytes: 'x'.repeat(20 << 20) })).toBe('');
  });

  it('closes when it is sent text, which NATS never does', async () => {
    expect(await closedAfter('PONG\r\n')).toContain('text');
  });
});
