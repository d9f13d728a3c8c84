import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { gzipSync } from 'node:zlib';
import { framed } from '../../../shared/grpc/message-frames.ts';
import { dataFrame, openFrame, rawFrame, resetFrame, windowFrame } from '../grpc/raw-http2.ts';
import { waitUntil } from '../wait-until.ts';
import type { HostileValues } from './hostile-values.ts';
import { GONE_MS_MAX, LazyClient, type Listener, SILENT_MS_MAX } from './listener.ts';

const ANSWER_MS_MAX = 15_000;
const SILENT_MAX = 24;
const KSERVE = '/inference.GRPCInferenceService';
const PATHS = [
  ...['ModelInfer', 'ModelStreamInfer', 'ModelReady', 'RepositoryIndex', 'ServerLive'].map(
    (name) => `${KSERVE}/${name}`,
  ),
  ...[
    '/grpc.health.v1.Health/Check',
    '/grpc.health.v1.Health/Watch',
    '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
    '/none',
  ],
];
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const NO_BYTES = Buffer.alloc(0);
const HELLO = Buffer.concat([PREFACE, rawFrame(4, 0, 0, NO_BYTES)]);
const FRAME_BYTES = 16_384;
const FLOOD = 2000;
/** Sixteen megabytes of zeros, in sixteen kilobytes. */
const BOMB = gzipSync(Buffer.alloc(16 << 20));

const repeated = (frame: Buffer, times: number): Buffer => Buffer.concat(Array.from({ length: times }, () => frame));

type Kind = (values: HostileValues, headers: Readonly<Record<string, string>>) => Buffer;

/**
 * Input on a connection. After each, the client leaves, and the server must serve an honest client on another
 * connection.
 */
const KINDS: Readonly<Record<string, Kind>> = {
  'messages without end': (values, headers) => {
    const path = values.one(PATHS);
    const part = framed(Buffer.alloc(values.one([1_000_000, 4_000_000]), 10)).subarray(0, FRAME_BYTES);
    const streams = Array.from({ length: 1 + values.random.below(60) }, (_, at) => 2 * at + 1);
    return Buffer.concat([
      HELLO,
      ...streams.map((stream) =>
        Buffer.concat([openFrame(stream, path, headers), repeated(dataFrame(stream, part), 3)]),
      ),
    ]);
  },
  'calls that are reset at once': (values, headers) => {
    const streams = Array.from({ length: 300 }, (_, at) => 2 * at + 1);
    return Buffer.concat([
      HELLO,
      ...streams.map((stream) => Buffer.concat([openFrame(stream, values.one(PATHS), headers), resetFrame(stream)])),
    ]);
  },
  'metadata that is huge': (values, headers) => {
    const more = values.chance(0.5)
      ? { x: 'a'.repeat(15_000) }
      : Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`x-${at}`, 'a'.repeat(20)]));
    return Buffer.concat([
      HELLO,
      openFrame(1, values.one(PATHS), { ...headers, ...more }),
      dataFrame(1, framed(NO_BYTES), true),
    ]);
  },
  'a head that goes on': (values, headers) => {
    const head = openFrame(1, values.one(PATHS), headers).subarray(9);
    return Buffer.concat([
      HELLO,
      rawFrame(1, 0, 1, head),
      repeated(rawFrame(9, 0, 1, values.chance(0.5) ? NO_BYTES : Buffer.from('\0\x01x\x01y')), FLOOD),
    ]);
  },
  'settings without end': (values) =>
    Buffer.concat([
      HELLO,
      repeated(rawFrame(4, 0, 0, values.chance(0.5) ? NO_BYTES : Buffer.of(0, 4, 0, 0, 255, 255)), FLOOD),
    ]),
  'pings without end': () => Buffer.concat([HELLO, repeated(rawFrame(6, 0, 0, Buffer.alloc(8)), FLOOD)]),
  'windows without end': (values, headers) =>
    Buffer.concat([
      HELLO,
      openFrame(1, values.one(PATHS), headers),
      repeated(windowFrame(values.one([0, 1]), values.one([1, 2 ** 31 - 1])), FLOOD),
    ]),
  'data without bytes': (values, headers) =>
    Buffer.concat([HELLO, openFrame(1, values.one(PATHS), headers), repeated(dataFrame(1, NO_BYTES), FLOOD)]),
  'messages without bytes': (values, headers) =>
    Buffer.concat([HELLO, openFrame(1, values.one(PATHS), headers), repeated(dataFrame(1, framed(NO_BYTES)), FLOOD)]),
  'frames that no server expects': (values, headers) => {
    const streams = [0, 1, 2, 3, 2 ** 31 - 1];
    const odd = Array.from({ length: 1 + values.random.below(20) }, () =>
      rawFrame(values.random.below(14), values.random.below(256), values.one(streams), values.bytes(30)),
    );
    return Buffer.concat([HELLO, openFrame(1, values.one(PATHS), headers), ...odd]);
  },
  'a head of noise': (values) => Buffer.concat([HELLO, rawFrame(1, 5, 1, values.bytes(300))]),
  'no HTTP/2': (values) =>
    values.one([
      Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n'),
      values.bytes(200),
      Buffer.from('\x16\x03\x01\x02\0', 'latin1'),
    ]),
};

