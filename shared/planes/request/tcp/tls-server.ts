import { createServer, type Server, type TlsOptions } from 'node:tls';
import { reasonOf } from '../../../errors/index.ts';
import { explainHandshake } from '../frames/peer-trust.ts';
import type { RequestPlaneObserver } from '../observer.ts';

/** Kinds of peers, each with the process that has settings of its own. */
const PLACES = { caller: 'frontend', worker: 'worker' } as const;

interface TlsServerOptions {
  readonly tls: TlsOptions;
  readonly peer: keyof typeof PLACES;
  /** Whether a token may protect connections, too; otherwise only certificates do. */
  readonly knowsToken: boolean;
  readonly observer: RequestPlaneObserver;
}

/**
 * Returns a server for handshakes on sockets that it accepts, or that are passed to it. It does not listen by itself. A
 * failed handshake is counted, and reported if it will fail again.
 */
export function tlsServer({ tls, peer, knowsToken, observer }: TlsServerOptions): Server {
  const server = createServer(tls);
  server.on('tlsClientError', (error, socket) => {
    observer.connectionError();
    const reason = explainHandshake(error, peer); // undefined for a failure that may pass
    const certificates = `TLS with it failed (${reasonOf(error)}): set DYN_TCP_TLS_* alike here and at the ${PLACES[peer]}`;
    if (reason !== undefined)
      observer.peerRefused?.(socket.remoteAddress ?? `a ${peer}`, knowsToken ? reason : certificates);
    socket.destroy(); // after a handshake that took too long, Node leaves it open
  });
  return server;
}
