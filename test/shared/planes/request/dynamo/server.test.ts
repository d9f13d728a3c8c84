import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Packr, Unpackr } from 'msgpackr';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../../../shared/clock/index.ts';
import { workerError } from '../../../../../shared/errors/index.ts';
import type { Call, PlaneHandler, Transport } from '../../../../../shared/planes/index.ts';
import type { DynamoPlane } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { DynamoPlaneServer } from '../../../../../shared/planes/request/dynamo/server.ts';
import { UNPROVEN_MAX } from '../../../../../shared/planes/request/frames/unproven.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { twoPart } from '../../../../support/stand-in-dynamo-worker.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';
import { openCaller, servingSettings as settings } from './serving.ts';

const PATH = '2a/dynamo/backend/generate';
const packr = new Packr({ useRecords: false, variableMapSize: true });
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true });

/** A frontend as Dynamo's wire describes it, which sends bytes as a test says and keeps what the worker sends. */
class RawFrontend {
  readonly acks: string[] = [];
  /** Headers and bodies on the connections that the worker opened, in order. */
  readonly heard: (readonly [header: string, body: unknown])[] = [];
  readonly lines: Socket[] = [];
  /** Number of those connections that the worker has ended. */
  endedLines = 0;
  isClosed = false;
  readonly #home: Server;
  readonly #socket: Socket;

  private constructor(home: Server, socket: Socket) {
    this.#home = home;
    this.#socket = socket;
    cut(
      socket,
      4,
      (bytes) => 4 + bytes.readUInt32BE(0),
      (ack) => this.acks.push(ack.toString('utf8', 4)),
    );
    socket.on('error', () => {});
    socket.on('close', () => {
      this.isClosed = true;
    });
    home.on('connection', (line: Socket) => this.#hear(line));
  }

  /** @param keepsOpen whether it leaves its end of a connection open when the worker has closed its own */
  static async open(place: string, keepsOpen = false): Promise<RawFrontend> {
    const home = createServer({ allowHalfOpen: keepsOpen }).listen(0, '127.0.0.1');
    const socket = connect({ host: '127.0.0.1', port: Number(place.split(':')[1]) });
    await Promise.all([once(home, 'listening'), once(socket, 'connect')]);
    return new RawFrontend(home, socket);
  }

  get address(): string {
    return `127.0.0.1:${(this.#home.address() as AddressInfo).port}`;
  }

  /** Sends a request. @param body in msgpack */
  send(body: Uint8Array, { path = PATH, address = this.address, control = {} } = {}): void {
    const info = JSON.stringify({ address, subject: 's', context: 'r1', stream_type: 'response' });
    const record = {
      id: 'r1',
      payload_codec: 'msgpack',
      connection_info: { transport: 'tcp_server', info },
      ...control,
    };
    this.raw(message(path, twoPart(JSON.stringify(record), body)));
  }

  raw(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  close(): void {
    for (const line of this.lines) line.destroy();
    this.#socket.destroy();
    this.#home.close();
  }

  #hear(line: Socket): void {
    this.lines.push(line);
    line.on('error', () => {});
    line.on('end', () => this.endedLines++);
    const lengthOf = (bytes: Buffer): number =>
      24 + Number(bytes.readBigUInt64BE(0)) + Number(bytes.readBigUInt64BE(8));
    cut(line, 24, lengthOf, (bytes) => {
      const bodyAt = 24 + Number(bytes.readBigUInt64BE(0));
      this.heard.push([bytes.toString('utf8', 24, bodyAt), bodyIn(bytes.subarray(bodyAt))]);
    });
  }
}

/** Reads a body in msgpack or JSON; undefined if there is none. */
function bodyIn(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  return bytes[0] === 0x7b ? JSON.parse(bytes.toString()) : unpackr.unpack(bytes);
}

function message(path: string, payload: Buffer): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(Buffer.byteLength(path));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(payload.length);
  return Buffer.concat([head, Buffer.from(path), Buffer.from([0, 2]), Buffer.from('{}'), length, payload]);
}

/** Cuts what arrives at a socket into messages. */
function cut(socket: Socket, prefix: number, lengthOf: (bytes: Buffer) => number, take: (bytes: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= prefix && rest.length >= lengthOf(rest)) {
      const end = lengthOf(rest);
      take(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
  });
}

/** Body of the first request that the frontend of Dynamo 1.6.1 sent. */
function recordedBody(): Buffer {
  const [line = ''] = readFileSync('test/fixtures/dynamo/frontend-requests-1.6.1.hex', 'utf8').split('\n');
  const bytes = Buffer.from(line, 'hex');
  const headersAt = 2 + bytes.readUInt16BE(0);
  const payloadAt = headersAt + 2 + bytes.readUInt16BE(headersAt) + 4;
  return bytes.subarray(payloadAt + 24 + Number(bytes.readBigUInt64BE(payloadAt)));
}

