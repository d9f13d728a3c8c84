import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { type Clock, type Random, systemClock, systemRandom } from '../../clock/index.ts';
import { LIMITS, type LimitName } from '../../errors/index.ts';
import type { HttpApp } from '../http/app.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';
import { Connections } from './connections.ts';
import { drainServer } from './drain-server.ts';
import { NodeExchange } from './node-exchange.ts';
import { ResponseSockets } from './sockets/response-sockets.ts';
import { pathOf } from './sockets/turn-exchange.ts';
import { upgradableRequests } from './sockets/upgradable.ts';
import type { TlsMaterial } from './tls-files.ts';
import { answerUnparsable, refuseExpectation, refuseUnroutable } from './unparsable.ts';

/** Addresses of a server: where clients reach it, and where it listens. */
interface ListeningAt {
  /** URL at which clients on this machine reach it, without a trailing slash. */
  readonly url: string;
  /** Address of the socket, as the system writes it: `127.0.0.1:8000`, `0.0.0.0:8000`, `[::]:8000`. */
  readonly address: string;
}

/** Wildcard addresses, each with a loopback address that every machine has. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' };

export interface HttpServerOptions {
  readonly host: string;
  /** Port to listen on; 0 = any free port. */
  readonly port: number;
  readonly lifecycle: ServiceLifecycle;
  /**
   * Certificate to serve HTTPS with. With an authority in it, only clients with a certificate are served. @default
   * plain HTTP
   */
  readonly tls?: TlsMaterial | undefined;
  /** Called when a client exceeds a limit of the HTTP parser. @default ignores it */
  readonly onLimit?: (limit: LimitName) => void;
  /** Called with the number of open WebSockets whenever it changes. @default ignores it */
  readonly onSockets?: (count: number) => void;
  /** @default systemClock */
  readonly clock?: Clock;
  /** Source of the ids of requests that could not be read. @default systemRandom */
  readonly random?: Random;
  /** How long a head may take to arrive, in milliseconds of the system. @default 20,000 */
  readonly headMs?: number;
  /**
   * How long a connection may wait for its next request, in milliseconds of the system (`STATOR_HTTP_KEEP_ALIVE_SECS`).
   * @default 75,000
   */
  readonly keepAliveMs?: number;
  /** Maximum number of open WebSockets. @default 1024 */
  readonly socketsMax?: number;
}

/** A listening server. */
export interface HttpServer extends ListeningAt {
  /** Port that the server listens on; the system chooses one if the options say 0. For tests. */
  readonly port: number;
  /** Shows another certificate from the next connection on, if the server was started with one. */
  useCertificate(tls: TlsMaterial): void;
  /**
   * Drains the server: new inference requests get 503. Responses under way have `graceMs` to reach their clients to the
   * last byte; the others end with an error. Resolves when every connection is closed, a second after the grace at
   * most, with the number of responses that were cut. Later calls change nothing.
   */
  close(graceMs: number): Promise<{ readonly cut: number }>;
}

/**
 * Default keep-alive. Load balancers hold connections for a minute; a server must hold them longer, or a balancer uses
 * one that is closed.
 */
const KEEP_ALIVE_MS = 75_000;
/**
 * Longest time for a head to arrive, and for a handshake before it. The server looks for late ones every
 * `HEAD_CHECK_MS`.
 */
const HEAD_TIMEOUT_MS = 20_000;
const HEAD_CHECK_MS = 1000;
/**
 * Interval between two checks of incomplete heads, in milliseconds. Node has no event for a head that is not complete.
 */
const UNFINISHED_CHECK_MS = 500;

/**
 * Serves an app on a port.
 * @throws Error with one line that names the flag to change if the port cannot be bound
 */
