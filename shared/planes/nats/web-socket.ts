import { readFile } from 'node:fs/promises';
import type { WsSocketFactory } from '@nats-io/nats-core';
import type { MessageEvent } from 'ws';
import { CHUNK_BYTES_MAX, StreamBounds } from './guarded-transport.ts';
import { loadWs } from './library.ts';
import type { NatsTls } from './types.ts';

/**
 * Makes the WebSockets of the library: with certificates, on every Node that is supported, and with the bounds that a
 * server's bytes have over TCP. What breaks one ends the connection before the library has seen it.
 *
 * @throws when a file of `tls` cannot be read
 */
export async function webSocketFactory(tls: NatsTls | undefined, timeoutMs: number): Promise<WsSocketFactory> {
  const { WebSocket } = await loadWs();
  const certificates = await readCertificates(tls);
  return async (url) => {
    const socket = new WebSocket(url, {
      ...certificates,
      handshakeTimeout: timeoutMs,
      maxPayload: CHUNK_BYTES_MAX,
      perMessageDeflate: false,
    });
    const bounds = new StreamBounds();
    // The library sets this property once, before it hears anything.
    Object.defineProperty(socket, 'onmessage', {
      set: (listener: ((event: MessageEvent) => void) | null) => {
        socket.removeAllListeners('message');
        if (listener === null) return;
        socket.addEventListener('message', (event) => {
          if (socket.bufferedAmount === 0) bounds.pongsAreRead();
          const { data } = event; // bytes come as the library asks for them
          const broken = data instanceof ArrayBuffer ? bounds.check(new Uint8Array(data)) : 'text';
          if (broken === undefined) listener(event);
          else socket.close(1002, `the server sends ${broken}`.slice(0, 120));
        });
      },
    });
    // Of the two kinds of sockets the library uses what they have in common.
    return { socket: socket as unknown as globalThis.WebSocket, encrypted: url.startsWith('wss:') };
  };
}

async function readCertificates(tls: NatsTls | undefined) {
  if (tls === undefined) return {};
  const { caFile, certFile, keyFile, isInsecure = false } = tls;
  const read = async (name: 'ca' | 'cert' | 'key', file: string | undefined) =>
    file === undefined ? {} : { [name]: await readFile(file) };
  return {
    ...(await read('ca', caFile)),
    ...(await read('cert', certFile)),
    ...(await read('key', keyFile)),
    rejectUnauthorized: !isInsecure,
  };
}