/** Input before a silence that the server must end. */
const SILENCES: Readonly<Record<string, Kind>> = {
  nothing: () => NO_BYTES,
  'half a handshake': (values) => HELLO.subarray(0, 1 + values.random.below(PREFACE.length - 1)),
  'a handshake': () => HELLO,
  'a head without end': (values, headers) => {
    const head = openFrame(1, values.one(PATHS), headers).subarray(9);
    return Buffer.concat([HELLO, rawFrame(1, 0, 1, head.subarray(0, 1 + values.random.below(head.length)))]);
  },
  'half a message': (values, headers) =>
    Buffer.concat([
      HELLO,
      openFrame(1, `${KSERVE}/ModelInfer`, headers),
      dataFrame(1, framed(Buffer.alloc(3000)).subarray(0, 1 + values.random.below(2000))),
    ]),
};

const COMPRESSED = 'a compressed message';
const NAMES = [...Object.keys(KINDS), ...Object.keys(SILENCES), COMPRESSED, COMPRESSED];

/** A gRPC listener that requires keys. */
export class GrpcListener implements Listener {
  readonly name = 'gRPC';
  readonly #port: number;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #silent: LazyClient[] = [];

  constructor(port: number, key: string) {
    this.#port = port;
    this.#headers = { authorization: `Bearer ${key}` };
  }

  async play(values: HostileValues): Promise<void> {
    const kind = values.one(NAMES);
    try {
      if (kind === COMPRESSED) await this.#sendBomb(values);
      else await this.#meet(kind, values);
    } catch (error) {
      throw new Error(`${this.name}, ${kind}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  }

  async ask(): Promise<void> {
    const status = await this.#call(`${KSERVE}/ModelReady`, framed(Buffer.from('\n\x0bstator-mini')), this.#headers);
    if (status !== 0) throw new Error(`an honest client got ${status}`);
  }

  async untilSilentAreGone(): Promise<void> {
    await Promise.all(
      this.#silent.splice(0).map(async (client) => {
        await waitUntil(() => client.isOver, { timeoutMs: SILENT_MS_MAX, what: `${this.name} to end a silent client` });
        await client.untilGone(GONE_MS_MAX);
      }),
    );
  }

  async #meet(kind: string, values: HostileValues): Promise<void> {
    const headers = values.chance(0.5) ? this.#headers : {};
    const said = (KINDS[kind] ?? SILENCES[kind])!(values, headers);
    const client = new LazyClient(this.#port);
    await client.send(
      values.chance(0.8) ? [said] : [said.subarray(0, said.length >> 1), said.subarray(said.length >> 1)],
    );
    if (kind in SILENCES) {
      this.#silent.push(client);
      if (this.#silent.length > SILENT_MAX) this.#silent.shift()?.socket.destroy();
      return;
    }
    try {
      await this.ask();
      if (client.isEnded) await client.untilGone(GONE_MS_MAX);
    } finally {
      client.socket.destroy();
    }
  }

  /**
   * Sends a compressed message of zeros. The server unpacks nothing and refuses the call, whatever encoding it names.
   */
  async #sendBomb(values: HostileValues): Promise<void> {
    const message = framed(BOMB);
    message[0] = values.one([1, 1, 1, 2, 255]);
    const encoding = values.one([undefined, 'gzip', 'identity', 'deflate', 'x']);
    const more = encoding === undefined ? {} : { 'grpc-encoding': encoding };
    const headers = values.chance(0.7) ? this.#headers : {};
    const status = await this.#call(values.one(PATHS), message, { ...headers, ...more });
    if (status === 0) throw new Error('it was taken');
  }

  /** Returns the status of a call with one message. */
  async #call(path: string, message: Buffer, headers: Readonly<Record<string, string>>): Promise<number | undefined> {
    const session: ClientHttp2Session = connectHttp2(`http://127.0.0.1:${this.#port}`);
    let isOver = false;
    let status: number | undefined;
    session.on('error', () => {
      isOver = true;
    });
    const call = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const told = (values: { readonly 'grpc-status'?: unknown }): void => {
      if (values['grpc-status'] !== undefined) status = Number(values['grpc-status']);
    };
    call
      .on('response', told)
      .on('trailers', told)
      .on('error', () => {})
      .resume();
    call.on('close', () => {
      isOver = true;
    });
    call.end(message);
    await waitUntil(() => isOver, { timeoutMs: ANSWER_MS_MAX, what: `the end of ${path}` }).finally(() =>
      session.destroy(),
    );
    return status;
  }
}
