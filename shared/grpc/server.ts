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

/** A certificate with its key, and the authority of callers' certificates where they must show one. PEM texts. */
export interface GrpcTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

export interface GrpcServerOptions extends ConnectionLimits {
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
  /** For messages that are not yet whole, or not yet asked for, of all calls together. @default 64 MiB of its own */
  readonly room?: MessageRoom | undefined;
  /** Connections at a time. @default half of the files that the process may open, 8192 at most */
  readonly connectionsMax?: number | undefined;
  /** Streams of a connection. @default 1000 */
  readonly concurrentStreamsMax?: number | undefined;
}

/** A gRPC server that listens. */
export interface GrpcServer {
  readonly port: number;
  /** For new connections, where there was a certificate from the start. */
  useCertificate(tls: GrpcTls): void;
  /** Takes no new connections and asks clients to go (GOAWAY); cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** What HTTP/2 lets a client send on a stream where a server says nothing, and the least that one may say at first. */
export const FIRST_WINDOW_BYTES = 65_535;

const MEBIBYTE = 1024 * 1024;
/** Bytes of a header list, as Dynamo's servers announce. */
const HEADER_LIST_BYTES_MAX = 16 * 1024;
/** Megabytes that Node keeps of one connection for what the client has not read, before new streams are refused. */
const SESSION_MEGABYTES_MAX = 256;
/** A client that has vanished without a word is found out by its system's silence, some minutes after this much of it. */
const SILENCE_MS = 60_000;
/** Longest message of a call that any client may make. */
const OPEN_MESSAGE_BYTES_MAX = 64 * 1024;
const ROOM_BYTES = 64 * MEBIBYTE;
/** Turns of the event loop within which what was written before has left. */
const TURNS_TO_LEAVE = 3;

/**
 * Serves methods over HTTP/2, plainly or with TLS. Calls of unknown paths end with UNIMPLEMENTED.
 * @throws Error with one line when the port cannot be bound
 */
export async function openGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { clock, methods, messageBytesMax = 4 * MEBIBYTE, room = new OwnRoom(ROOM_BYTES) } = options;
  const byPath = new Map(methods.map((method) => [method.path, method]));
  const server = create(options);
  const { connectionsMax = await defaultConnectionsMax() } = options;
  const connections = new Connections(server, { ...options, connectionsMax });
  server.on('sessionError', () => {}); // its session closes
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
      for (let turn = 0; turn < TURNS_TO_LEAVE; turn++) await turnOfItsOwn(); // last words go before GOAWAY
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
  if (call.isOver) return; // there was no room for what came with it
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
