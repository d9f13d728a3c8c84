import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { createTcpRequestPlane, type TcpRequestPlaneOptions } from '../../../../../shared/planes/request/tcp/plane.ts';
import { RecordingSink, type SinkEvent } from '../../../../contract/planes/recording-sink.ts';
import { frameBytes, HELLO_ACK, startRawWorker } from './raw-peer.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const NUMBERS = Array.from({ length: 200_000 }, (_, at) => -(at + 1) / 7);
const LARGE = { engine_data: { prompt_logprobs: NUMBERS } };

const record = (value: unknown): Uint8Array => encodeRecord(value);
const data = (streamId: number, output: unknown): Buffer =>
  frameBytes(FrameType.data, streamId, record({ data: output }));
const end = (streamId: number): Buffer => frameBytes(FrameType.end, streamId, record({}));

/** A TOKENS frame with one token of a stream. */
function token(streamId: number, id: number): Buffer {
  const entry = Buffer.alloc(10);
  entry.writeUInt32BE(streamId);
  entry[5] = 1;
  entry.writeUInt32BE(id, 6);
  return frameBytes(FrameType.tokens, 0, entry);
}

/** Keeps what it hears under the name of its stream, beside what others hear. */
class NamedSink extends RecordingSink {
  readonly #name: string;
  readonly #heard: string[];

  constructor(name: string, heard: string[]) {
    super();
    this.#name = name;
    this.#heard = heard;
  }

  override output(output: Parameters<RecordingSink['output']>[0]): void {
    this.#heard.push(`${this.#name} output`);
    super.output(output);
  }

  override end(): void {
    this.#heard.push(`${this.#name} end`);
    super.end();
  }
}

/** Two calls on one connection to a worker that `answers` once it has both. */
async function ask(answers: (socket: Socket) => void, options: Partial<TcpRequestPlaneOptions> = {}) {
  const worker = await startRawWorker((socket, log) => {
    let isAnswered = false;
    socket.on('data', () => {
      if (isAnswered || log.ofType(FrameType.open).length < 2) return;
      isAnswered = true;
      socket.write(HELLO_ACK);
      answers(socket);
    });
  });
  cleanups.push(worker.close);
  const plane = createTcpRequestPlane({ clock: systemClock, ...options });
  cleanups.push(() => plane.close());
  const heard: string[] = [];
  const [large, small] = [new NamedSink('large', heard), new NamedSink('small', heard)];
  const calls = [large, small].map((sink, at) =>
    plane.call(worker.transport, { id: `r${at}`, headers: {}, body: {} }, sink),
  );
  return { large, small, heard, killLarge: () => calls[0]?.kill() };
}

const kinds = (events: readonly SinkEvent[]): readonly string[] => events.map(({ kind }) => kind);

describe('a stream with a large frame', () => {
  it('lets the others of its connection pass, and keeps its own order', async () => {
    const { large, small, heard } = await ask((socket) =>
      socket.write(Buffer.concat([data(1, LARGE), token(1, 5), token(3, 6), end(1), data(3, { text: 'x' }), end(3)])),
    );
    await large.closed();
    expect(heard).toEqual(['small output', 'small end', 'large output', 'large end']);
    expect(kinds(large.events)).toEqual(['accepted', 'output', 'tokens', 'end']);
    expect(large.events[1]).toEqual({ kind: 'output', output: LARGE });
    expect(small.ids).toEqual([6]);
  });

  it('is read in many turns of the event loop', async () => {
    const { large, small } = await ask((socket) => socket.write(Buffer.concat([token(3, 1), data(1, LARGE), end(1)])));
    while (small.tokenCount === 0) await new Promise((resolve) => setImmediate(resolve));
    let turns = 0;
    const count = (): void => {
      turns++;
      if (!large.isClosed) setImmediate(count);
    };
    count();
    await large.closed();
    expect(turns).toBeGreaterThan(NUMBERS.length / 20_000);
  });

  it('is whole when its connection ends behind it', async () => {
    const { large, small } = await ask((socket) => socket.end(Buffer.concat([data(1, LARGE), end(1)])));
    expect((await small.failed()).worker).toBe('Disconnected');
    expect((await large.closed()).kind).toBe('end');
  });

  it('fails behind what came when its connection ends in the middle', async () => {
    const { large } = await ask((socket) => socket.end(Buffer.concat([data(1, LARGE), token(1, 5)])));
    expect((await large.failed()).worker).toBe('Disconnected');
    expect(kinds(large.events)).toEqual(['accepted', 'output', 'tokens', 'fail']);
  });

  it('is silent once it is killed', async () => {
    const { large, small, killLarge } = await ask((socket) =>
      socket.write(Buffer.concat([data(1, LARGE), end(1), end(3)])),
    );
    await small.closed();
    killLarge();
    const again = await ask((socket) => socket.write(Buffer.concat([data(1, LARGE), end(1)])));
    await again.large.closed(); // what was killed had its turn before
    expect(large.events).toEqual([]);
  });

  it('ends its connection when it cannot be read', async () => {
    const broken = Buffer.concat([record({ data: LARGE }), Buffer.of(0xc1)]);
    const { large, small } = await ask((socket) => socket.write(frameBytes(FrameType.data, 1, broken)));
    expect((await large.failed()).worker).toBe('BackendProtocol');
    expect((await small.failed()).worker).toBe('BackendProtocol');
  });

  it('comes whole where it sends more short frames than a turn has room for', async () => {
    const short = { engine_data: { prompt_logprobs: NUMBERS.slice(0, 3000) } }; // 27 kB
    const { large, heard } = await ask((socket) =>
      socket.write(
        Buffer.concat([...Array.from({ length: 40 }, () => data(1, short)), end(1), data(3, { text: 'x' }), end(3)]),
      ),
    );
    expect((await large.closed()).kind).toBe('end');
    expect(heard.filter((each) => each === 'large output')).toHaveLength(40);
    expect(heard).toContain('small end');
  });

  it('loses itself alone when more waits behind it than there is room for', async () => {
    const frames = Array.from({ length: 40 }, () =>
      data(1, { engine_data: { prompt_logprobs: NUMBERS.slice(0, 10_000) } }),
    );
    const { large, small } = await ask((socket) => socket.write(Buffer.concat([...frames, end(1), end(3)])), {
      frameBytesMax: 200_000,
    });
    expect((await large.failed()).worker).toBe('BackendProtocol');
    expect((await small.closed()).kind).toBe('end');
  });
});
