import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { HomeConnection } from '../../../../../shared/planes/request/dynamo/home-connection.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import { waitUntil } from '../../../../support/index.ts';
import { dialHome } from '../../../../support/stand-in-dynamo-worker.ts';

it('a connection that is held reads nothing, and passes on what has arrived once it is released', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const line = await dialHome(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [socket] = await accepted;
  let connection: { hold(): void; release(): void } | undefined;
  let messages = 0;
  const stream = {
    arrived: (arrived: { hold(): void; release(): void }) => {
      connection = arrived;
      arrived.hold();
    },
    message: () => void messages++,
    lost: () => {},
  };
  new HomeConnection(socket, {
    clock: systemClock,
    observer: silentObserver,
    messageBytesMax: 1 << 20,
    owner: { claim: () => stream, greeted: () => {}, gone: () => {} },
  });
  line.header({ subject: 's', stream_type: 'response' });
  line.prologue();
  await waitUntil(() => connection);
  expect([socket.isPaused(), messages]).toEqual([true, 0]);
  connection?.release();
  await waitUntil(() => messages === 1);
  expect(socket.isPaused()).toBe(false);
  line.socket.destroy();
  server.close();
});
