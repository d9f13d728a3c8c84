import { createServer, type Server, type TlsOptions } from 'node:tls';
import { reasonOf } from '../../../errors/index.ts';
import { explainHandshake } from '../frames/peer-trust.ts';
import type { RequestPlaneObserver } from '../observer.ts';

/** Where each kind of peer has its own settings of certificates. */
const PLACES = { caller: 'frontend', worker: 'worker' } as const;

/**
 * Returns a server whose peers prove themselves as the certificates say. It does not listen by itself. A failed
 * handshake is counted, and reported if it will fail again.
 */
export function tlsServer(options: TlsOptions, peer: keyof typeof PLACES, observer: RequestPlaneObserver): Server {
  const server = createServer(options);
  server.on('tlsClientError', (error, socket) => {
    observer.connectionError();
    if (explainHandshake(error, peer) !== undefined) {
      const reason = `TLS with it failed (${reasonOf(error)}): set DYN_TCP_TLS_* alike here and at the ${PLACES[peer]}`;
      observer.peerRefused?.(socket.remoteAddress ?? `a ${peer}`, reason);
    } // any other failure may pass
    socket.destroy(); // after a handshake that took too long, Node leaves it open
  });
  return server;
}
