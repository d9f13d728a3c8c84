import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP relay that can fail on demand. */
export interface TcpProxy {
  readonly port: number;
  /** Resets every connection, and each new one at once. */
  cut(): void;
  /** Keeps connections but passes nothing on, like a network that drops packets. */
  stall(): void;
  /** Passes bytes again, for connections made from now on. */
  restore(): void;
  close(): Promise<void>;
}

/** Starts a relay on 127.0.0.1 to `target`. @param port its own port @default any */
export async function startTcpProxy(
  target: { readonly host: string; readonly port: number },
  port = 0,
): Promise<TcpProxy> {
  let state: 'relaying' | 'cut' | 'stalled' = 'relaying';
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {}); // this proxy causes resets itself
  };
  const dropAll = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const server = createServer((client) => {
    keep(client);
    if (state === 'cut') return void client.resetAndDestroy();
    if (state === 'stalled') return void client.resume();
    const upstream = connect(target);
    keep(upstream);
    client.pipe(upstream);
    upstream.pipe(client);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port, // a listening TCP server has an AddressInfo
    cut: () => {
      state = 'cut';
      dropAll();
    },
    stall: () => {
      state = 'stalled';
      for (const socket of sockets) socket.unpipe().pause();
    },
    restore: () => {
      state = 'relaying';
      dropAll(); // a stalled connection stays silent, so its owner must open another
    },
    close: async () => {
      dropAll();
      server.close();
      await once(server, 'close');
    },
  };
}
