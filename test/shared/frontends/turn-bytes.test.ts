import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import { hasTurnRoom } from '../../../shared/concurrency/index.ts';
import { framed, type GrpcCall, openGrpcServer } from '../../../shared/grpc/index.ts';
import { openFrame, RawHttp2 } from '../../support/grpc/raw-http2.ts';
import type { ScriptedCall } from '../../support/scripted-pipeline.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { postText, RawClient } from './node/raw-client.ts';
import { CREATE, closeServers, openServer, SocketClient } from './node/socket-bed.ts';

const PIECE = 'x'.repeat(64 * 1024);
/** More than a turn has room for. */
const PIECES = 80;
/** Turns in which a connection comes in; far fewer are needed. */
const TURNS = 2000;
const STREAMS_AT_ONCE = 10;
/** Connections that come in together. */
const ARRIVALS = 30;
/** Half of what streams would write if each connection that is let in cost a whole turn of theirs. */
const PIECES_UNPACED = (ARRIVALS * 64) / 2;
const cleanups: (() => unknown)[] = [];

beforeEach(async () => {
  while (!hasTurnRoom()) await nextTurn();
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  await closeServers();
});

async function openGrpc(serve: (call: GrpcCall) => void): Promise<number> {
  const methods = [{ path: '/t.T/Pour', serve: (call: GrpcCall) => void serve(call) }];
  const { port, close } = await openGrpcServer({
    ...{ host: '127.0.0.1', port: 0, clock: systemClock, random: seededRandom(1), methods },
  });
  cleanups.push(() => close(0));
  return port;
}

/** What writes a stream over each transport: a function that writes a piece, once the stream is there. */
const STREAMS: Readonly<Record<string, () => Promise<() => void>>> = {
  'events of HTTP': async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const client = new RawClient(server.port);
    client.send(postText('/v1/responses', { model: 'm', input: 'hi', stream: true }));
    cleanups.push(() => client.socket.destroy());
    return writerOf(await pipeline.call(0));
  },
  'events of a WebSocket': async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const client = await new SocketClient(server.port).opened();
    client.send(CREATE);
    cleanups.push(() => client.socket.terminate());
    return writerOf(await pipeline.call(0));
  },
  'messages of gRPC': async () => {
    let called: GrpcCall | undefined;
    const port = await openGrpc((call) => {
      called = call;
    });
    const raw = await RawHttp2.open(port);
    cleanups.push(() => raw.close());
    raw.write(openFrame(1, '/t.T/Pour'));
    const call = await waitUntil(() => called);
    return () => call.write(framed(Buffer.from(PIECE)));
  },
};

function writerOf({ sink }: ScriptedCall): () => void {
  return () => sink.text(0, PIECE, 1);
}

describe('what a stream writes in a turn', () => {
  it.each(Object.entries(STREAMS))('takes of the room that all streams have in it: %s', async (_, open) => {
    const write = await open();
    while (!hasTurnRoom()) await nextTurn();
    let pieces = 0;
    for (; hasTurnRoom() && pieces < PIECES; pieces++) write();
    expect(pieces).toBeLessThan(PIECES);
  });
});

const LISTENERS: Readonly<Record<string, () => Promise<number>>> = {
  HTTP: async () => (await openServer()).server.port,
  gRPC: () => openGrpc(() => {}),
};

describe('a connection that comes in', () => {
  it.each(Object.entries(LISTENERS))('has a turn in which streams do nothing: %s', async (_, open) => {
    const port = await open();
    while (!hasTurnRoom()) await nextTurn();
    const socket: Socket = connect(port, '127.0.0.1');
    cleanups.push(() => socket.destroy());
    let turns = 0;
    while (hasTurnRoom() && turns++ < TURNS) await nextTurn();
    expect(turns).toBeLessThan(TURNS);
  });

  it('waits for little of what streams with more than enough to write do meanwhile', async () => {
    const { server, pipeline } = await openServer({ play: () => {} });
    const clients = Array.from({ length: STREAMS_AT_ONCE }, () => new RawClient(server.port));
    for (const client of clients) {
      client.send(postText('/v1/responses', { model: 'm', input: 'hi', stream: true }));
      cleanups.push(() => client.socket.destroy());
    }
    const writers = await Promise.all(clients.map(async (_, at) => writerOf(await pipeline.call(at))));
    while (!hasTurnRoom()) await nextTurn();
    const arrivals = Array.from({ length: ARRIVALS }, () => {
      const socket = connect(server.port, '127.0.0.1', () => socket.write('GET /live HTTP/1.1\r\nhost: a\r\n\r\n'));
      cleanups.push(() => socket.destroy());
      return new Promise<void>((resolve) => socket.once('data', () => resolve()));
    });
    let answered = 0;
    for (const arrival of arrivals) void arrival.then(() => answered++);
    let pieces = 0;
    for (let turn = 0; answered < ARRIVALS && turn < TURNS; turn++) {
      for (let at = 0; hasTurnRoom() && pieces < PIECES_UNPACED; at++, pieces++) writers[at % STREAMS_AT_ONCE]!();
      await nextTurn();
    }
    expect(answered).toBe(ARRIVALS);
    expect(pieces).toBeLessThan(PIECES_UNPACED);
  });
});
