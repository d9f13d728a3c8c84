import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { startHttpServer } from '../../../../../shared/frontends/node/server.ts';
import { encodeRecord } from '../../../../../shared/planes/record-codec.ts';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { createTcpRequestPlane } from '../../../../../shared/planes/request/tcp/plane.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { createTestApp } from '../../../../support/http-app.ts';
import { waitUntil } from '../../../../support/index.ts';
import { LIVE, RawClient } from '../../../frontends/node/raw-client.ts';
import { frameBytes, HELLO_ACK } from './raw-peer.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Log probabilities of a token take about so much. */
const OUTPUT_BYTES = 700;
const OUTPUTS = 12_000;
const TEXT = 'x'.repeat(OUTPUT_BYTES);
const OUTPUT = frameBytes(FrameType.data, 1, encodeRecord({ data: { text: TEXT } }));
const BURST = Buffer.concat(Array.from({ length: OUTPUTS }, () => OUTPUT));
const END = frameBytes(FrameType.end, 1, encodeRecord({}));

/** Writer in another thread, so that there is always more to read. */
const WORKER = `
  const { createServer } = require('node:net');
  const { parentPort, workerData: { ack, burst, end, bursts, stage } } = require('node:worker_threads');
  const server = createServer((socket) => {
    let left = bursts;
    const reach = (at) => (Atomics.store(stage, 0, at), Atomics.notify(stage, 0));
    const send = () => {
      while (left > 0) if (left--, !socket.write(burst)) return void setImmediate(reach, 2);
      if (left === 0) socket.write(end);
      left = -1;
    };
    socket.on('error', () => {});
    socket.on('drain', send);
    socket.once('data', () => {
      socket.resume();
      reach(1);
      socket.write(ack);
      send();
    });
  }).listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

/** A worker that sends bursts of 8 MiB as fast as its one caller reads, and is ahead of it: the connection is full. */
async function flood(bursts: number): Promise<CountingSink> {
  const stage = new Int32Array(new SharedArrayBuffer(4));
  const workerData = { ack: HELLO_ACK, burst: BURST, end: END, bursts, stage };
  const worker = new Worker(WORKER, { eval: true, workerData });
  cleanups.push(() => worker.terminate());
  const [port] = (await once(worker, 'message')) as [number];
  const plane = createTcpRequestPlane({ clock: systemClock });
  cleanups.push(() => plane.close());
  const sink = new CountingSink();
  plane.call({ tcp: `127.0.0.1:${port}/2a/ns/backend/generate` }, { id: 'r', headers: {}, body: {} }, sink);
  while (Atomics.load(stage, 0) === 0) await nextTurn();
  Atomics.wait(stage, 0, 1); // reads nothing meanwhile
  return sink;
}

/** Counts what it is told, in all and in the turn that is running. */
class CountingSink extends RecordingSink {
  bytes = 0;
  bytesOfTurn = 0;

  override output(output: Parameters<RecordingSink['output']>[0]): void {
    this.bytes += String(output.text).length;
    this.bytesOfTurn += String(output.text).length;
  }
}

describe('streams that send as fast as they are read', () => {
  it('have a bounded part of each turn, and lose nothing', async () => {
    const sink = await flood(2);
    let largest = 0;
    while (!sink.isClosed) {
      await nextTurn();
      largest = Math.max(largest, sink.bytesOfTurn);
      sink.bytesOfTurn = 0;
    }
    expect((await sink.closed()).kind).toBe('end');
    expect(sink.bytes).toBe(2 * OUTPUTS * OUTPUT_BYTES);
    expect(largest).toBeLessThan(256 * 1024);
  });

  it('let connections in: many that come at once are answered before streams have gone far', async () => {
    const { app, lifecycle } = createTestApp();
    const server = await startHttpServer(app, { host: '127.0.0.1', port: 0, lifecycle });
    cleanups.push(() => server.close(0));
    const sink = await flood(1_000_000);
    await waitUntil(() => sink.bytes > 4 * BURST.length);
    const before = sink.bytes;
    const clients = Array.from({ length: 40 }, () => new RawClient(server.port));
    cleanups.push(() => clients.map(({ socket }) => socket.destroy()));
    for (const client of clients) client.send(LIVE);
    while (!clients.every(({ text }) => text.includes('Service is live'))) await nextTurn();
    expect(sink.bytes - before).toBeLessThan(BURST.length);
  });
});
