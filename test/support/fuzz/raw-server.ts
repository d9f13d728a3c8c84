import { type AddressInfo, createServer, type Socket } from 'node:net';

/** A server of raw bytes, which closes every connection when it ends. */
export interface RawServer {
  readonly port: number;
  close(): void;
}

/** Listens on loopback. */
export async function startRawServer(onSocket: (socket: Socket) => void): Promise<RawServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
    onSocket(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const FLOOD_BYTES = 768 << 20;
const BLOCK = Buffer.alloc(1 << 20, 0x20);

/** Sends the promised bytes for as long as the other side reads them. */
export function flood(socket: Socket): void {
  let left = FLOOD_BYTES / BLOCK.length;
  const more = (): void => {
    while (left-- > 0 && !socket.destroyed) if (!socket.write(BLOCK)) return;
  };
  socket.on('drain', more);
  more();
}
