import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Client, credentials } from '@grpc/grpc-js';
import { framed } from '../../../shared/grpc/message-frames.ts';
import { dataFrame, openFrame, rawFrame, resetFrame, windowFrame } from '../grpc/raw-http2.ts';
import type { HostileValues } from './hostile-values.ts';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const SETTINGS = rawFrame(4, 0, 0, Buffer.alloc(0));
const KSERVE = '/inference.GRPCInferenceService';
const REFLECTION = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
const HEALTH = '/grpc.health.v1.Health';
const PATHS = [
  ...['ModelInfer', 'ModelStreamInfer', 'ModelReady', 'ModelMetadata', 'ServerLive'].map((name) => `${KSERVE}/${name}`),
  ...[`${HEALTH}/Check`, `${HEALTH}/Watch`, REFLECTION, '/none'],
];
const HELD_MAX = 8;
const STREAMS_MAX = 12;
const ANSWER_MS_MAX = 10_000;

/** Clients of gRPC that stop in the middle of anything, and stay connected. */
export class HostileGrpcClients {
  readonly #port: number;
  readonly #held: Socket[] = [];
  readonly #honest: Client;

  constructor(port: number) {
    this.#port = port;
    this.#honest = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  }

  /**
   * Plays one client.
   * @throws Error if the server meanwhile does not answer another client
   */
  async play(values: HostileValues): Promise<void> {
    const socket = connect(this.#port, '127.0.0.1');
    socket.on('error', () => {}).resume(); // the server may refuse it
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    const said = Buffer.concat([PREFACE, SETTINGS, ...frames(values)]);
    socket.write(values.chance(0.3) ? said.subarray(0, values.random.below(said.length)) : said);
    this.#held.push(socket);
    if (this.#held.length > HELD_MAX) this.#held.shift()?.destroy();
    if (values.chance(0.2)) await this.#ask();
  }

  /** Disconnects the clients that stayed. */
  release(): void {
    for (const socket of this.#held.splice(0)) socket.destroy();
  }

  close(): void {
    this.release();
    this.#honest.close();
  }

  #ask(): Promise<void> {
    const same = (bytes: Buffer): Buffer => bytes;
    return new Promise((resolve, reject) => {
      const limits = { deadline: Date.now() + ANSWER_MS_MAX };
      this.#honest.makeUnaryRequest(`${KSERVE}/ServerLive`, same, same, Buffer.alloc(0), limits, (error) => {
        if (error === null) resolve();
        else reject(new Error(`ServerLive got no answer: ${error.message}`));
      });
    });
  }
}

/** Returns what a client sends behind its preface: calls, parts of messages, and unexpected frames. */
function frames(values: HostileValues): readonly Buffer[] {
  const said: Buffer[] = [];
  const streams = 1 + values.random.below(STREAMS_MAX);
  for (let at = 0; at < streams; at++) {
    const stream = 2 * at + 1;
    const head = openFrame(stream, values.one(PATHS));
    said.push(values.chance(0.05) ? rawFrame(1, 0, stream, head.subarray(9)) : head);
    for (let part = values.random.below(6); part > 0; part--) said.push(partOf(values, stream));
  }
  return said;
}

function partOf(values: HostileValues, stream: number): Buffer {
  const message = framed(values.chance(0.3) ? Buffer.alloc(values.random.below(16_000)) : values.bytes(60));
  switch (values.random.below(8)) {
    case 0:
      return dataFrame(stream, Buffer.of(values.random.below(3), ...values.bytes(8)));
    case 1:
      return dataFrame(stream, Buffer.concat([Buffer.of(0, 0, 0x3f, 0xff, 0xff), Buffer.alloc(16_000)]));
    case 2:
      return resetFrame(stream);
    case 3:
      return windowFrame(values.one([0, stream]), 1 + values.random.below(2 ** 20));
    case 4:
      return rawFrame(values.random.below(12), values.random.below(256), values.one([0, stream]), values.bytes(20));
    case 5:
      return Buffer.concat(Array.from(message.subarray(0, 200), (byte) => dataFrame(stream, Buffer.of(byte))));
    default:
      return dataFrame(stream, message.subarray(0, 1 + values.random.below(message.length)), values.chance(0.3));
  }
}
