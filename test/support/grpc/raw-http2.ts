import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Types of frames. */
export const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goAway: 7, windowUpdate: 8 } as const;

const END_STREAM = 1;
const END_HEADERS = 4;

/** A received frame. */
export interface RawFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Encodes a header block without compression, as literals that no table keeps. */
function block(headers: Readonly<Record<string, string>>): Buffer {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value, 'latin1');
    if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes]);
    const length = [127];
    for (let rest = bytes.length - 127; ; rest >>>= 7) {
      length.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
      if (rest < 0x80) break;
    }
    return Buffer.concat([Buffer.from(length), bytes]);
  };
  return Buffer.concat(Object.entries(headers).flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]));
}

export function rawFrame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Returns the frame that opens a call. */
export function openFrame(stream: number, path: string, headers: Readonly<Record<string, string>> = {}): Buffer {
  const all = {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'test',
    'content-type': 'application/grpc',
    ...headers,
  };
  return rawFrame(FRAME.headers, END_HEADERS, stream, block(all));
}

export function dataFrame(stream: number, payload: Uint8Array, isLast = false): Buffer {
  return rawFrame(FRAME.data, isLast ? END_STREAM : 0, stream, payload);
}

export function resetFrame(stream: number, code = 8): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(code);
  return rawFrame(FRAME.reset, 0, stream, payload);
}

export function windowFrame(stream: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(bytes);
  return rawFrame(FRAME.windowUpdate, 0, stream, payload);
}

/** A connection whose caller writes frames by hand. Frames that are given together go out together. */
export class RawHttp2 {
  readonly frames: RawFrame[] = [];
  readonly #socket: Socket;
  #held = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('error', () => {}); // `close` follows
    socket.on('data', (bytes) => this.#read(bytes));
  }

  /**
   * @param streamWindowBytes bytes that the server may send on a stream before a window update
   */
  static async open(port: number, streamWindowBytes = 65_535): Promise<RawHttp2> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    const raw = new RawHttp2(socket);
    const setting = Buffer.alloc(6);
    setting.writeUInt16BE(4, 0);
    setting.writeUInt32BE(streamWindowBytes, 2);
    raw.write(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), rawFrame(FRAME.settings, 0, 0, setting));
    return raw;
  }

  get isClosed(): boolean {
    return this.#socket.destroyed;
  }

  write(...frames: readonly Uint8Array[]): void {
    if (!this.#socket.destroyed) this.#socket.write(Buffer.concat(frames));
  }

  /** Returns the bytes of the DATA frames that came on a stream. */
  dataOf(stream: number): Buffer {
    const data = this.frames.filter((frame) => frame.type === FRAME.data && frame.stream === stream);
    return Buffer.concat(data.map(({ payload }) => payload));
  }

  of(type: number, stream?: number): readonly RawFrame[] {
    return this.frames.filter((frame) => frame.type === type && (stream === undefined || frame.stream === stream));
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    this.#held = Buffer.concat([this.#held, bytes]);
    while (this.#held.length >= 9) {
      const length = this.#held.readUIntBE(0, 3);
      if (this.#held.length < 9 + length) return;
      const [type, flags] = [this.#held[3] ?? 0, this.#held[4] ?? 0];
      const stream = this.#held.readUInt32BE(5) & 0x7fff_ffff;
      this.frames.push({ type, flags, stream, payload: this.#held.subarray(9, 9 + length) });
      this.#held = this.#held.subarray(9 + length);
      if (type === FRAME.settings && (flags & 1) === 0) this.write(rawFrame(FRAME.settings, 1, 0, Buffer.alloc(0)));
    }
  }
}
