import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectSecurely, createServer as createTlsServer } from 'node:tls';
import { Packr, Unpackr } from 'msgpackr';
import type { Transport } from '../../shared/planes/index.ts';
import { waitUntil } from './wait-until.ts';

const packr = new Packr({ useRecords: false, variableMapSize: true });
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true });

/** Returns a message of two parts. @param checksum that of a debug build, or 0 */
export function twoPart(header: string, body: Uint8Array = Buffer.alloc(0), checksum = 0n): Buffer {
  const prefix = Buffer.alloc(24);
  prefix.writeBigUInt64BE(BigInt(Buffer.byteLength(header)), 0);
  prefix.writeBigUInt64BE(BigInt(body.length), 8);
  prefix.writeBigUInt64BE(checksum, 16);
  return Buffer.concat([prefix, Buffer.from(header), body]);
}

/** Takes whole messages of two parts off the beginning of `bytes`. Returns the rest. */
function takeTwoParts(bytes: Buffer, take: (header: string, body: Buffer) => void): Buffer {
  let rest = bytes;
  while (rest.length >= 24) {
    const header = Number(rest.readBigUInt64BE(0));
    const end = 24 + header + Number(rest.readBigUInt64BE(8));
    if (rest.length < end) break;
    take(rest.toString('utf8', 24, 24 + header), rest.subarray(24 + header, end));
    rest = rest.subarray(end);
  }
  return rest;
}

/** The connection on which a worker delivers an answer. */
export class HomeLine {
  /** Control headers that came from the caller, as JSON texts. */
  readonly controls: string[] = [];
  readonly socket: Socket;
  readonly #codec: 'json' | 'msgpack';
  isClosed = false;

  constructor(socket: Socket, codec: 'json' | 'msgpack') {
    this.socket = socket;
    this.#codec = codec;
    let rest: Buffer = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      rest = takeTwoParts(Buffer.concat([rest, bytes]), (header) => this.controls.push(header));
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.isClosed = true;
    });
    socket.on('end', () => socket.end());
  }

  raw(bytes: Uint8Array): void {
    this.socket.write(bytes);
  }

  header(value: unknown): void {
    this.raw(twoPart(JSON.stringify(value)));
  }

  prologue(error: string | null = null): void {
    this.header({ error });
  }

  /** Sends an item of the answer. */
  item(data: unknown, isFinal = false): void {
    this.raw(this.itemBytes(data, isFinal));
  }

  itemBytes(data: unknown, isFinal = false): Buffer {
    const wrapper = data === undefined ? { complete_final: isFinal } : { data, complete_final: isFinal };
    return twoPart('', this.#codec === 'json' ? Buffer.from(JSON.stringify(wrapper)) : packr.pack(wrapper));
  }

  tokens(...ids: number[]): void {
    this.item({ data: { token_ids: ids } });
  }

  /** Ends the answer as a worker does that has finished. */
  end(): void {
    this.item(undefined, true);
    this.header('sentinel');
  }
}

/** A request as it reached the worker. */
export interface ReceivedRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly control: Readonly<Record<string, unknown>>;
  readonly body: Record<string, unknown>;
  /** Where to dial, and under which name. */
  readonly home: { readonly address: string; readonly subject: string; readonly context: string };
  /** Acknowledges it. @param reason why not @default accepted */
  ack(reason?: string): void;
  /** Dials the caller and names the stream. */
  dial(): Promise<HomeLine>;
}

interface StandInOptions {
  readonly codec?: 'json' | 'msgpack';
  /** Called with each request. @default acknowledges it */
  readonly onRequest?: (request: ReceivedRequest) => void;
  /** Certificates that it shows to callers and to listeners, and the authority of theirs. @default no TLS */
  readonly tls?: StandInTls;
}

/** PEM texts. */
export interface StandInTls {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** A worker of Dynamo as its wire describes it, which does what a test tells it. */
export class StandInDynamoWorker {
  readonly requests: ReceivedRequest[] = [];
  readonly sockets = new Set<Socket>();
  readonly #server: Server;
  readonly #codec: 'json' | 'msgpack';
  readonly #tls: StandInTls | undefined;
  onRequest: (request: ReceivedRequest) => void;
  readonly #lines: HomeLine[] = [];

