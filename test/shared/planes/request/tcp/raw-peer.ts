import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Transport } from '../../../../../shared/planes/index.ts';
import { decodeRecord, encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import {
  FrameParser,
  type FrameReceiver,
  FrameType,
  type FrameTypeCode,
} from '../../../../../shared/planes/request/frames/frame.ts';
import { ByteWriter } from '../../../../../shared/planes/request/frames/outbox.ts';

/** One frame as it crossed the wire. */
export interface SeenFrame {
  readonly type: FrameTypeCode;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** Keeps every frame, and what was too long. */
export class FrameLog implements FrameReceiver {
  readonly frames: SeenFrame[] = [];
  readonly oversized: { readonly type: FrameTypeCode; readonly streamId: number; readonly payloadBytes: number }[] = [];

  frame(type: FrameTypeCode, streamId: number, bytes: Buffer, start: number, end: number): void {
    this.frames.push({ type, streamId, payload: Buffer.from(bytes.subarray(start, end)) });
  }

  oversize(type: FrameTypeCode, streamId: number, payloadBytes: number): void {
    this.oversized.push({ type, streamId, payloadBytes });
  }

  ofType(type: FrameTypeCode): SeenFrame[] {
    return this.frames.filter((frame) => frame.type === type);
  }
}

/** @param payload bytes, or text for them, as they are; anything else is a record */
export function frameBytes(type: FrameTypeCode, streamId: number, payload: unknown): Buffer {
  const writer = new ByteWriter();
  const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
  writer.frame(type, streamId, bytes instanceof Uint8Array ? bytes : encodeRecord(payload));
  return Buffer.concat(writer.pieces());
}

export function recordOf({ payload }: SeenFrame): unknown {
  return decodeRecord(payload, 0, payload.length);
}

/** A caller made of frames: says exactly what a test wants and keeps what comes back. */
export class RawCaller extends FrameLog {
  readonly socket: Socket;
  isClosed = false;

  private constructor(socket: Socket) {
    super();
    this.socket = socket;
    const parser = new FrameParser(this, 1 << 30);
    socket.on('data', (chunk) => parser.push(chunk));
    socket.on('error', () => {}); // resets are part of the tests
    socket.on('close', () => {
      this.isClosed = true;
    });
  }

  static async connect(transport: Transport): Promise<RawCaller> {
    const [, host, port] = /^(.+):(\d+)\//.exec((transport as { tcp: string }).tcp) ?? [];
    const socket = connect({ host: host!, port: Number(port) }); // transports of these tests are well formed
    await once(socket, 'connect');
    return new RawCaller(socket);
  }

  send(type: FrameTypeCode, streamId: number, payload: unknown): void {
    this.socket.write(frameBytes(type, streamId, payload));
  }

  hello(fields: Readonly<Record<string, unknown>> = {}): void {
    this.send(FrameType.hello, 0, { proto: 2, maxFrame: 1 << 20, instanceId: '2a', ...fields });
  }
}

/** A worker made of frames: answers HELLO as told and leaves the rest to the test. */
export async function startRawWorker(
  onCaller: (socket: Socket, log: FrameLog) => void,
): Promise<{ readonly transport: Transport; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}); // resets are part of the tests
    const log = new FrameLog();
    const parser = new FrameParser(log, 1 << 30);
    socket.on('data', (chunk) => parser.push(chunk));
    onCaller(socket, log);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  return {
    transport: { tcp: `127.0.0.1:${port}/2a/dynamo/backend/generate` },
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

export const HELLO_ACK = frameBytes(FrameType.helloAck, 0, { instanceId: '2a', endpoints: [], maxFrame: 1 << 20 });