export async function startHttpServer(app: HttpApp, options: HttpServerOptions): Promise<HttpServer> {
  const { server, connections, sockets } = createHost(app, options);
  await sockets.load();
  await listen(server, options);
  const bound = server.address() as AddressInfo; // a TCP server that listens has one
  const { lifecycle, clock = systemClock, onLimit = () => {} } = options;
  const check = clock.every(UNFINISHED_CHECK_MS, () =>
    connections.boundHeads(LIMITS.unfinished_heads_bytes.max, () => onLimit('unfinished_heads_bytes')),
  );
  server.once('close', () => check.cancel());
  let closing: Promise<{ readonly cut: number }> | undefined;
  return {
    ...listeningAt(options.tls === undefined ? 'http' : 'https', options.host, bound),
    port: bound.port,
    useCertificate: (tls) => {
      if (server instanceof TlsServer) server.setSecureContext(tls);
    },
    close: (graceMs) => {
      closing ??= drainServer({ server, connections, sockets, lifecycle, clock, graceMs });
      return closing;
    },
  };
}

function createHost(app: HttpApp, options: HttpServerOptions) {
  const { onLimit = () => {}, random = systemRandom, clock = systemClock, headMs = HEAD_TIMEOUT_MS } = options;
  const { socketsMax = LIMITS.websockets.max, onSockets = () => {} } = options;
  const limits = {
    noDelay: true,
    keepAliveTimeout: options.keepAliveMs ?? KEEP_ALIVE_MS,
    maxHeaderSize: LIMITS.head_bytes.max,
    headersTimeout: headMs,
    connectionsCheckingInterval: Math.min(headMs, HEAD_CHECK_MS),
    IncomingMessage: upgradableRequests((target) => app.sockets.takes(pathOf(target))),
    requireHostHeader: false, // refused below, with Stator's own text and the request's id
  };
  const latest = new WeakMap<Socket, ServerResponse>();
  const unparsable = new WeakSet<Socket>();
  const listener = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    if (!connections.opened(outgoing)) return;
    latest.set(incoming.socket, outgoing);
    if (refuseUnroutable(incoming, outgoing, random)) return;
    app.serve(new NodeExchange(incoming, outgoing));
  };
  const { tls } = options;
  const server =
    tls === undefined
      ? createServer(limits, listener)
      : createTlsServer({ ...limits, ...tls, requestCert: tls.ca !== undefined, handshakeTimeout: headMs }, listener);
  const connections = new Connections(server, clock);
  const sockets = new ResponseSockets({ app, connections, clock, random, onLimit, onSockets, socketsMax });
  server.on('upgrade', (incoming: IncomingMessage, _socket, head: Buffer) => void sockets.accept(incoming, head));
  server.on('checkExpectation', (incoming, outgoing) => refuseExpectation(incoming, outgoing, random));
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket) => {
    if (unparsable.has(socket)) return; // the connection is about to close
    unparsable.add(socket);
    if (!connections.has(socket)) {
      socket.destroy(); // its handshake has failed: there is no request to answer
      return;
    }
    if (error.code === 'HPE_HEADER_OVERFLOW') onLimit('head_bytes');
    answerUnparsable(
      app,
      { error, socket, earlier: latest.get(socket), underWay: connections.responsesOf(socket) },
      random,
    ).then(
      (last) => connections.refuse(socket, last),
      () => socket.destroy(), // the connection is lost either way
    );
  });
  return { server, connections, sockets };
}

function listen(server: Server, { host, port }: HttpServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(toListenError(error, host, port)));
    server.listen({ host, port }, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
}

function toListenError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  switch (error.code) {
    case 'EADDRINUSE':
      return new Error(`port ${port} is in use on ${host}: choose another with --http-port`, { cause: error });
    case 'EACCES':
      return new Error(`port ${port} needs more rights: choose one above 1023 with --http-port`, { cause: error });
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Error(`${host} is not an address of this machine: change --http-host`, { cause: error });
    default:
      return new Error(`cannot listen on ${host}:${port} (--http-host, --http-port): ${error.message}`, {
        cause: error,
      });
  }
}

/**
 * Returns the addresses of a listening server.
 * @param host as the options name it: a name stays in the URL, because the certificate may be for it
 * @param bound address that the system bound
 */
function listeningAt(scheme: 'http' | 'https', host: string, bound: AddressInfo): ListeningAt {
  const loopback = LOOPBACK[bound.address];
  return {
    url: `${scheme}://${loopback ?? bracketed(host)}:${bound.port}`,
    address: `${bracketed(bound.address)}:${bound.port}`,
  };
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
