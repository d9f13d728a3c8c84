import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { type Clock, systemClock } from '../../shared/clock/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { type HttpBindings, NodeExchange, type ServiceLifecycle } from '../../shared/frontends/http/index.ts';
import type { TlsMaterial } from '../../shared/frontends/tls/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';
import { answerUnparsable, refuseExpectation, refuseUnroutable } from './unparsable.ts';

/** What a host needs of the app. */
export interface FetchApp {
  fetch(request: Request, bindings: HttpBindings): Response | Promise<Response>;
}

export interface HttpServerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  readonly lifecycle: ServiceLifecycle;
  readonly logger: Logger;
  /** Serves HTTPS; with an authority in it, only to clients with a certificate. @default plain HTTP */
  readonly tls?: TlsMaterial | undefined;
  /** @default systemClock */
  readonly clock?: Clock;
}

/** A listening server. */
export interface HttpServer {
  /** Without a trailing slash. */
  readonly url: string;
  readonly port: number;
  /** Shows another certificate from the next connection on; only where the server was started with one. */
  useCertificate(tls: TlsMaterial): void;
  /**
   * Drains (http-api.md, section 17.2): new inference requests get 503, responses under way have `graceMs` to end, then
   * every connection is closed. Resolves with the responses that were cut. Later calls change nothing.
   */
  close(graceMs: number): Promise<{ readonly cut: number }>;
}

/** Load balancers hold connections for a minute; ours must live longer, or they meet a closed one. */
const KEEP_ALIVE_MS = 75_000;
/** One header of 500 kB passes, as it does with Dynamo. */
const HEADER_BYTES_MAX = 544 * 1024;
/** A head has to arrive within this; what is late is looked for every `HEAD_CHECK_MS`. */
const HEAD_TIMEOUT_MS = 20_000;
const HEAD_CHECK_MS = 5000;
/** How long a draining server still says 503 to new connections while streams end. */
const LINGER_MS = 1000;

/**
 * Serves an app on a port.
 * @throws Error with one line that names the flag to change when the port cannot be bound.
 */
export async function startHttpServer(app: FetchApp, options: HttpServerOptions): Promise<HttpServer> {
  const server = createHost(app, options);
  await listen(server, options);
  const { port } = server.address() as AddressInfo; // a TCP server that listens has one
  const scheme = options.tls === undefined ? 'http' : 'https';
  const host = options.host.includes(':') ? `[${options.host}]` : options.host;
  let closing: Promise<{ readonly cut: number }> | undefined;
  return {
    url: `${scheme}://${host}:${port}`,
    port,
    useCertificate: (tls) => {
      if (server instanceof TlsServer) server.setSecureContext(tls);
    },
    close: (graceMs) => {
      closing ??= drain(server, options, graceMs);
      return closing;
    },
  };
}

function createHost(app: FetchApp, options: HttpServerOptions): Server {
  const limits = {
    noDelay: true,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: HEAD_TIMEOUT_MS,
    connectionsCheckingInterval: HEAD_CHECK_MS,
    requireHostHeader: false, // refused below, with our own words and the request's id
  };
  const answer = getRequestListener(
    (request, { incoming, outgoing }) =>
      // Neither server here speaks HTTP/2, so these are the HTTP/1 classes.
      app.fetch(request, {
        exchange: new NodeExchange(incoming as IncomingMessage, outgoing as ServerResponse),
      }),
    { overrideGlobalObjects: false, hostname: 'localhost' },
  );
  const latest = new WeakMap<Socket, ServerResponse>();
  const unparsable = new WeakSet<Socket>();
  const listener = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    latest.set(incoming.socket, outgoing);
    if (refuseUnroutable(incoming, outgoing)) return;
    answer(incoming, outgoing).catch((error: unknown) => {
      options.logger.error('request could not be answered', { reason: reasonOf(error) });
      outgoing.destroy();
    });
  };
  const { tls } = options;
  const server =
    tls === undefined
      ? createServer(limits, listener)
      : createTlsServer({ ...limits, ...tls, requestCert: tls.ca !== undefined }, listener);
  server.on('checkExpectation', refuseExpectation);
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Socket) => {
    if (unparsable.has(socket)) return; // it is about to be closed
    unparsable.add(socket);
    answerUnparsable(app, error, socket, latest.get(socket)).catch(() => socket.destroy()); // the connection is lost either way
  });
  return server;
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

async function drain(server: Server, options: HttpServerOptions, graceMs: number): Promise<{ readonly cut: number }> {
  const { lifecycle, clock = systemClock } = options;
  lifecycle.drain();
  const closed = new Promise<void>((resolve) => server.once('close', resolve));
  const linger = clock.after(Math.min(LINGER_MS, graceMs), () => server.close());
  await lifecycle.idle(clock, graceMs);
  linger.cancel();
  const cut = lifecycle.inflight;
  lifecycle.stop();
  if (server.listening) server.close();
  server.closeIdleConnections();
  // Responses that have just ended are still on their way out; a turn lets them leave.
  await new Promise((resolve) => setImmediate(resolve));
  server.closeAllConnections();
  await closed;
  return { cut };
}
