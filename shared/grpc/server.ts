import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Clock, Random, Timer } from '../clock/index.ts';
import { turnOfItsOwn } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import { Http2Call } from './http2-call.ts';
import type { GrpcMethod } from './methods.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';

/** A certificate with its key, and the authority of callers' certificates where they must show one. PEM texts. */
export interface GrpcTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

export interface GrpcServerOptions {
  readonly host: string;
  /** 0 = any free one. */
  readonly port: number;
  readonly methods: readonly GrpcMethod[];
  readonly clock: Clock;
  readonly random: Pick<Random, 'next'>;
  /** @default it speaks plainly */
  readonly tls?: GrpcTls | undefined;
  /** Largest message of a client. @default 4 MiB */
  readonly messageBytesMax?: number | undefined;
  /** Streams of a connection. @default 1000 */
  readonly concurrentStreamsMax?: number | undefined;
  /** Bytes that a client may send on a stream before any was read. @default 1 MiB */
  readonly streamWindowBytes?: number | undefined;
  /** Bytes that a client may send on a connection before any was read. @default 1 MiB */
  readonly connectionWindowBytes?: number | undefined;
  /** How often a client is pinged, in milliseconds; 0 = never. @default 0 */
  readonly keepaliveMs?: number | undefined;
  /** How long it may take to answer, in milliseconds. @default 20,000 */
  readonly keepaliveTimeoutMs?: number | undefined;
  /** Age at which a connection is asked to go, in milliseconds; 0 = any. @default 0 */
  readonly connectionAgeMsMax?: number | undefined;
}

/** A gRPC server that listens. */
export interface GrpcServer {
  readonly port: number;
  /** For new connections, where there was a certificate from the start. */
  useCertificate(tls: GrpcTls): void;
  /** Takes no new connections and asks clients to go (GOAWAY); cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const MEBIBYTE = 1024 * 1024;
/** What Dynamo's servers announce. */
const HEADER_LIST_BYTES_MAX = 16 * 1024;
/** Megabytes that Node keeps of one connection for what the client has not read, before new streams are refused. */
const SESSION_MEGABYTES_MAX = 256;
/** A client that has vanished without a word is found out by its system's silence, some minutes after this much of it. */
const SILENCE_MS = 60_000;
/** Turns of the event loop within which what was written before has left. */
const TURNS_TO_LEAVE = 3;

/**
 * Serves methods over HTTP/2, plainly or with TLS. Calls of unknown paths end with UNIMPLEMENTED.
 * @throws Error with one line when the port cannot be bound
 */
export async function openGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { clock, methods, messageBytesMax = 4 * MEBIBYTE } = options;
  const byPath = new Map(methods.map((method) => [method.path, method]));
  const connections = new Connections(options);
  const server = create(options);
  server.on('session', (session) => connections.add(session));
  server.on('sessionError', () => {}); // its session closes
  server.on(
    'stream',
    (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: readonly string[]) => {
      const path = String(headers[constants.HTTP2_HEADER_PATH]);
      const refused = unlikeGrpc(headers);
      if (refused !== undefined) {
        refuse(stream, refused);
        return;
      }
      begin(new Http2Call(stream, { clock, messageBytesMax, headers: rawHeaders, path }), byPath.get(path), headers);
    },
  );
  const port = await listen(server, options);
  return {
    port,
    useCertificate: ({ cert, key, clientCa }) => {
      if ('setSecureContext' in server) server.setSecureContext({ cert, key, ca: clientCa });
    },
    close: async (graceMs) => {
      server.close();
      for (let turn = 0; turn < TURNS_TO_LEAVE; turn++) await turnOfItsOwn(); // last words go before GOAWAY
      const cut = clock.after(graceMs, () => connections.destroy());
      await connections.retire();
      cut.cancel();
    },
  };
}

