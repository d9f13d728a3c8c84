import { describe, expect, it } from 'vitest';
import { SYSTEM, systemClock } from '../../../shared/clock/index.ts';
import { workerError } from '../../../shared/errors/index.ts';
import type { Call, IncomingCall } from '../../../shared/planes/index.ts';
import { PlaneRouter, type PlaneRouterOptions } from '../../../shared/standalone/plane-router.ts';
import { type Span, Tracer } from '../../../shared/telemetry/index.ts';
import { RecordingSink } from '../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../support/index.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';

/** A router on a plane, and a worker that does with a request what it is told. */
async function bedOf(work: (call: IncomingCall) => void) {
  const plane = createMemoryRequestPlane({ clock: systemClock });
  const worker = (await plane.serve({ instanceId: 'a' })).handle('a/w', work);
  const ended: Span[] = [];
  let released = 0;
  const held = {
    worker: { id: 'a', transport: worker },
    dpRank: undefined,
    headers: {},
    prefillDone: () => {},
    produced: () => {},
    release: () => released++,
  };
  const router = { choose: async () => held } as unknown as PlaneRouterOptions['router'];
  const tracer = new Tracer({ ...SYSTEM, sinks: [{ ended: (span) => ended.push(span) }] });
  const routing = new PlaneRouter({ router, pool: {} as PlaneRouterOptions['pool'], plane, tracer });
  const endpoints = routing.serve(await plane.serve({ instanceId: 'r' }), 'r', 'ns');
  const { transport } = endpoints.find(({ endpoint }) => endpoint === 'generate')!;
  const sink = new RecordingSink();
  const call: Call = plane.call(transport, { id: 'c', headers: {}, body: { token_ids: [1] } }, sink);
  const span = (): Promise<Span> => waitUntil(() => ended[0], { what: 'the span ends' });
  return { call, sink, span, released: () => released };
}

const fails = (call: IncomingCall): void => call.fail(workerError('EngineShutdown', 'gone'));

describe('the span of a request that the standalone router carries on', () => {
  it.each<[string, (call: IncomingCall) => void, (call: Call) => void, string | undefined]>([
    ['nothing of an answer that is whole', (call) => call.end(), () => {}, undefined],
    ['the failure of the worker', fails, () => {}, 'EngineShutdown'],
    [
      'no failure where the caller has asked to stop, and the worker fails then',
      (call) => call.stopped.addEventListener('abort', () => fails(call)),
      (call) => call.stop(),
      undefined,
    ],
    [
      'no failure where the caller has left',
      (call) => call.signal.addEventListener('abort', () => fails(call)),
      (call) => call.kill(),
      undefined,
    ],
    [
      'no failure where the worker says that the client has cancelled',
      (call) => call.fail(workerError('CancelledByClient')),
      () => {},
      undefined,
    ],
  ])('says %s', async (_, work, leave, error) => {
    let isBegun = false;
    const { call, span, released } = await bedOf((incoming) => {
      work(incoming);
      isBegun = true;
    });
    await waitUntil(() => isBegun);
    leave(call);
    expect((await span()).error).toBe(error);
    expect(released()).toBe(1);
  });
});
