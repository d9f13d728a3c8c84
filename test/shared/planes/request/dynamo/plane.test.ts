import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import type { Call, Transport } from '../../../../../shared/planes/index.ts';
import { DynamoPlane, type DynamoPlaneOptions } from '../../../../../shared/planes/request/dynamo/plane.ts';
import { silentObserver } from '../../../../../shared/planes/request/observer.ts';
import { RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';
import { dialHome, StandInDynamoWorker, twoPart } from '../../../../support/stand-in-dynamo-worker.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const MESSAGE_BYTES_MAX = 1 << 20;

function planeOptions(more: Partial<DynamoPlaneOptions> = {}): DynamoPlaneOptions {
  return {
    clock: systemClock,
    observer: silentObserver,
    home: { host: '127.0.0.1', port: 0, handshakeTimeoutMs: 3000, messageBytesMax: MESSAGE_BYTES_MAX },
    requests: {
      connectTimeoutMs: 5000,
      requestTimeoutMs: 5000,
      poolSizeMax: 2,
      requestsPerConnectionMax: 3,
      idleAfterMs: 300_000,
    },
    openNats: () => {
      throw new Error('no NATS here');
    },
    natsTimeoutMs: 5000,
    ...more,
  };
}

describe("Dynamo's request plane", () => {
  let plane: DynamoPlane;
  let worker: StandInDynamoWorker;
  let clock: VirtualClock;

  beforeEach(async () => {
    clock = new VirtualClock();
    plane = new DynamoPlane(planeOptions({ clock }));
    worker = await StandInDynamoWorker.start();
  });
  afterEach(async () => {
    await plane.close();
    await worker.close();
  });

  function ask(sink: RecordingSink, id = 'r1', transport: Transport = worker.transport): Call {
    const request = { id, headers: { traceparent: '00-1-2-01', secret: 's' }, body: { model: 'm' } };
    return plane.call(transport, { ...request, tokenIds: Uint32Array.of(1, 2, 300_000) }, sink);
  }

  /** Asks, and has the worker dial. */
  async function open(id?: string) {
    const sink = new RecordingSink();
    const number = worker.requests.length;
    const call = ask(sink, id);
    const line = await (await worker.request(number)).dial();
    return { sink, call, line };
  }

  async function failureOf(sink: RecordingSink): Promise<string | undefined> {
    return (await waitUntil(() => sink.failure, { what: 'a failure' })).worker;
  }

  describe('a request', () => {
    it.each(['json', 'msgpack'] as const)('reaches a worker that speaks %s as its wire says', async (codec) => {
      const other = await StandInDynamoWorker.start({ codec });
      ask(new RecordingSink(), 'r1', other.transport);
      const { path, headers, control, body, home } = await other.request();
      expect(path).toBe('2a/dynamo/backend/generate');
      expect(headers).toEqual({ 'request-id': 'r1', traceparent: '00-1-2-01' });
      expect(control).toMatchObject({
        id: 'r1',
        request_type: 'single_in',
        response_type: 'many_out',
        payload_codec: codec,
        connection_info: { transport: 'tcp_server' },
      });
      expect(body).toMatchObject({ model: 'm', token_ids: [1, 2, 300_000] });
      expect(home).toEqual({
        address: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
        subject: expect.stringMatching(/^[0-9a-f-]{36}$/),
        context: 'r1',
        stream_type: 'response',
      });
      await other.close();
    });

    it.each([
      ['Server overloaded: worker at capacity', 'WorkerOverloaded'],
      ['Server unavailable: unknown endpoint', 'WorkerUnavailable'],
      ['Unknown endpoint: generate', 'WorkerUnavailable'],
      ['Request too large', 'PayloadTooLarge'],
      ['something else', 'BackendProtocol'],
    ])('that is refused with "%s" fails as %s', async (reason, kind) => {
      worker.onRequest = (request) => request.ack(reason);
      const sink = new RecordingSink();
      ask(sink);
      expect(await failureOf(sink)).toBe(kind);
    });

    it('that is not acknowledged in time fails, with all others of its connection', async () => {
      worker.onRequest = () => {};
      const sinks = [new RecordingSink(), new RecordingSink()];
      for (const [at, sink] of sinks.entries()) ask(sink, `r${at}`);
      await worker.request(1);
      await clock.advance(4999);
      expect(sinks.map(({ failure }) => failure)).toEqual([undefined, undefined]);
      await clock.advance(1);
      expect(sinks.map(({ failure }) => failure?.worker)).toEqual(['ConnectionTimeout', 'ConnectionTimeout']);
      await waitUntil(() => worker.sockets.size === 0);
    });

    it('fails if nothing listens at the address, and if it is not an address', async () => {
      const gone = await StandInDynamoWorker.start();
      const { transport } = gone;
      await gone.close();
      for (const nowhere of [transport, { dynamo_tcp: 'x' }, { dynamo_tcp: 'a:1/p', dynamo_codec: 'xml' }]) {
        const sink = new RecordingSink();
        ask(sink, 'r1', nowhere);
        expect(sink.failure).toBeUndefined();
        expect(await failureOf(sink)).toBe('CannotConnect');
      }
    });

    it('fails if its worker dies before the acknowledgement', async () => {
      worker.onRequest = () => {
        for (const socket of worker.sockets) socket.destroy();
      };
      const sink = new RecordingSink();
      ask(sink);
      expect(await failureOf(sink)).toBe('Disconnected');
    });

    it('shares a connection, and takes another one when the first is full', async () => {
      worker.onRequest = () => {};
      const sinks = Array.from({ length: 7 }, () => new RecordingSink());
      for (const [at, sink] of sinks.entries()) ask(sink, `r${at}`);
      expect(await failureOf(sinks[6] as RecordingSink)).toBe('WorkerOverloaded');
      await worker.request(5);
      expect(worker.sockets.size).toBe(2);
    });

    it('gets the acknowledgement of its own, in the order of the requests', async () => {
      worker.onRequest = () => {};
      const sinks = [new RecordingSink(), new RecordingSink(), new RecordingSink()];
      for (const [at, sink] of sinks.entries()) ask(sink, `r${at}`);
      await worker.request(2);
      for (const [at, request] of worker.requests.entries()) request.ack(at === 0 ? 'Server overloaded: no' : '');
      expect(await failureOf(sinks[0] as RecordingSink)).toBe('WorkerOverloaded');
      expect([sinks[1]?.failure, sinks[2]?.failure]).toEqual([undefined, undefined]);
    });

    it('that nothing dials for fails after half a minute', async () => {
      const sink = new RecordingSink();
      ask(sink);
      await worker.request();
      await waitUntil(async () => {
        await clock.advance(10_000);
        return sink.failure?.worker === 'ConnectionTimeout' && clock.nowMs() >= 30_000;
      });
    });

    it('ends at its deadline, which the worker learns', async () => {
      const sink = new RecordingSink();
      plane.call(worker.transport, { id: 'r1', headers: {}, body: {}, deadlineMs: 1000 }, sink);
      const line = await (await worker.request()).dial();
      line.prologue();
      await waitUntil(() => sink.events.length === 1);
      await clock.advance(1000);
      expect(sink.failure?.worker).toBe('DeadlineExceeded');
      await waitUntil(() => line.controls.includes('"kill"'));
    });
  });

  describe('an answer', () => {
    it('arrives in order, once accepted, and ends with the mark of its end', async () => {
      const { sink, line } = await open();
      line.prologue();
      line.tokens(5, 6);
      line.tokens(7);
      line.item({ data: { token_ids: [8], finish_reason: 'stop', index: 0 } });
      line.end();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      expect(sink.events).toEqual([
        { kind: 'accepted' },
        { kind: 'tokens', choice: 0, ids: [5, 6, 7] },
        { kind: 'output', output: { token_ids: [8], finish_reason: 'stop', index: 0 } },
        { kind: 'end' },
      ]);
      await waitUntil(() => line.isClosed);
      expect(line.controls).toEqual([]);
    });

    it('arrives although every byte comes alone', async () => {
      const { sink, line } = await open();
      const bytes = Buffer.concat([
        twoPart('{"error":null}'),
        line.itemBytes({ data: { token_ids: [1, 2, 3] } }),
        line.itemBytes(undefined, true),
      ]);
      for (const byte of bytes) line.raw(Buffer.of(byte));
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      expect(sink.ids).toEqual([1, 2, 3]);
    });

    it('keeps its order around an item that is decoded in slices', async () => {
      const { sink, line } = await open();
      const many = Array.from({ length: 40_000 }, (_, at) => at);
      line.prologue();
      line.tokens(1);
      line.item({ data: { token_ids: many } });
      line.tokens(2);
      line.end();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      const ids = sink.events.flatMap((event) => {
        if (event.kind === 'tokens') return event.ids;
        return event.kind === 'output' ? (event.output.token_ids ?? []) : [];
      });
      expect(ids).toEqual([1, ...many, 2]);
    });

    it('whose prologue has an error fails with it', async () => {
      const { sink, line } = await open();
      line.prologue('engine is not there');
      expect(await failureOf(sink)).toBe('Unknown');
      expect(sink.events).toHaveLength(1);
    });

    it('whose item is an error fails with it, and the worker drops the request', async () => {
      const { sink, line } = await open();
      line.prologue();
      line.tokens(1);
      line.item({ event: 'error', comment: ['no memory'] });
      expect(await failureOf(sink)).toBe('Unknown');
      await waitUntil(() => line.controls.includes('"kill"'));
    });

    it.each([
      ['is closed', (line: { socket: { end(): void } }) => line.socket.end()],
      ['is reset', (line: { socket: { resetAndDestroy(): void } }) => line.socket.resetAndDestroy()],
      ['ends with a sentinel only', (line: { header(value: unknown): void }) => line.header('sentinel')],
    ])('that %s before the mark of its end has failed', async (_, leave) => {
      const { sink, line } = await open();
      line.prologue();
      line.tokens(1);
      await waitUntil(() => sink.tokenCount === 1);
      leave(line as never);
      expect(await failureOf(sink)).toBe('Disconnected');
      expect(sink.ids).toEqual([1]);
    });

    it.each([
      ['a message above the limit', twoPart('', Buffer.alloc(MESSAGE_BYTES_MAX))],
      ['a length of 2^63', Buffer.concat([Buffer.alloc(8), Buffer.of(0x80), Buffer.alloc(15)])],
      ['bytes that are no item', twoPart('', Buffer.from([0xc1]))],
      ['an item that is a number', twoPart('', Buffer.from([0x05]))],
      ['an item without data', twoPart('', Buffer.from([0x80]))],
      ['a header of another kind', twoPart('"kill"')],
    ])('with %s ends only its own stream', async (_, bytes) => {
      const bad = await open('r1');
      const good = await open('r2');
      for (const { line } of [bad, good]) line.prologue();
      bad.line.raw(bytes);
      expect(await failureOf(bad.sink)).toBe('BackendProtocol');
      good.line.tokens(1);
      good.line.end();
      await waitUntil(() => good.sink.events.at(-1)?.kind === 'end');
      await waitUntil(() => bad.line.isClosed);
    });

    it('may come before the acknowledgement', async () => {
      worker.onRequest = () => {};
      const { sink, line } = await open();
      line.prologue();
      line.tokens(1);
      line.end();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      worker.requests[0]?.ack();
    });

    it('waits at the worker while its reader is paused', async () => {
      const { sink, call, line } = await open();
      line.prologue();
      line.tokens(0);
      await waitUntil(() => sink.tokenCount === 1);
      call.pause();
      const count = 200_000;
      for (let id = 1; id <= count; id++) line.tokens(id);
      line.end();
      await waitUntil(() => line.socket.writableLength > 0, { what: 'the worker to wait' });
      expect(sink.tokenCount).toBe(1);
      call.resume();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end', { timeoutMs: 20_000 });
      expect(sink.ids).toEqual(Array.from({ length: count + 1 }, (_, id) => id));
    });
  });

  describe('a cancel', () => {
    it('by kill reaches the worker, and silences the sink', async () => {
      const { sink, call, line } = await open();
      line.prologue();
      line.tokens(1);
      await waitUntil(() => sink.tokenCount === 1);
      call.kill();
      line.tokens(2);
      await waitUntil(() => line.isClosed);
      expect(line.controls).toEqual(['"kill"']);
      expect(sink.events).toHaveLength(2);
    });

    it('before the worker dials is answered to its dial', async () => {
      const sink = new RecordingSink();
      const call = ask(sink);
      const request = await worker.request();
      call.kill();
      const line = await request.dial();
      await waitUntil(() => line.isClosed);
      expect(line.controls).toEqual(['"kill"']);
      expect(sink.events).toEqual([]);
    });

    it('right after calling sends nothing', async () => {
      const first = new RecordingSink();
      ask(first).kill();
      ask(new RecordingSink(), 'r2');
      await worker.request();
      expect(worker.requests.map(({ control }) => control.id)).toEqual(['r2']);
    });

    it('by stop reaches the worker, whose end then needs no mark', async () => {
      const { sink, call, line } = await open();
      line.prologue();
      line.tokens(1);
      await waitUntil(() => sink.tokenCount === 1);
      call.stop();
      await waitUntil(() => line.controls.includes('"stop"'));
      line.tokens(2);
      line.socket.end();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      expect(sink.ids).toEqual([1, 2]);
    });

    it('by stop ends although the worker sends nothing more', async () => {
      const { sink, call, line } = await open();
      line.prologue();
      await waitUntil(() => sink.events.length === 1);
      call.stop();
      await waitUntil(() => line.controls.includes('"stop"'));
      await clock.advance(2000);
      expect(sink.events.at(-1)?.kind).toBe('end');
    });
  });

  describe('the listener for answers', () => {
    async function address(): Promise<{ address: string; subject: string; sink: RecordingSink }> {
      const sink = new RecordingSink();
      ask(sink);
      return { ...(await worker.request()).home, sink };
    }

    it.each([
      [
        'a subject that it does not know',
        '{"subject":"9e1b4a3e-0000-4000-8000-000000000000","stream_type":"response"}',
      ],
      ['a stream of requests', '{"subject":"SUBJECT","stream_type":"request"}'],
      ['no subject', '{}'],
      ['no JSON', 'hello'],
      ['an endless name', `"${'x'.repeat(5000)}"`],
    ])('refuses a connection that names %s', async (_, text) => {
      const home = await address();
      const line = await dialHome(home.address);
      line.raw(twoPart(text.replace('SUBJECT', home.subject)));
      await waitUntil(() => line.isClosed);
      expect(home.sink.events).toEqual([]);
    });

    it('gives a stream to the first that names it', async () => {
      const { sink, line } = await open();
      const second = await worker.requests[0]?.dial();
      await waitUntil(() => second?.isClosed === true);
      expect(second?.controls).toEqual(['"kill"']);
      line.prologue();
      line.end();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
    });

    it('closes a connection that says nothing for ten seconds', async () => {
      const line = await dialHome((await address()).address);
      await waitUntil(async () => {
        await clock.advance(5000);
        return line.isClosed;
      });
    });

    it('closes the oldest of more than a thousand connections that say nothing', async () => {
      const { address: at } = await address();
      const oldest = await dialHome(at);
      const lines = [];
      for (let count = 0; count < 1024; count++) lines.push(await dialHome(at));
      await waitUntil(() => oldest.isClosed);
      expect(lines.some((line) => line.isClosed)).toBe(false);
      for (const line of lines) line.socket.destroy();
    });
  });

  it('fails open and later calls when it closes', async () => {
    const { sink, line } = await open();
    line.prologue();
    const waiting = new RecordingSink();
    ask(waiting, 'r2');
    await worker.request(1);
    await plane.close();
    expect(await failureOf(sink)).toBe('Disconnected');
    const late = new RecordingSink();
    ask(late, 'r3');
    expect(await failureOf(late)).toBe('CannotConnect');
    expect(await failureOf(waiting)).toBe('Disconnected');
  });

  it.each(['json', 'msgpack'] as const)(
    'passes bodies and items of other endpoints on exactly in %s',
    async (codec) => {
      const other = await StandInDynamoWorker.start({ codec });
      const sink = new RecordingSink();
      plane.call(other.transport, { id: 'q', headers: {}, body: { ask: [1, 2] }, isVerbatim: true }, sink);
      const request = await other.request();
      expect(request.body).toEqual({ ask: [1, 2] });
      const line = await request.dial();
      line.prologue();
      const json = '{"data":{"data":{"hash":18446744073709551615}},"complete_final":false}';
      if (codec === 'json') line.raw(twoPart('', Buffer.from(json)));
      else line.item({ data: { hash: 2n ** 64n - 1n } });
      line.end();
      await waitUntil(() => sink.events.at(-1)?.kind === 'end');
      expect(sink.events[1]).toEqual({ kind: 'output', output: { body: { hash: 2n ** 64n - 1n } } });
      await other.close();
    },
  );
});
