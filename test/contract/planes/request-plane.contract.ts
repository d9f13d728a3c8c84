import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ServeError, workerError } from '../../../shared/errors/index.ts';
import type {
  Call,
  IncomingCall,
  PlaneHandler,
  PlaneRequest,
  PlaneServer,
  RequestPlane,
  Transport,
} from '../../../shared/planes/index.ts';
import { waitUntil } from '../../support/index.ts';
import { HeldCalls, RecordingSink, type SinkEvent } from './recording-sink.ts';

/** A caller and a worker as two processes would hold them. */
export interface RequestPlaneHarness {
  readonly caller: RequestPlane;
  readonly worker: RequestPlane;
  /** A caller with another token than the worker's; absent where both are one process. */
  stranger?(): RequestPlane;
  close(): Promise<void>;
}

const ENDPOINT = '2a/dynamo/backend/generate';
const PING_ENDPOINT = '2a/dynamo/backend/ping';
const CREDIT = 256;
/** Far longer than the machine may stand still in the middle of a test. */
const REQUEST_TIMEOUT_MS = 8000;

/** Tests what every `RequestPlane` does. @param start takes the time within which a request must be accepted */
export function describeRequestPlane(
  name: string,
  start: (requestTimeoutMs: number) => Promise<RequestPlaneHarness>,
): void {
  describe(`request plane: ${name}`, () => {
    let harness: RequestPlaneHarness;
    let server: PlaneServer;
    async function open(requestTimeoutMs: number): Promise<void> {
      harness = await start(requestTimeoutMs);
      server = await harness.worker.serve({ instanceId: '2a' });
      for (const endpoint of [ENDPOINT, PING_ENDPOINT]) server.handle(endpoint, (call) => call.end());
      await server.reachable(AbortSignal.timeout(REQUEST_TIMEOUT_MS));
    }
    async function close(): Promise<void> {
      await server.close();
      await harness.close();
    }
    beforeEach(() => open(REQUEST_TIMEOUT_MS));
    afterEach(close);

    function send(transport: Transport, request: Partial<PlaneRequest> = {}): { sink: RecordingSink; call: Call } {
      const sink = new RecordingSink();
      const call = harness.caller.call(transport, { id: 'r1', headers: {}, body: {}, ...request }, sink);
      return { sink, call };
    }

    function serveWith(handler: PlaneHandler): Transport {
      return server.handle(ENDPOINT, handler);
    }

    /** A request whose call is already in the test's hands. */
    async function hold(request: Partial<PlaneRequest> = {}): Promise<{
      sink: RecordingSink;
      call: Call;
      incoming: IncomingCall;
    }> {
      const held = new HeldCalls();
      const sent = send(serveWith(held.handler), request);
      return { ...sent, incoming: await held.at(0) };
    }

    describe('a caller with another token', () => {
      it('is refused as if the worker were down, and its request reaches no handler', async () => {
        const stranger = harness.stranger?.();
        if (stranger === undefined) return; // one process has no strangers
        const held = new HeldCalls();
        const transport = serveWith(held.handler);
        const sinks = [new RecordingSink(), new RecordingSink()];
        for (const sink of sinks) stranger.call(transport, { id: 'r', headers: {}, body: { prompt: 'mine' } }, sink);
        for (const sink of sinks) expect((await sink.failed()).worker).toBe('CannotConnect');
        expect(held.calls).toEqual([]);
        await stranger.close();
        send(transport);
        (await held.at(0)).end(); // others are served as before
      });
    });

    describe('a request', () => {
      it('arrives as it was sent', async () => {
        const body = {
          model: 'm',
          nested: { list: [1, -2.5, null, true, 'ä€😀'], empty: {} },
          bytes: Buffer.from([0, 1, 255]),
          wide: 0xffff_ffff_ffff_fffen,
          large: 2 ** 53,
        };
        const headers = { traceparent: '00-1-2-01', 'x-dynamo-meta-a': 'b' };
        const tokenIds = Uint32Array.of(0, 1, 0xffff_ffff, 0x0102_0304);
        const { incoming } = await hold({ id: 'req-7', headers, body, tokenIds, deadlineMs: 60_000 });
        expect(incoming.id).toBe('req-7');
        expect(incoming.endpoint).toBe(ENDPOINT);
        expect(incoming.headers).toEqual(headers);
        expect(incoming.body).toEqual(body);
        expect(incoming.tokenIds).toEqual(tokenIds);
        expect(incoming.deadlineMs).toBeGreaterThan(30_000); // less what it took to come here, on a busy machine, too
        expect(incoming.deadlineMs).toBeLessThanOrEqual(60_000);
      });

      it('carries large byte strings both ways, as they were when they were sent', async () => {
        const bytes = Buffer.from(Uint32Array.from({ length: 900_001 }, (_, at) => at).buffer);
        const body = { first: 'a', list: [{ values: bytes.subarray(3) }, { values: bytes }], last: [1] };
        const { sink } = send(
          serveWith((call) => {
            const made = { values: Buffer.from(bytes), given: call.body };
            call.output({ body: made });
            made.values.fill(0); // an engine uses its buffer again
            call.output({ body: 'next' });
            call.end();
          }),
          { body },
        );
        await sink.closed();
        const [first, second] = sink.events.filter((event) => event.kind === 'output');
        const { values, given } = first!.output.body as { values: Buffer; given: typeof body }; // two were sent
        expect(values.equals(bytes)).toBe(true);
        expect(given.list[0]?.values.equals(bytes.subarray(3))).toBe(true);
        expect(given.list[1]?.values.equals(bytes)).toBe(true);
        expect([given.first, given.last]).toEqual(['a', [1]]);
        expect(second).toEqual({ kind: 'output', output: { body: 'next' } });
      });

      it('carries no token ids and no deadline when it has none, and tells an empty prompt from an absent one', async () => {
        const { incoming } = await hold({ body: { absent: undefined } });
        expect(incoming.tokenIds).toBeUndefined();
        expect(incoming.deadlineMs).toBeUndefined();
        expect(incoming.body).toEqual({});
        expect((await hold({ tokenIds: new Uint32Array(0) })).incoming.tokenIds).toEqual(new Uint32Array(0));
      });

      it('carries a prompt of a million tokens', async () => {
        const tokenIds = Uint32Array.from({ length: 1_000_000 }, (_, at) => (at * 2_654_435_761) >>> 0);
        const { incoming } = await hold({ tokenIds });
        expect(Buffer.compare(Buffer.from(incoming.tokenIds!.buffer), Buffer.from(tokenIds.buffer))).toBe(0);
      });

      it('never calls its sink before `call` has returned', async () => {
        const sink = new RecordingSink();
        harness.caller.call({ tcp: 'nonsense' }, { id: 'r', headers: {}, body: {} }, sink);
        expect(sink.events).toEqual([]);
        expect((await sink.failed()).worker).toBe('CannotConnect');
      });
    });

    describe('output', () => {
      it('arrives in the order it was written, once accepted', async () => {
        const transport = serveWith((call) => {
          call.accept();
          call.tokens(0, [9, 1, 2, 3], 1, 2);
          call.tokens(0, Uint32Array.of(4), 0, 1);
          call.output({ token_ids: [5], log_probs: [-0.5] });
          call.tokens(0, [6], 0, 1);
          call.tokens(1, [7], 0, 1);
          call.output({ finish_reason: 'eos' });
          call.end();
          call.tokens(0, [8], 0, 1);
          call.output({ text: 'late' });
          call.fail(workerError('Internal', 'late'));
        });
        const { sink } = send(transport);
        await sink.closed();
        expect(sink.events).toEqual([
          { kind: 'accepted' },
          { kind: 'tokens', choice: 0, ids: [1, 2, 4] },
          { kind: 'output', output: { token_ids: [5], log_probs: [-0.5] } },
          { kind: 'tokens', choice: 0, ids: [6] },
          { kind: 'tokens', choice: 1, ids: [7] },
          { kind: 'output', output: { finish_reason: 'eos' } },
          { kind: 'end' },
        ]);
      });

      it('implies acceptance by whatever comes first', async () => {
        for (const first of [
          (call: IncomingCall) => call.tokens(0, [1], 0, 1),
          (call: IncomingCall) => call.output({ text: 'a' }),
          () => {},
        ]) {
          const { sink } = send(
            serveWith((call) => {
              first(call);
              call.end();
            }),
          );
          await sink.closed();
          expect(sink.events[0]).toEqual({ kind: 'accepted' });
          expect(sink.events.filter((event) => event.kind === 'accepted')).toHaveLength(1);
        }
      });

      it('keeps the order of every stream however their output is mixed', async () => {
        const step = fc.record({
          stream: fc.nat(4),
          choice: fc.nat(2),
          tokens: fc.nat(300),
          isItem: fc.boolean(),
          isPause: fc.boolean(),
        });
        await fc.assert(
          fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
            const held = new HeldCalls();
            const transport = serveWith(held.handler);
            const sinks = Array.from({ length: 5 }, (_, at) => send(transport, { id: `r${at}` }).sink);
            await held.at(4);
            const incoming = [...held.calls].sort((a, b) => a.id.localeCompare(b.id));
            const expected = sinks.map(() => new RecordingSink());
            for (const sink of expected) sink.accepted();
            let nextId = 0;
            for (const { stream, choice, tokens, isItem, isPause } of steps) {
              for (const sink of [incoming[stream]!, expected[stream]!]) {
                if (isItem) sink.output({ index: nextId });
                else if (tokens > 0)
                  sink.tokens(
                    choice,
                    Array.from({ length: tokens }, (_, at) => nextId + at),
                    0,
                    tokens,
                  );
              }
              nextId += tokens;
              if (isPause) await new Promise(setImmediate);
            }
            for (const sink of [...incoming, ...expected]) sink.end();
            await Promise.all(sinks.map((sink) => sink.closed()));
            expect(sinks.map((sink) => sink.events)).toEqual(expected.map((sink) => sink.events));
          }),
          { numRuns: 40 },
        );
      });

      it('carries large items', async () => {
        const body = { data: 'x'.repeat(8 << 20) };
        const { sink } = send(
          serveWith((call) => {
            call.output({ body });
            call.end();
          }),
        );
        await sink.closed();
        expect(sink.events[1]).toEqual({ kind: 'output', output: { body } });
      });

      it('flows on a thousand streams at once', async () => {
        const transport = serveWith((call) => {
          const first = Number(call.id);
          for (let step = 0; step < 20; step++) call.tokens(0, [first + step], 0, 1);
          call.output({ finish_reason: 'stop' });
          call.end();
        });
        const sinks = Array.from({ length: 1000 }, (_, at) => send(transport, { id: String(at * 100) }).sink);
        await Promise.all(sinks.map((sink) => sink.closed()));
        sinks.forEach((sink, at) => {
          expect(sink.ids).toEqual(Array.from({ length: 20 }, (_, step) => at * 100 + step));
        });
        await waitUntil(() => server.activeStreams === 0);
      });

      it('goes on for other streams when one sink throws', async () => {
        const held = new HeldCalls();
        const transport = serveWith(held.handler);
        const bad = new RecordingSink();
        bad.tokens = () => {
          throw new Error('defect');
        };
        harness.caller.call(transport, { id: 'bad', headers: {}, body: {} }, bad);
        const good = send(transport, { id: 'good' }).sink;
        await held.at(1);
        for (const call of held.calls) call.tokens(0, [1], 0, 1);
        for (const call of held.calls) call.end();
        expect((await good.closed()).kind).toBe('end');
        expect((await bad.failed()).code).toBe('internal_error');
      });

      it('may lead its reader to call again at once', async () => {
        const transport = serveWith((call) => call.end());
        const second = new RecordingSink();
        const first = new RecordingSink();
        first.end = () => void harness.caller.call(transport, { id: 'r2', headers: {}, body: {} }, second);
        harness.caller.call(transport, { id: 'r1', headers: {}, body: {} }, first);
        expect((await second.closed()).kind).toBe('end');
      });
    });

    describe('credit', () => {
      it('bounds what reaches a paused reader, and the rest follows when it resumes', async () => {
        const { sink, call, incoming } = await hold();
        call.pause();
        for (let at = 0; at < 10_000; at++) incoming.tokens(0, [at], 0, 1);
        expect(incoming.isBlocked()).toBe(true);
        let isUnblocked = false;
        incoming.onUnblocked(() => {
          isUnblocked = true;
        });
        incoming.output({ finish_reason: 'length' });
        incoming.end();
        await waitUntil(() => sink.tokenCount === CREDIT);
        await roundTrip();
        expect(sink.tokenCount).toBe(CREDIT);
        expect(sink.isClosed).toBe(false);
        call.resume();
        await sink.closed();
        expect(sink.ids).toEqual(Array.from({ length: 10_000 }, (_, at) => at));
        expect(sink.events.at(-2)).toEqual({ kind: 'output', output: { finish_reason: 'length' } });
        expect(isUnblocked).toBe(true);
      });

      it('counts an item like a token', async () => {
        const { sink, call, incoming } = await hold();
        call.pause();
        for (let at = 0; at < 1000; at++) incoming.output({ index: at });
        const outputs = (): number => sink.events.filter((event) => event.kind === 'output').length;
        await waitUntil(() => outputs() === CREDIT);
        await roundTrip();
        expect(outputs()).toBe(CREDIT);
        call.resume();
        await waitUntil(() => outputs() === 1000);
      });

      it('is renewed while the reader keeps up', async () => {
        const { sink, incoming } = await hold();
        let sent = 0;
        const writeOn = (): void => {
          while (sent < 50_000 && !incoming.isBlocked()) incoming.tokens(0, [sent++], 0, 1);
          if (sent < 50_000) incoming.onUnblocked(writeOn);
          else incoming.end();
        };
        writeOn();
        await sink.closed();
        expect(sink.ids).toEqual(Array.from({ length: 50_000 }, (_, at) => at));
      });

      it('of a paused stream does not hold up the others', async () => {
        const held = new HeldCalls();
        const transport = serveWith(held.handler);
        const slow = send(transport, { id: 'slow' });
        slow.call.pause();
        const quick = send(transport, { id: 'quick' });
        await held.at(1);
        for (let at = 0; at < 3000; at++) for (const call of held.calls) call.tokens(0, [at], 0, 1);
        for (const call of held.calls) call.end();
        await quick.sink.closed();
        expect(quick.sink.tokenCount).toBe(3000);
        expect(slow.sink.tokenCount).toBeLessThanOrEqual(CREDIT);
      });

      it('that never comes ends the stream at the bound of what a worker keeps', async () => {
        const { sink, call, incoming } = await hold();
        call.pause();
        const ids = new Uint32Array(1 << 16);
        for (let at = 0; at < 20; at++) incoming.tokens(0, ids, 0, ids.length);
        expect((await sink.failed()).worker).toBe('ResourceExhausted');
        expect(incoming.signal.aborted).toBe(true);
      });

      it('unblocks a waiting engine when the stream closes', async () => {
        const { call, incoming } = await hold();
        call.pause();
        incoming.tokens(0, new Uint32Array(CREDIT + 1), 0, CREDIT + 1);
        const unblocked = new Promise<void>((resolve) => incoming.onUnblocked(resolve));
        call.kill();
        await unblocked;
        expect(incoming.isBlocked()).toBe(false);
      });
    });

    describe('cancelling', () => {
      it('by kill aborts the handler and silences the sink', async () => {
        const { sink, call, incoming } = await hold();
        incoming.tokens(0, [1], 0, 1);
        await waitUntil(() => sink.tokenCount === 1);
        const aborted = new Promise((resolve) => incoming.signal.addEventListener('abort', resolve));
        call.kill();
        const before = sink.events.length;
        await aborted;
        expect(incoming.signal.reason).toBeInstanceOf(ServeError);
        expect((incoming.signal.reason as ServeError).worker).toBe('Cancelled');
        expect(incoming.stopped.aborted).toBe(true);
        incoming.tokens(0, [2], 0, 1);
        incoming.end();
        await roundTrip();
        expect(sink.events).toHaveLength(before);
        expect(server.activeStreams).toBe(0);
      });

      it('tells the worker whether another one goes on', async () => {
        const served = [await hold(), await hold()];
        served[0]?.call.kill('moved');
        served[1]?.call.kill();
        await waitUntil(() => served.every(({ incoming }) => incoming.signal.aborted));
        expect(served.map(({ incoming }) => incoming.wasMoved)).toEqual([true, false]);
      });

      it('ignores what was on its way', async () => {
        const { sink, call, incoming } = await hold();
        incoming.tokens(0, [1], 0, 1);
        incoming.output({ text: 'a' });
        incoming.end();
        call.kill();
        await roundTrip();
        expect(sink.events).toEqual([]);
      });

      it('right after calling leaves nothing behind', async () => {
        const held = new HeldCalls();
        const { sink, call } = send(serveWith(held.handler));
        call.kill();
        call.kill();
        call.stop();
        await roundTrip();
        expect(sink.events).toEqual([]);
        expect(held.calls.every((incoming) => incoming.signal.aborted)).toBe(true);
        expect(server.activeStreams).toBe(0);
      });

      it('by stop lets the engine finish', async () => {
        const { sink, call, incoming } = await hold();
        incoming.accept();
        call.stop();
        await new Promise<unknown>((resolve) => {
          if (incoming.stopped.aborted) resolve(undefined);
          else incoming.stopped.addEventListener('abort', resolve);
        });
        expect(incoming.signal.aborted).toBe(false);
        incoming.tokens(0, [7], 0, 1);
        incoming.output({ finish_reason: 'cancelled' });
        incoming.end();
        expect((await sink.closed()).kind).toBe('end');
        expect(sink.ids).toEqual([7]);
      });

      it('at the deadline ends both sides', async () => {
        const { sink, incoming } = await hold({ deadlineMs: 60 });
        incoming.accept();
        const error = await sink.failed();
        expect(error.worker).toBe('DeadlineExceeded');
        expect(error.status).toBe(504);
        await waitUntil(() => incoming.signal.aborted);
        expect(server.activeStreams).toBe(0);
      });
    });

    describe('failure', () => {
      it('of a handler that throws reaches the caller without its diagnostics', async () => {
        const { sink } = send(
          serveWith(() => {
            throw new Error('secret detail');
          }),
        );
        const error = await sink.failed();
        expect(error.code).toBe('internal_error');
        expect(error.message).not.toContain('secret');
        expect(String(error.cause)).toContain('secret detail');
        expect(sink.events).toHaveLength(1);
      });

      it('of a handler that rejects follows what it made', async () => {
        const { sink } = send(
          serveWith(async (call) => {
            call.tokens(0, [1, 2], 0, 2);
            throw workerError('EngineShutdown', 'gone');
          }),
        );
        expect((await sink.failed()).worker).toBe('EngineShutdown');
        expect(sink.ids).toEqual([1, 2]);
      });

      it.each([
        ['InvalidArgument', 400],
        ['NotFound', 404],
        ['WorkerOverloaded', 503],
        ['Internal', 500],
      ] as const)('keeps its class %s', async (kind, status) => {
        const { sink } = send(serveWith((call) => call.fail(workerError(kind, 'why', { param: 'messages[0]' }))));
        const error = await sink.failed();
        expect([error.worker, error.status, error.param]).toEqual([kind, status, 'messages[0]']);
      });

      it('comes for an output that cannot be, at both sides, and for no other stream', async () => {
        const { sink, incoming } = await hold();
        const other = await hold();
        incoming.output({ token_ids: { length: 1e9 } as unknown as number[] });
        expect((await sink.failed()).code).toBe('bad_worker_response');
        await waitUntil(() => incoming.signal.aborted);
        other.incoming.output({ token_ids: [1] });
        other.incoming.end();
        expect(await other.sink.closed()).toMatchObject({ kind: 'end' });
      });

      it('comes when nothing serves the endpoint any more', async () => {
        const held = new HeldCalls();
        const transport = serveWith(held.handler);
        const open = send(transport).sink;
        const incoming = await held.at(0);
        server.unhandle(ENDPOINT);
        expect((await send(transport).sink.failed()).worker).toBe('WorkerUnavailable');
        incoming.tokens(0, [1], 0, 1);
        incoming.end();
        expect((await open.closed()).kind).toBe('end');
      });

      it('comes when the worker does not accept in time, and the handler learns it', async () => {
        await close();
        await open(100);
        const { sink, incoming } = await hold();
        expect((await sink.failed()).worker).toBe('ConnectionTimeout');
        await waitUntil(() => incoming.signal.aborted);
      });

      it('comes when the worker is gone', async () => {
        const transport = serveWith((call) => call.end());
        await server.close();
        expect((await send(transport).sink.failed()).worker).toBe('CannotConnect');
      });

      it('ends every open stream when the worker closes', async () => {
        const held = new HeldCalls();
        const transport = serveWith(held.handler);
        const sinks = [send(transport).sink, send(transport).sink, send(transport).sink];
        await held.at(2);
        for (const call of held.calls) call.tokens(0, [1], 0, 1);
        await waitUntil(() => sinks.every((sink) => sink.tokenCount === 1));
        await server.close();
        for (const sink of sinks) expect((await sink.failed()).worker).toBe('Disconnected');
        expect(held.calls.every((call) => call.signal.aborted)).toBe(true);
      });

      it('does not meet a stream that ended just before the worker closed', async () => {
        const { sink, incoming } = await hold();
        incoming.tokens(0, [1, 2], 0, 2);
        incoming.end();
        expect(server.activeStreams).toBe(0);
        await server.close();
        expect((await sink.closed()).kind).toBe('end');
        expect(sink.ids).toEqual([1, 2]);
      });

      it('ends every open stream when the caller closes', async () => {
        const { sink, incoming } = await hold();
        incoming.accept();
        await harness.caller.close();
        expect((await sink.failed()).worker).toBe('Disconnected');
        await waitUntil(() => incoming.signal.aborted && server.activeStreams === 0);
      });
    });

    describe('draining', () => {
      it('reaches another endpoint of a component by what leads to one', async () => {
        const heard: string[] = [];
        server.handle(PING_ENDPOINT, (call) => {
          heard.push(call.endpoint);
          call.end();
        });
        const generate = serveWith((call) => call.end());
        const { sink } = send(harness.caller.sibling(generate, 'ping') as Transport);
        await sink.closed();
        expect(heard).toEqual([PING_ENDPOINT]);
      });

      it('asks a caller past all that waits for credit, and the stream goes on', async () => {
        const { sink, call, incoming } = await hold();
        call.pause();
        incoming.tokens(
          0,
          Array.from({ length: 1000 }, (_, at) => at),
          0,
          1000,
        );
        await waitUntil(() => sink.tokenCount === CREDIT);
        incoming.askToMove();
        incoming.askToMove();
        await waitUntil(() => sink.movesAsked === 2);
        expect(sink.tokenCount).toBe(CREDIT);
        call.resume();
        incoming.end();
        await sink.closed();
        expect(sink.tokenCount).toBe(1000);
        incoming.askToMove(); // too late to mean anything
        await roundTrip();
        expect(sink.movesAsked).toBe(2);
      });

      it('finishes open streams and refuses new ones', async () => {
        const held = new HeldCalls();
        const transport = serveWith(held.handler);
        const open = send(transport).sink;
        const incoming = await held.at(0);
        server.drain();
        expect((await send(transport).sink.failed()).worker).toBe('WorkerUnavailable');
        expect(server.activeStreams).toBe(1);
        incoming.tokens(0, [1, 2, 3], 0, 3);
        incoming.end();
        await open.closed();
        expect(open.ids).toEqual([1, 2, 3]);
        await waitUntil(() => server.activeStreams === 0);
      });
    });

    /** Resolves once a request made now has been answered: everything sent before has arrived by then. */
    async function roundTrip(): Promise<SinkEvent> {
      const { sink } = send(server.handle(PING_ENDPOINT, (call) => call.end()));
      return sink.closed();
    }
  });
}
