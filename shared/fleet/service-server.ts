import { createServer, type RequestListener, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { type Clock, systemClock } from '../clock/index.ts';
import { type PlaneServerTls, serverTlsOptions } from '../planes/index.ts';
import { adoptTarget, ambiguousFraming } from './framing.ts';

/** An HTTP server that can change its certificate while it runs. */
interface ServiceServer {
  readonly server: Server;
  useCertificate(tls: PlaneServerTls): void;
}

/** Creates an HTTP server of the fleet, with TLS if there is a certificate. @param clock @default systemClock */
export function createServiceServer(
  limits: ServerOptions,
  tls: PlaneServerTls | undefined,
  answer: RequestListener,
  clock: Clock = systemClock,
): ServiceServer {
  const underWay = new AnswersUnderWay();
  const listener: RequestListener = (request, response) => {
    underWay.opened(response);
    const doubt = ambiguousFraming(request) ?? adoptTarget(request);
    if (doubt === undefined) answer(request, response);
    else refuseFraming(response, doubt);
  };
  if (tls === undefined) {
    const server = createServer(limits, listener);
    refuseUnparsable(server, underWay, clock);
    return { server, useCertificate: () => {} };
  }
  const { requestTimeout: handshakeTimeout } = limits; // Node's own is two minutes
  const server = createTlsServer({ ...limits, ...serverTlsOptions(tls), handshakeTimeout }, listener);
  refuseUnparsable(server, underWay, clock);
  return { server, useCertificate: (renewed) => server.setSecureContext(serverTlsOptions(renewed)) };
}

/**
 * Answers a request whose end is in doubt, and ends its connection. @param doubt reason that `ambiguousFraming` gave
 */
function refuseFraming(response: ServerResponse, doubt: string): void {
  const headers = { 'content-type': 'application/json', connection: 'close' };
  response.writeHead(400, headers).end(JSON.stringify({ error: doubt }));
}

/** The answers of each connection, in the order of their requests. Bounded by the number of connections. */
class AnswersUnderWay {
  readonly #bySocket = new WeakMap<Socket, Set<ServerResponse>>();
  readonly #last = new WeakMap<Socket, ServerResponse>();

  opened(response: ServerResponse): void {
    const { socket } = response.req;
    const answers = this.#bySocket.get(socket) ?? new Set();
    this.#bySocket.set(socket, answers.add(response));
    this.#last.set(socket, response);
    response.once('close', () => answers.delete(response));
  }

  /** Returns the answer to the last request, even if it has already left. */
  lastOf(socket: Socket): ServerResponse | undefined {
    return this.#last.get(socket);
  }

  /** Returns the answers that have not completely left. */
  of(socket: Socket): readonly ServerResponse[] {
    return [...(this.#bySocket.get(socket) ?? [])];
  }
}

/** Resolves once all `answers` of a connection have left, or the connection is gone. */
export function haveLeft(socket: Socket, answers: readonly ServerResponse[]): Promise<void> {
  return new Promise((resolve) => {
    let left = answers.length;
    const gone = (): void => {
      socket.removeListener('close', resolve);
      resolve();
    };
    if (left === 0 || socket.destroyed) return resolve();
    socket.once('close', resolve);
    for (const answer of answers) {
      answer.once('close', () => {
        if (--left === 0) gone();
      });
    }
  });
}

/** How long a refused client may keep its connection after the answer has left, in milliseconds. */
export const LINGER_REFUSED_MS = 2000;

/**
 * Ends a refused connection after its last bytes. Meanwhile it reads what the client still sends, because the system
 * would otherwise drop those bytes with a reset. A client that does not close the connection itself has
 * `LINGER_REFUSED_MS`.
 */
export function endRefused(socket: Socket, clock: Clock, last?: Uint8Array | string): void {
  const timer = clock.after(LINGER_REFUSED_MS, () => socket.destroy());
  socket.once('close', () => timer.cancel());
  if (last === undefined) socket.end();
  else socket.end(last);
  if (socket.readableEnded) socket.destroySoon();
  else socket.once('end', () => socket.destroySoon()).resume();
}

/** Errors of Node's parser: the status line of the answer, and the text of its body. */
const REFUSALS: Readonly<Record<string, readonly [status: string, error: string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'the headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'the request did not arrive in time'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['413 Payload Too Large', 'the extensions of a chunk are too large'],
};
const NO_HTTP = ['400 Bad Request', 'the request is not valid HTTP'] as const;

/**
 * Answers requests that Node's parser refuses, after the answers that are under way. Node's own refusal would take the
 * place of the first of them and cut off the others.
 */
function refuseUnparsable(server: Server, underWay: AnswersUnderWay, clock: Clock): void {
  const refused = new WeakSet<Socket>();
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (refused.has(socket)) return; // the connection is about to close
    refused.add(socket);
    const answers = underWay.of(socket);
    const last = underWay.lastOf(socket);
    const isOwn = last?.req.complete === false; // the unreadable part is the rest of the last request
    void haveLeft(socket, isOwn ? answers.filter((each) => each !== last) : answers).then(() => {
      if (!socket.writable || (isOwn && last.headersSent) || error.code === 'ECONNRESET') return socket.destroy();
      const [status, text] = REFUSALS[error.code ?? ''] ?? NO_HTTP;
      const body = JSON.stringify({ error: text });
      const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`;
      endRefused(socket, clock, head + body);
      return undefined;
    });
  });
}