describe("a worker for Dynamo's frontends", () => {
  let server: DynamoPlaneServer;
  let caller: DynamoPlane;

  async function listen(clock: Clock = systemClock): Promise<void> {
    server = await DynamoPlaneServer.listen(settings({ clock }));
  }
  beforeEach(async () => {
    await listen();
    caller = openCaller();
  });
  afterEach(async () => {
    await caller.close();
    await server.close();
  });

  function ask(
    handler: PlaneHandler,
    transport: Transport = server.handle(PATH, handler),
  ): { sink: RecordingSink; call: Call } {
    const sink = new RecordingSink();
    const request = { id: 'r1', headers: { traceparent: '00-1-2-01' }, body: { model: 'm' } };
    const call = caller.call(transport, { ...request, tokenIds: Uint32Array.of(1, 300_000) }, sink);
    return { sink, call };
  }

  async function hold() {
    const held = new HeldCalls();
    const asked = ask(held.handler);
    return { ...asked, incoming: await held.at(0) };
  }

  describe('with a request', () => {
    it('hands it to the engine as one of its own', async () => {
      const { incoming } = await hold();
      expect(incoming).toMatchObject({
        id: 'r1',
        endpoint: PATH,
        headers: { traceparent: '00-1-2-01' },
        body: { model: 'm' },
        tokenIds: Uint32Array.of(1, 300_000),
        deadlineMs: undefined,
        hearsMoves: false,
      });
      incoming.end();
    });

    it('answers in order, whatever mixes, also before its connection is open', async () => {
      const { sink } = ask((call) => {
        call.tokens(0, [1, 2, 3], 1, 2);
        call.tokens(1, [7], 0, 1);
        call.output({ token_ids: [4], index: 0, log_probs: [-1] });
        call.output({ token_ids: [], index: 0, finish_reason: 'stop' });
        call.end();
      });
      await sink.closed();
      expect(sink.events).toEqual([
        { kind: 'accepted' },
        { kind: 'tokens', choice: 0, ids: [2, 3] },
        { kind: 'tokens', choice: 1, ids: [7] },
        { kind: 'output', output: { token_ids: [4], index: 0, log_probs: [-1] } },
        { kind: 'output', output: { token_ids: [], index: 0, finish_reason: 'stop' } },
        { kind: 'end' },
      ]);
    });

    it('fails it before the stream, or after what it made', async () => {
      const early = ask(() => {
        throw workerError('InvalidArgument', 'the prompt is too long');
      });
      const error = await early.sink.failed();
      expect([error.worker, error.message]).toEqual(['InvalidArgument', 'the prompt is too long']);
      const late = ask((call) => {
        call.tokens(0, [1], 0, 1);
        call.fail(workerError('EngineShutdown', 'gone'));
      });
      expect((await late.sink.failed()).worker).toBe('EngineShutdown');
      expect(late.sink.ids).toEqual([1]);
    });

    it('refuses it before it takes it if it is full, does not serve the endpoint, or drains', async () => {
      const full = ask((call) => call.fail(workerError('WorkerOverloaded', 'Server overloaded: worker at capacity')));
      expect((await full.sink.failed()).worker).toBe('WorkerOverloaded');
      server.unhandle(PATH);
      const transport = { dynamo_tcp: `${server.place}/${PATH}`, dynamo_codec: 'msgpack' };
      expect((await ask(() => {}, transport).sink.failed()).worker).toBe('WorkerUnavailable');
      server.drain();
      expect((await ask((call) => call.end()).sink.failed()).worker).toBe('WorkerUnavailable');
      expect(server.activeStreams).toBe(0);
    });

    it('lets streams end while it drains', async () => {
      const { sink, incoming } = await hold();
      server.drain();
      incoming.tokens(0, [5], 0, 1);
      incoming.end();
      expect((await sink.closed()).kind).toBe('end');
      expect(sink.ids).toEqual([5]);
      await waitUntil(() => server.activeStreams === 0, { what: 'the last stream to be over' });
    });
  });

  describe('with a caller', () => {
    it('that kills stops the engine', async () => {
      const { call, incoming } = await hold();
      incoming.accept();
      call.kill();
      await once(incoming.signal, 'abort');
      expect(incoming.signal.reason).toMatchObject({ worker: 'Cancelled' });
      await waitUntil(() => server.activeStreams === 0, { what: 'the stream to be over' });
    });

    it('that asks to stop may get what is left', async () => {
      const { sink, call, incoming } = await hold();
      incoming.tokens(0, [1], 0, 1);
      await waitUntil(() => sink.tokenCount === 1, { what: 'the first token' });
      call.stop();
      await once(incoming.stopped, 'abort');
      expect(incoming.signal.aborted).toBe(false);
      incoming.tokens(0, [2], 0, 1);
      incoming.end();
      await sink.closed();
      expect(sink.ids).toEqual([1, 2]);
    });

    it('that reads slowly holds up the engine, and loses nothing', async () => {
      const { sink, call, incoming } = await hold();
      incoming.accept();
      await waitUntil(() => !incoming.isBlocked(), { what: 'an open stream' });
      call.pause();
      let sent = 0;
      const text = 'x'.repeat(30_000);
      while (!incoming.isBlocked()) incoming.output({ token_ids: [sent++], text });
      let isUnblocked = false;
      incoming.onUnblocked(() => {
        isUnblocked = true;
      });
      expect(isUnblocked).toBe(false);
      call.resume();
      await waitUntil(() => isUnblocked, { what: 'room' });
      incoming.end();
      await sink.closed();
      expect(sink.events.filter(({ kind }) => kind === 'output')).toHaveLength(sent);
    });

    it('that reads nothing ends a stream whose engine does not wait, at the bound of what a worker keeps', async () => {
      const { call, incoming } = await hold();
      incoming.accept();
      await waitUntil(() => !incoming.isBlocked(), { what: 'an open stream' });
      call.pause();
      const text = 'x'.repeat(30_000);
      for (let sent = 0; sent < 5000 && !incoming.isStopped; sent++) incoming.output({ token_ids: [1], text });
      expect(incoming.signal.reason).toMatchObject({ worker: 'ResourceExhausted' });
    });

    it('that is gone stops the engines of all its streams', async () => {
      const held = new HeldCalls();
      const transport = server.handle(PATH, held.handler);
      for (let at = 0; at < 3; at++) ask(held.handler, transport);
      await held.at(2);
      for (const call of held.calls) call.accept();
      const aborted = held.calls.map((call) => once(call.signal, 'abort'));
      await caller.close();
      await Promise.all(aborted);
    });
  });

  describe('on the wire', () => {
    let frontend: RawFrontend;
    beforeEach(async () => {
      frontend = await RawFrontend.open(server.place);
    });
    afterEach(() => frontend.close());

    it('answers the request of a real frontend as a worker of Dynamo does', async () => {
      server.handle(PATH, (call) => {
        call.tokens(0, [42], 0, 1);
        call.output({
          token_ids: [],
          finish_reason: 'length',
          completion_usage: { prompt_tokens: 9, completion_tokens: 1 },
        });
        call.end();
      });
      frontend.send(recordedBody());
      await waitUntil(() => frontend.heard.at(-1)?.[0] === '"sentinel"', { what: 'the end of the answer' });
      expect(frontend.acks).toEqual(['']);
      const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
      expect(frontend.heard).toEqual([
        ['{"subject":"s","stream_type":"response"}', undefined],
        ['{"error":null}', undefined],
        ['', { data: { data: { token_ids: [42], index: 0 } }, complete_final: false }],
        [
          '',
          {
            data: { data: { token_ids: [], finish_reason: 'length', completion_usage: usage } },
            complete_final: false,
          },
        ],
        ['', { complete_final: true }],
        ['"sentinel"', undefined],
      ]);
    });

    it('hears a kill on a connection that stays open', async () => {
      const held = new HeldCalls();
      server.handle(PATH, held.handler);
      frontend.send(recordedBody());
      const call = await held.at(0);
      call.accept();
      const line = await waitUntil(() => frontend.lines[0], { what: 'the connection of the worker' });
      const aborted = once(call.signal, 'abort');
      line.write(twoPart('"kill"'));
      await aborted;
      expect(frontend.heard.map(([header]) => header)).not.toContain('"sentinel"');
    });

    it('answers a query for lost events with the bare item that routers read', async () => {
      const path = '2a/dynamo/backend/worker_kv_query_source_7';
      server.handle(path, (call) => {
        expect(call.body).toEqual({ worker_id: 42, start_event_id: null });
        call.output({ body: { TreeDump: { events: [], last_event_id: 0 } } });
        call.end();
      });
      frontend.send(packr.pack({ worker_id: 42, start_event_id: null }), { path });
      await waitUntil(() => frontend.heard.at(-1)?.[0] === '"sentinel"', { what: 'the end of the answer' });
      expect(frontend.heard[2]?.[1]).toEqual({
        data: { TreeDump: { events: [], last_event_id: 0 } },
        complete_final: false,
      });
    });

    it('acknowledges requests in their order, in any pieces of bytes', async () => {
      server.handle(PATH, (call) => call.end());
      const info = JSON.stringify({ address: frontend.address, subject: 's' });
      const control = JSON.stringify({
        id: 'r',
        payload_codec: 'json',
        connection_info: { transport: 'tcp_server', info },
      });
      const payload = twoPart(control, Buffer.from('{"token_ids":[1]}'));
      const bytes = Buffer.concat([message(PATH, payload), message('other', payload), message(PATH, payload)]);
      for (const byte of bytes) frontend.raw(Uint8Array.of(byte));
      await waitUntil(() => frontend.acks.length === 3, { what: 'three acknowledgements' });
      expect(frontend.acks).toEqual(['', 'Server unavailable: unknown endpoint other', '']);
    });

    it('fails a request whose fields are wrong, and serves the next one', async () => {
      server.handle(PATH, (call) => call.end());
      frontend.send(Buffer.from([0x81, 0xa9, ...Buffer.from('token_ids'), 0xa1, 0x78])); // { token_ids: 'x' }
      frontend.send(recordedBody());
      await waitUntil(() => frontend.heard.length >= 5, { what: 'both answers' });
      const prologues = frontend.heard.map(([header]) => header).filter((header) => header.startsWith('{"error"'));
      expect(prologues.map((text) => JSON.parse(text)).find(({ error }) => error !== null)).toMatchObject({
        error: 'token_ids has the wrong type',
        typed_error: { error_type: 'InvalidArgument' },
      });
      expect(prologues).toContain('{"error":null}');
    });

    it.each([
      ['a request beyond the limit', Buffer.from('0001780002' + '7b7d' + 'ffffffff', 'hex')],
      ['headers that are not JSON', Buffer.from('0001780002' + '7b7b' + '00000000', 'hex')],
      ['a payload that is not two parts', message(PATH, Buffer.from('short'))],
      ['a control record without an id', message(PATH, twoPart('{}'))],
      [
        'an answer that cannot be delivered',
        message(PATH, twoPart('{"id":"r","connection_info":{"transport":"quic"}}')),
      ],
    ])('closes a connection with %s, and no other', async (_, bytes) => {
      server.handle(PATH, (call) => call.end());
      frontend.raw(bytes);
      await waitUntil(() => frontend.isClosed, { what: 'the connection to be closed' });
      expect((await ask((call) => call.end()).sink.closed()).kind).toBe('end');
    });

    it('closes the oldest of too many connections without a request, and counts it', async () => {
      let errors = 0;
      const observer = { ...silentObserver, connectionError: () => void errors++ };
      await server.close();
      server = await DynamoPlaneServer.listen(settings({ observer }));
      server.handle(PATH, (call) => call.end());
      const busy = await RawFrontend.open(server.place);
      busy.send(recordedBody());
      await waitUntil(() => busy.acks.length === 1, { what: 'an acknowledgement' });
      const silent: RawFrontend[] = [];
      for (let count = 0; count <= UNPROVEN_MAX; count++) silent.push(await RawFrontend.open(server.place));
      await waitUntil(() => silent[0]?.isClosed, { what: 'the oldest silent connection to be closed' });
      expect([busy, ...silent].filter(({ isClosed }) => isClosed)).toHaveLength(1);
      expect(errors).toBe(1);
      for (const each of [busy, ...silent]) each.close();
    });

    it('stops the engine if the caller cannot be dialled', async () => {
      const held = new HeldCalls();
      server.handle(PATH, held.handler);
      frontend.send(recordedBody(), { address: '127.0.0.1:1' });
      const call = await held.at(0);
      await waitUntil(() => call.isStopped, { what: 'the engine to be stopped' });
      expect(frontend.acks).toEqual(['']);
      await waitUntil(() => server.activeStreams === 0, { what: 'the stream to be over' });
    });

    it('gives up a caller that does not close after the end', async () => {
      await server.close();
      const clock = new VirtualClock();
      await listen(clock);
      const other = await RawFrontend.open(server.place, true);
      server.handle(PATH, (call) => call.end());
      other.send(recordedBody());
      await waitUntil(() => other.endedLines === 1, { what: 'the end of the answer' });
      expect([other.heard.at(-1)?.[0], server.activeStreams]).toEqual(['"sentinel"', 1]);
      const isOver = async (): Promise<boolean> => {
        await clock.advance(5000);
        return server.activeStreams === 0;
      };
      await waitUntil(isOver, { what: 'the stream to be over' });
      expect(clock.nowMs()).toBeLessThan(600_000); // the caller has read everything
      other.close();
    });
  });

  it('does not listen for other machines unless callers prove who they are, or the operator allows it', async () => {
    await expect(DynamoPlaneServer.listen(settings({ host: '0.0.0.0' }))).rejects.toThrow(/STATOR_PLANE_OPEN=on/);
    const open = await DynamoPlaneServer.listen(settings({ host: '0.0.0.0', open: true }));
    await open.close();
  });
});