function create(options: GrpcServerOptions): Http2Server | Http2SecureServer {
  const { tls, streamWindowBytes = MEBIBYTE, concurrentStreamsMax = 1000 } = options;
  const http2: ServerOptions = {
    settings: {
      initialWindowSize: streamWindowBytes,
      maxHeaderListSize: HEADER_LIST_BYTES_MAX,
      ...(concurrentStreamsMax > 0 ? { maxConcurrentStreams: concurrentStreamsMax } : {}),
    },
    maxSessionMemory: SESSION_MEGABYTES_MAX,
    // Missing from the library's types, which hands them on to the listener.
    ...{ noDelay: true, keepAlive: true, keepAliveInitialDelay: SILENCE_MS },
  };
  if (tls === undefined) return createServer(http2);
  const { cert, key, clientCa } = tls;
  const mutual = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  const server = createSecureServer({ ...http2, cert, key, ...mutual });
  server.on('tlsClientError', () => {}); // a client that cannot come in hears it from TLS
  return server;
}

function listen(server: Http2Server | Http2SecureServer, { host, port }: GrpcServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new Error(reasonOf(error), { cause: error })));
    server.listen(port, host, () => {
      server.removeAllListeners('error');
      server.on('error', () => {}); // of accepting a connection; its client connects again
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/** The HTTP status of what is no gRPC call; undefined for one. */
function unlikeGrpc(headers: IncomingHttpHeaders): number | undefined {
  if (headers[constants.HTTP2_HEADER_METHOD] !== 'POST') return 405;
  return /^application\/grpc(?:\+proto)?\s*(?:;|$)/i.test(headers['content-type'] ?? '') ? undefined : 415;
}

function refuse(stream: ServerHttp2Stream, status: number): void {
  stream.on('error', () => {}); // of a client that has left
  if (stream.destroyed || stream.closed) return;
  stream.respond({ ':status': status }, { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}

function begin(call: Http2Call, method: GrpcMethod | undefined, headers: IncomingHttpHeaders): void {
  try {
    if (method === undefined) {
      throw new GrpcStatus(STATUS.UNIMPLEMENTED, `The server does not implement the method ${call.path.slice(0, 256)}`);
    }
    const encoding = headers['grpc-encoding'];
    if (encoding !== undefined && encoding !== 'identity') {
      throw new GrpcStatus(
        STATUS.UNIMPLEMENTED,
        `Content is compressed with \`${String(encoding).slice(0, 64)}\` which isn't supported`,
      );
    }
    method.serve(call)?.catch((thrown: unknown) => call.end(statusOf(thrown)));
  } catch (thrown) {
    call.end(statusOf(thrown));
  }
}

/** The connections of one server. */
class Connections {
  readonly #options: GrpcServerOptions;
  readonly #sessions = new Map<ServerHttp2Session, readonly Timer[]>();
  #onEmpty: (() => void) | undefined;
  #isRetired = false;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
  }

  add(session: ServerHttp2Session): void {
    const { clock, random, connectionWindowBytes = MEBIBYTE, keepaliveMs = 0, connectionAgeMsMax = 0 } = this.#options;
    const timers: Timer[] = [];
    if (keepaliveMs > 0) timers.push(clock.every(keepaliveMs, () => this.#ping(session)));
    if (connectionAgeMsMax > 0) {
      const ageMs = connectionAgeMsMax * (0.95 + random.next() / 10); // so that not all clients come back at once
      timers.push(clock.after(ageMs, () => session.close()));
    }
    this.#sessions.set(session, timers);
    session.on('error', () => {}); // `close` follows, and says as much
    session.once('close', () => {
      for (const timer of timers) timer.cancel();
      this.#sessions.delete(session);
      if (this.#sessions.size === 0) this.#onEmpty?.();
    });
    session.setLocalWindowSize(connectionWindowBytes);
    if (this.#isRetired) session.close(); // it was on its way in
  }

  /** Asks every client to go: calls under way go on. Resolves when the last connection has closed. */
  retire(): Promise<void> {
    this.#isRetired = true;
    for (const session of this.#sessions.keys()) session.close();
    if (this.#sessions.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }

  destroy(): void {
    for (const session of this.#sessions.keys()) session.destroy();
  }

  #ping(session: ServerHttp2Session): void {
    const { clock, keepaliveTimeoutMs = 20_000 } = this.#options;
    if (session.destroyed || session.closed) return;
    const timer = clock.after(keepaliveTimeoutMs, () => session.destroy());
    session.ping(() => timer.cancel());
  }
}