  private constructor({ codec = 'msgpack', onRequest = (request) => request.ack(), tls }: StandInOptions) {
    this.#codec = codec;
    this.onRequest = onRequest;
    this.#tls = tls;
    const serve = (socket: Socket): void => this.#serve(socket);
    this.#server =
      tls === undefined
        ? createServer({ noDelay: true }, serve)
        : createTlsServer({ ...tls, requestCert: true, rejectUnauthorized: true }, serve);
  }

  static async start(options: StandInOptions = {}): Promise<StandInDynamoWorker> {
    const worker = new StandInDynamoWorker(options);
    worker.#server.listen(0, '127.0.0.1');
    await once(worker.#server, 'listening');
    return worker;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get transport(): Transport {
    const address = `127.0.0.1:${this.port}/2a/dynamo/backend/generate`;
    return this.#codec === 'json' ? { dynamo_tcp: address } : { dynamo_tcp: address, dynamo_codec: 'msgpack' };
  }

  /** Resolves with the request of that number, from 0. */
  request(number = 0): Promise<ReceivedRequest> {
    return waitUntil(() => this.requests[number], { what: `request ${number} at the worker` });
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    for (const line of this.#lines) line.socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket): void {
    this.sockets.add(socket);
    socket.on('close', () => this.sockets.delete(socket));
    socket.on('error', () => {});
    let rest: Buffer = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end = messageEnd(rest); end !== undefined; end = messageEnd(rest)) {
        const request = this.#read(rest.subarray(0, end), socket);
        rest = rest.subarray(end);
        this.requests.push(request);
        this.onRequest(request);
      }
    });
  }

  #read(bytes: Buffer, socket: Socket): ReceivedRequest {
    const pathEnd = 2 + bytes.readUInt16BE(0);
    const headersEnd = pathEnd + 2 + bytes.readUInt16BE(pathEnd);
    const { control, body, home } = readNatsRequest(bytes.subarray(headersEnd + 4));
    return {
      path: bytes.toString('utf8', 2, pathEnd),
      headers: JSON.parse(bytes.toString('utf8', pathEnd + 2, headersEnd)),
      control,
      body,
      home,
      ack: (reason = '') => {
        const text = Buffer.from(reason);
        const length = Buffer.alloc(4);
        length.writeUInt32BE(text.length);
        socket.write(Buffer.concat([length, text]));
      },
      dial: async () => {
        const line = await dialHome(home.address, this.#codec, this.#tls);
        this.#lines.push(line);
        line.header({ subject: home.subject, stream_type: 'response' });
        return line;
      },
    };
  }
}

/** Returns the parts of a request message of two parts, as one over NATS is. */
export function readNatsRequest(bytes: Uint8Array): Pick<ReceivedRequest, 'control' | 'body' | 'home'> {
  let control: Record<string, unknown> = {};
  let body: Record<string, unknown> = {};
  takeTwoParts(Buffer.from(bytes), (header, part) => {
    control = JSON.parse(header);
    body = control.payload_codec === 'json' ? JSON.parse(part.toString()) : unpackr.unpack(part);
  });
  return { control, body, home: JSON.parse((control.connection_info as { info: string }).info) };
}

/** Opens a connection to a listener for answers, and says nothing yet. */
export async function dialHome(
  address: string,
  codec: 'json' | 'msgpack' = 'msgpack',
  tls?: StandInTls,
): Promise<HomeLine> {
  const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(address) as unknown as [string, string, string];
  const options = { host, port: Number(port), noDelay: true, allowHalfOpen: true };
  const socket = tls === undefined ? connect(options) : connectSecurely({ ...options, ...tls });
  await once(socket, tls === undefined ? 'connect' : 'secureConnect');
  return new HomeLine(socket, codec);
}

function messageEnd(bytes: Buffer): number | undefined {
  if (bytes.length < 2) return undefined;
  const pathEnd = 2 + bytes.readUInt16BE(0);
  if (bytes.length < pathEnd + 2) return undefined;
  const headersEnd = pathEnd + 2 + bytes.readUInt16BE(pathEnd);
  if (bytes.length < headersEnd + 4) return undefined;
  const end = headersEnd + 4 + bytes.readUInt32BE(headersEnd);
  return bytes.length < end ? undefined : end;
}
