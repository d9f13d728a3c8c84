import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { readShared } from '../../../../../shared/planes/request/dynamo/shared-reads.ts';
import { waitUntil } from '../../../../support/index.ts';

interface Line {
  readonly client: Socket;
  readonly accepted: Socket;
  readonly socket: Socket;
  readonly received: () => string;
  /** Memory in which the bytes arrived, once for each read. */
  readonly memory: readonly ArrayBufferLike[];
}

const opened: { server: Server; lines: Line[] }[] = [];

afterEach(() => {
  for (const { server, lines } of opened.splice(0)) {
    for (const { client, socket } of lines) for (const each of [client, socket]) each.destroy();
    server.close();
  }
});

async function listen(pauseOnConnect: boolean) {
  const server = createServer({ pauseOnConnect, allowHalfOpen: true });
  const lines: Line[] = [];
  opened.push({ server, lines });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const dial = async (): Promise<Line> => {
    const arrival = once(server, 'connection') as Promise<[Socket]>;
    const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
    const [accepted] = await arrival;
    let text = '';
    const memory: ArrayBufferLike[] = [];
    const socket = readShared(accepted, (bytes) => {
      text += bytes.toString();
      memory.push(bytes.buffer);
    });
    const line = { client, accepted, socket, received: () => text, memory };
    lines.push(line);
    return line;
  };
  return { server, dial };
}

describe('a connection that a server accepts and does not read', () => {
  it('is read into the memory of all others', async () => {
    const { dial } = await listen(true);
    const lines = [await dial(), await dial()];
    for (const [at, { client, received }] of lines.entries()) {
      client.write(`first ${at}, `);
      await waitUntil(() => received().length === 9);
      client.write('second');
      await waitUntil(() => received().length === 15);
    }
    expect(lines.map(({ received }) => received())).toEqual(['first 0, second', 'first 1, second']);
    expect(new Set(lines.flatMap(({ memory }) => memory)).size).toBe(1);
  });

  it('reads nothing while it is paused', async () => {
    const { dial } = await listen(true);
    const { client, socket, received } = await dial();
    client.write('before');
    await waitUntil(() => received() === 'before');
    socket.pause();
    client.write(', after');
    const other = await dial();
    other.client.write('other');
    await waitUntil(() => other.received() === 'other'); // by then, the bytes of the first have arrived, too
    expect(received()).toBe('before');
    socket.resume();
    await waitUntil(() => received() === 'before, after');
  });

  it('may be written after its other end has ended', async () => {
    const { dial } = await listen(true);
    const { client, socket, received } = await dial();
    let answer = '';
    client.on('data', (bytes) => {
      answer += bytes;
    });
    client.end('question');
    await once(socket, 'end');
    socket.end('answer');
    await once(socket, 'close');
    await waitUntil(() => answer === 'answer');
    expect(received()).toBe('question');
  });

  it('counts at its server until it is closed', async () => {
    const { server, dial } = await listen(true);
    const { client, socket } = await dial();
    let isClosed = false;
    server.close(() => {
      isClosed = true;
    });
    client.write('x');
    await waitUntil(() => socket.bytesRead === 1);
    expect(isClosed).toBe(false);
    client.destroy();
    socket.end();
    await waitUntil(() => isClosed);
  });
});

it('a connection that its server reads already stays at its socket', async () => {
  const { dial } = await listen(false);
  const { client, accepted, socket, received } = await dial();
  client.write('all of it');
  await waitUntil(() => received() === 'all of it');
  expect(socket).toBe(accepted);
});
