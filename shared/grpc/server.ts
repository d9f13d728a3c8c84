import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Clock, Random } from '../clock/index.ts';
import { turnOfItsOwn } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import { type ConnectionLimits, Connections } from './connections.ts';
import { Http2Call } from './http2-call.ts';
import { type MessageRoom, OwnRoom } from './message-intake.ts';
import type { GrpcMethod } from './methods.ts';
import { defaultConnectionsMax } from './open-files.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';

/** A certificate with its key, and the authority of the clients' certificates if clients must show one. PEM texts. */
export interface GrpcTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

export interface GrpcServerOptions extends ConnectionLimits {
  readonly host: string;
  /** Port to listen on; 0 = any free one. */
  readonly port: number;
  readonly methods: readonly GrpcMethod[];
  readonly clock: Clock;
  readonly random: Pick<Random, 'next'>;
  /** Certificate of the server. @default none: connections are not encrypted */
  readonly tls?: GrpcTls | undefined;
  /** Bytes of the largest message that a client may send. @default 4 MiB */
  readonly messageBytesMax?: number | undefined;
  /** Memory for messages that no method has received yet, of all calls. @default 64 MiB for this server */
  readonly room?: MessageRoom | undefined;
  /** Connections at the same time. @default half of the files that the process may open, 8192 at most */
  readonly connectionsMax?: number | undefined;
  /** Streams of one connection at the same time. @default 1000 */
  readonly concurrentStreamsMax?: number | undefined;
}

/** A listening server. */
export interface GrpcServer {
  readonly port: number;
  /** Uses another certificate for new connections. Without effect on a server that was opened without one. */
  useCertificate(tls: GrpcTls): void;
  /** Refuses new connections and asks clients to leave (GOAWAY). Cuts the remaining connections after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/**
 * Bytes that HTTP/2 lets a client send on a stream before the server announces a window. No server may begin with less.
 */
export const FIRST_WINDOW_BYTES = 65_535;

const MEBIBYTE = 1024 * 1024;
/** Bytes of a header list at most, as Dynamo's servers announce. */
const HEADER_LIST_BYTES_MAX = 16 * 1024;
/** Megabytes that Node buffers for one connection whose client does not read. Above that, Node refuses new streams. */
const SESSION_MEGABYTES_MAX = 256;
/**
 * Silence of a client after which TCP begins to probe it, in milliseconds. A machine that has vanished answers no
 * probe, so its connection fails some minutes later.
 */
const SILENCE_MS = 60_000;
/** Bytes of the largest message of a method that any client may call. */
const OPEN_MESSAGE_BYTES_MAX = 64 * 1024;
const ROOM_BYTES = 64 * MEBIBYTE;
/** Turns of the event loop after which everything written before them has been sent. */
const TURNS_TO_LEAVE = 3;

/**
 * Opens a server of `methods` over HTTP/2, with TLS if there is a certificate. Ends calls of unknown paths with
 * UNIMPLEMENTED.
 * @throws Error with a message of one line if the port cannot be bound
 */
export async function openGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { clock, methods, messageBytesMax = 4 * MEBIBYTE, room = new OwnRoom(ROOM_BYTES) } = options;
  const byPath = new Map(methods.map((method) => [method.path, method]));
  const server = create(options);
  const { connectionsMax = await defaultConnectionsMax() } = options;
  const connections = new Connections(server, { ...options, connectionsMax });
  server.on('sessionError', () => {}); // the session closes
  server.on(
    'stream',
    (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: readonly string[]) => {
      const host = connections.of(stream);
      const refused = unlikeGrpc(headers);
      if (refused !== undefined || host === undefined) {
        host?.called(undefined, stream);
        refuse(stream, refused ?? 503);
        return;
      }
      const path = String(headers[constants.HTTP2_HEADER_PATH]);
      const method = byPath.get(path);
      const isOpenToAll = method?.isOpenToAll === true;
      const bytesMax = isOpenToAll ? Math.min(messageBytesMax, OPEN_MESSAGE_BYTES_MAX) : messageBytesMax;
      const parts = { clock, messageBytesMax: bytesMax, room, host, isOpenToAll, headers: rawHeaders, path };
      const call = new Http2Call(stream, parts);
      host.called(call, stream);
      begin(call, method, headers);
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
      for (let turn = 0; turn < TURNS_TO_LEAVE; turn++) await turnOfItsOwn(); // so that last frames leave before GOAWAY
      const cut = clock.after(graceMs, () => connections.destroy());
      await connections.retire();
      cut.cancel();
    },
  };
}

function create(options: GrpcServerOptions): Http2Server | Http2SecureServer {
  const {
    tls,
    streamWindowBytes = MEBIBYTE,
    firstWindowBytes = streamWindowBytes,
    concurrentStreamsMax = 1000,
  } = options;
  const http2: ServerOptions = {
    settings: {
      initialWindowSize: Math.min(firstWindowBytes, streamWindowBytes),
      maxHeaderListSize: HEADER_LIST_BYTES_MAX,
      ...(concurrentStreamsMax > 0 ? { maxConcurrentStreams: concurrentStreamsMax } : {}),
    },
    maxSessionMemory: SESSION_MEGABYTES_MAX,
    // Node hands these to the listener, but their types are missing here.
    ...{ noDelay: true, keepAlive: true, keepAliveInitialDelay: SILENCE_MS },
  };
  if (tls === undefined) return createServer(http2);
  const { cert, key, clientCa } = tls;
  const mutual = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  const server = createSecureServer({ ...http2, cert, key, ...mutual });
  server.on('tlsClientError', () => {}); // TLS has told the client why
  return server;
}

function listen(server: Http2Server | Http2SecureServer, { host, port }: GrpcServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new Error(reasonOf(error), { cause: error })));
    server.listen(port, host, () => {
      server.removeAllListeners('error');
      server.on('error', () => {}); // a connection could not be accepted; its client connects again
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/** Returns the HTTP status that refuses a request which is not a call; undefined for a call. */
function unlikeGrpc(headers: IncomingHttpHeaders): number | undefined {
  if (headers[constants.HTTP2_HEADER_METHOD] !== 'POST') return 405;
  return /^application\/grpc(?:\+proto)?\s*(?:;|$)/i.test(headers['content-type'] ?? '') ? undefined : 415;
}

function refuse(stream: ServerHttp2Stream, status: number): void {
  stream.on('error', () => {}); // the client has left
  if (stream.destroyed || stream.closed) return;
  stream.respond({ ':status': status }, { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}

function begin(call: Http2Call, method: GrpcMethod | undefined, headers: IncomingHttpHeaders): void {
  if (call.isOver) return; // there was no room for the bytes that arrived with its head
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
