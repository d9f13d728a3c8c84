import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions, type Server as TlsServer } from 'node:tls';
import type { ByteChannel } from '../frames/byte-channel.ts';
import { type EncryptionSettings, securityAt } from './encryption.ts';
import { explainHandshake, handshakeTimeoutOf, keyServerOptions, type PlaneServerTls, serverOptions } from './tls.ts';

/** Who hears of a listener's connections. */
export interface ListenerEvents {
  /** A connection that can be used, secured where it must be. */
  accepted(channel: ByteChannel): void;
  /** An accept or a handshake failed; the listener goes on. */
  failed(): void;
  /** A handshake failed in a way that will not pass: `reason` says what to set. */
  refused(address: string, reason: string): void;
}

/** A listener that does not listen yet. */
export interface PlaneListener {
  readonly server: Server;
  /** Shows another certificate from the next connection on; one without certificates stays so. */
  renew(tls: PlaneServerTls): void;
}

// write() says "enough" at this many bytes not yet taken by the kernel, a few engine steps of a full connection.
const WRITE_BUFFER_BYTES = 256 << 10;
const SOCKET_OPTIONS = { noDelay: true, highWaterMark: WRITE_BUFFER_BYTES };

/** Accepts connections; each is encrypted, or not, by the address at which its caller reached this machine. */
export function createListener(settings: EncryptionSettings, events: ListenerEvents): PlaneListener {
  const { tls, secret } = settings;
  const securing =
    tls?.server !== undefined
      ? secured(serverOptions(tls.server), settings, events)
      : secret !== undefined && settings.encryption !== 'off'
        ? secured(keyServerOptions(secret.tlsKey), settings, events)
        : undefined;
  const server = createServer(SOCKET_OPTIONS, (socket: Socket) => {
    const isPlain = securityAt(socket.localAddress ?? '', settings) === undefined;
    if (isPlain || securing === undefined) events.accepted(socket);
    else securing.emit('connection', socket);
  });
  server.on('error', () => events.failed()); // of an accept: the listener goes on
  return {
    server,
    renew: (renewed) => {
      if (tls?.server !== undefined) securing?.setSecureContext(serverOptions(renewed));
    },
  };
}

/** Handshakes on sockets that are handed to it; it listens nowhere itself. */
function secured(options: TlsOptions, settings: EncryptionSettings, events: ListenerEvents): TlsServer {
  const handshakeTimeout = handshakeTimeoutOf(settings.tls);
  const server = createTlsServer({ ...SOCKET_OPTIONS, ...options, handshakeTimeout });
  server.on('secureConnection', (socket) => events.accepted(socket));
  server.on('tlsClientError', (error, socket) => {
    events.failed();
    const reason = explainHandshake(error, 'caller');
    if (reason !== undefined) events.refused(socket.remoteAddress ?? 'a caller', reason);
    socket.destroy();
  });
  return server;
}
