import { afterEach, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import { createMockEngine } from '../../../shared/engines/mocker/mock-engine.ts';
import { createTcpRequestPlane } from '../../../shared/planes/request/tcp/plane.ts';
import { encodeEngineRequest } from '../../../shared/protocol/index.ts';
import { createWorkerMetrics } from '../../../shared/telemetry/index.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { startWorker } from '../../../shared/worker/worker.ts';
import { waitUntil } from '../../support/index.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { engineRequest } from '../engines/mocker/support.ts';
import { ADDRESS, CallerSink } from './worker-bed.ts';

describe('a mock worker over TCP', () => {
  const closers: (() => Promise<unknown>)[] = [];

  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  async function start(graceMs: number) {
    const clock = systemClock;
    const discovery = new MemoryDiscovery({ hub: new MemoryHub() });
    const serving = createTcpRequestPlane({ clock, host: '127.0.0.1' });
    const calling = createTcpRequestPlane({ clock });
    const engine = createMockEngine({}, { clock });
    const worker = await startWorker(
      {
        engine,
        discovery,
        requestPlane: serving,
        eventPlane: createMemoryEventPlane({ clock }),
        address: ADDRESS,
        model: {},
        names: { displayName: 'm' },
        clock,
        random: systemRandom,
        logger: silentLogger,
        metrics: createWorkerMetrics({ ...ADDRESS, model: 'm' }),
        settings: { graceMs },
      },
      new AbortController().signal,
    );
    closers.push(
      () => serving.close(),
      () => calling.close(),
      () => discovery.close(),
      () => worker.drain(),
    );
    const [record] = await discovery.list({ bucket: 'v1/instances', prefix: 'ns/backend/generate' });
    if (record?.type !== 'Endpoint') throw new Error('no endpoint');
    const call = (maxTokens: number, sink: CallerSink) => {
      const request = engineRequest('r', [1, 2, 3], { stop: { max_tokens: maxTokens } });
      const { body, tokenIds } = encodeEngineRequest(request);
      return calling.call(record.transport, { id: 'r', headers: {}, body, ...(tokenIds && { tokenIds }) }, sink);
    };
    return { worker, engine, call };
  }

  it('streams tokens and ends', async () => {
    const { call } = await start(5000);
    const sink = new CallerSink();
    call(10, sink);
    await waitUntil(() => sink.end_, { what: 'the end' });
    expect(sink.tokenCount).toBe(10);
    expect(sink.outputs.at(-1)).toMatchObject({ finish_reason: 'length', completion_usage: { completion_tokens: 10 } });
  });

  it('frees the engine when the caller drops the request', async () => {
    const { call, engine, worker } = await start(5000);
    const sink = new CallerSink();
    const running = call(100_000, sink);
    await waitUntil(() => sink.tokenCount > 0, { what: 'the first token' });
    running.kill();
    await waitUntil(() => engine.load()[0]?.usedKvBlocks === 0, { what: 'free blocks' });
    expect(worker.activeRequests).toBe(0);
  });

  it('tells the caller to go on elsewhere at the end of the grace period', async () => {
    const { call, worker } = await start(50);
    const sink = new CallerSink();
    call(100_000, sink);
    await waitUntil(() => sink.tokenCount > 0, { what: 'the first token' });
    expect(await worker.drain()).toEqual({ finished: 0, moved: 1, failed: 0 });
    await waitUntil(() => sink.error !== undefined, { what: 'the failure' });
    expect(sink.error?.worker).toBe('EngineShutdown'); // said by the worker before its connection closed
  });
});
