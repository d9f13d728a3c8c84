import { describe, expect, it } from 'vitest';
import type { EndpointRecord, FleetLoads } from '../../../shared/discovery/index.ts';
import { createMockEngine } from '../../../shared/engines/mocker/mock-engine.ts';
import { isMigratable, workerError } from '../../../shared/errors/index.ts';
import type { RequestPlane } from '../../../shared/planes/index.ts';
import { type EngineRequest, MOVES_HEADER, RELEASE_PREFILL } from '../../../shared/protocol/index.ts';
import { memoryHandoffs } from '../../support/memory-handoffs.ts';
import { range } from '../engines/mocker/support.ts';
import { load, ScriptedEngine, workerBed } from './worker-bed.ts';

/** The model's endpoint, the recovery of rank 0, cancel, the card, KV events and load. */
const ALL_RECORDS = ['Endpoint', 'Endpoint', 'Endpoint', 'Model', 'EventChannel', 'EventChannel', 'EventChannel'];

function mockBed(options: Parameters<typeof createMockEngine>[0] = {}) {
  // The engine needs the bed's clock, which exists only with the bed.
  const engine = new ScriptedEngine();
  const bed = workerBed(engine);
  const defer = (run: () => void): void => void bed.clock.after(0, run);
  const mock = createMockEngine(options, { clock: bed.clock, defer, handoffs: memoryHandoffs() });
  const card = options.isPrefill ? { card: { workerType: 'prefill' as const } } : {};
  const start = (loadMs = 0, more: Parameters<typeof bed.start>[0] = {}) =>
    bed.start({ engine: mock, ...card, ...more }, loadMs);
  return { ...bed, engine: mock, start };
}

describe('starting a worker', () => {
  it('registers only when the engine is loaded and the endpoint is served, the card last', async () => {
    const bed = mockBed({ startupTimeMs: 5000 });
    const seen: string[] = [];
    for (const bucket of ['v1/event_channels', 'v1/instances', 'v1/mdc'] as const) {
      await bed.discovery.watch({ bucket, prefix: '' }, { event: () => void seen.push(bucket) });
    }
    const starting = bed.start();
    await bed.clock.advance(4999);
    expect(seen).toEqual([]);
    expect(bed.health.status).toBe('notready');
    await bed.clock.advance(1);
    const { sink } = bed.call(await starting, range(10));
    expect(seen).toEqual([
      ...['v1/event_channels', 'v1/event_channels', 'v1/event_channels'], // cache, load, what planners are told
      ...['v1/instances', 'v1/instances', 'v1/instances', 'v1/instances'], // recovery, cancel, clear_kv_blocks, generate
      'v1/mdc',
    ]);
    await bed.clock.advance(1000);
    expect(sink.end_).toBe(true);
  });

  it.each([
    ['listens before its engine loads, so that a taken port is reported at once', {}, [0, 1]],
    ['listens once its engine has loaded, if it needs a broker first', { hasBroker: true }, [5000, 1]],
  ])('%s', async (_name, plane, expected) => {
    const bed = mockBed({ startupTimeMs: 5000 });
    const served: number[] = [];
    const startMs = bed.clock.nowMs();
    const requestPlane: RequestPlane = {
      ...bed.options.requestPlane,
      ...plane,
      serve: (options) => {
        served.push(bed.clock.nowMs() - startMs);
        return bed.options.requestPlane.serve(options);
      },
    };
    const starting = bed.start(0, { requestPlane });
    await bed.clock.advance(5000);
    await starting;
    expect([served[0], served.length]).toEqual(expected);
  });

  it('is not in discovery before callers reach it', async () => {
    const bed = workerBed(new ScriptedEngine());
    let known = (): void => {};
    const isKnown = new Promise<void>((resolve) => {
      known = resolve;
    });
    const requestPlane: RequestPlane = {
      ...bed.options.requestPlane,
      serve: async (options) => ({ ...(await bed.options.requestPlane.serve(options)), reachable: () => isKnown }),
    };
    const starting = bed.start({ requestPlane });
    await bed.clock.advance(1000);
    expect(await bed.records()).toEqual([]);
    known();
    await starting;
    expect(await bed.records()).toEqual(ALL_RECORDS);
  });

  it('says with its lease what each rank carries, and that it drains', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    const said: FleetLoads[] = [];
    const watch = bed.discovery.watchLoads((loads) => said.push(loads));
    const worker = await bed.start();
    const last = () => said.at(-1)?.get(worker.instanceId);
    const idle = { dpRank: 0, requests: 0, decodeBlocks: 0, prefillTokens: 0 };
    expect(last()).toEqual({ ranks: [idle], isDraining: false });
    const rank = { ...load(70, 900), runningRequests: 3, waitingRequests: 2 };
    engine.loads = [rank, { ...rank, dpRank: 1, usedKvBlocks: 10 }];
    await bed.clock.advance(1000);
    const busy = { dpRank: 0, requests: 5, decodeBlocks: 70, prefillTokens: 900 };
    expect(last()?.ranks).toEqual([busy, { ...busy, dpRank: 1, decodeBlocks: 10 }]);
    bed.call(worker, range(4)); // keeps it from ending
    const drained = worker.drain();
    await bed.clock.advance(200);
    expect(last()?.isDraining).toBe(true);
    await bed.clock.advance(1_000_000);
    await drained;
    watch.close();
  });

  it('shows ready, the model and where to reach it', async () => {
    const bed = mockBed({ startupTimeMs: 5000 });
    expect(bed.health.status).toBe('notready');
    const worker = await bed.start(5000);
    expect(bed.health.report()).toMatchObject({
      status: 'ready',
      uptime: { secs: 5, nanos: 0 },
      endpoints: { generate: 'ready' },
    });
    const [endpoint] = await bed.discovery.list({ bucket: 'v1/instances', prefix: 'ns/backend/generate' });
    const [model] = await bed.discovery.list({ bucket: 'v1/mdc', prefix: '' });
    const path = `${worker.instanceId}/ns/backend/generate`;
    expect(endpoint).toMatchObject({ type: 'Endpoint', instance_id: worker.instanceId, transport: { memory: path } });
    expect(model).toMatchObject({ type: 'Model', card: { display_name: 'm', kv_cache_block_size: 64 } });
    expect(await bed.metrics.render()).toMatch(/model_load_time_seconds\{[^}]*\} 5\n/);
  });

  it.each([
    ['what the engine says', 'cpu', undefined, 'cpu'],
    ['its setting, whatever the engine says', 'cpu', 'cuda', 'cuda'],
    ['nothing if neither is known', undefined, undefined, undefined],
  ])('says what it runs on: %s', async (_, ofEngine, told, expected) => {
    const engine = new ScriptedEngine();
    engine.info = { ...engine.info, ...(ofEngine === undefined ? {} : { deviceType: ofEngine }) };
    const bed = workerBed(engine);
    await bed.start({ deviceType: told });
    const [endpoint] = await bed.discovery.list({ bucket: 'v1/instances', prefix: 'ns/backend/generate' });
    expect((endpoint as EndpointRecord).device_type).toBe(expected);
  });

  it('shows in its health, its metrics and discovery that KV events are missing, and serves all the same', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    await bed.start();
    const endpoint = async () =>
      (await bed.discovery.list({ bucket: 'v1/instances', prefix: 'ns/backend/generate' }))[0];
    const missing = async () => /stator_worker_kv_events_missing\{[^}]*\} (\d)/.exec(await bed.metrics.render())?.[1];
    expect([await missing(), bed.health.report().kv_events]).toEqual(['0', undefined]);
    engine.tellEventFault('none came');
    await bed.clock.advance(1);
    expect(bed.health.report()).toMatchObject({
      status: 'ready',
      kv_events: { status: 'missing', reason: 'none came' },
    });
    expect([await missing(), await endpoint()]).toMatchObject(['1', { kv_events: 'missing' }]);
    engine.tellEventFault(undefined);
    await bed.clock.advance(1);
    expect([await missing(), bed.health.report().kv_events]).toEqual(['0', undefined]);
    expect(await endpoint()).not.toHaveProperty('kv_events');
  });

  it('closes everything again when discovery cannot be written', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    bed.discovery.putError = new Error('table away');
    await expect(bed.start()).rejects.toThrow('table away');
    expect(engine.isStopped).toBe(true);
    await bed.clock.advance(60_000);
    expect(await bed.records()).toEqual([]);
    expect(bed.health.status).toBe('notready');
  });

  it('takes nothing back and logs nothing when the first write already failed: the store says it all', async () => {
    const bed = workerBed(new ScriptedEngine());
    bed.discovery.putError = new Error('no table');
    await expect(bed.start()).rejects.toThrow('no table');
    expect(bed.discovery.asked).toEqual(['put']);
    expect(bed.lines).toEqual([]);
  });

  it('closes the engine again when nothing names the model', async () => {
    const engine = new ScriptedEngine();
    await expect(workerBed(engine).start({ names: {} })).rejects.toThrow('give --model-name');
    expect(engine.isStopped).toBe(true);
  });
});

describe('a request at a worker', () => {
  it('is answered by the engine and counted', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    const { sink } = bed.call(worker, range(100));
    await bed.clock.advance(10);
    expect(sink.isAccepted).toBe(true); // before the first token
    expect(worker.activeRequests).toBe(1);
    await bed.clock.advance(1000);
    expect(sink).toMatchObject({ tokenCount: 8, end_: true, error: undefined });
    expect(worker.activeRequests).toBe(0);
    const text = await bed.metrics.render();
    expect(text).toMatch(/requests_total\{[^}]*\} 1\n/);
    expect(text).toMatch(/inflight_requests\{[^}]*\} 0\n/);
    expect(text).toMatch(/request_bytes_total\{[^}]*\} 400\n/);
    expect(text).toMatch(/response_bytes_total\{[^}]*\} 32\n/);
    expect(text).toMatch(/request_duration_seconds_count\{[^}]*\} 1\n/);
  });

  it.each([
    ['KILL', false],
    ['STOP', true],
  ])('leaves the engine within one step on %s', async (verb, ends) => {
    const bed = mockBed();
    const worker = await bed.start();
    const { call, sink } = bed.call(worker, range(500), { stop: { max_tokens: 1000 } });
    await bed.clock.advance(100);
    expect(bed.engine.load()[0]?.usedKvBlocks).toBeGreaterThan(0);
    if (verb === 'KILL') call.kill();
    else call.stop();
    await bed.clock.advance(6);
    expect(bed.engine.load()[0]?.usedKvBlocks).toBe(0);
    expect(sink.end_).toBe(ends);
    expect(sink.tokenCount).toBeGreaterThan(0);
    expect(worker.activeRequests).toBe(0);
    expect(await bed.metrics.render()).not.toMatch(/errors_total\{[^}]*\} [1-9]/);
  });

  it('ends at its deadline', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    const { sink } = bed.call(worker, range(500), { stop: { max_tokens: 1000 } }, 200);
    await bed.clock.advance(210);
    expect(sink.error?.worker).toBe('DeadlineExceeded');
    expect(bed.engine.load()[0]?.usedKvBlocks).toBe(0);
    expect(worker.activeRequests).toBe(0);
  });

  it('fails with the engine’s error, which is counted', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    const { sink } = bed.call(worker, []);
    await bed.clock.advance(10);
    expect(sink.error?.message).toBe('the prompt is empty');
    expect(sink.isAccepted).toBe(false);
    expect(await bed.metrics.render()).toMatch(/errors_total\{[^}]*error_type="generate"[^}]*\} 1\n/);
  });

  it('is refused if it brings embeddings to an engine that does not take them, with the field and what its workers need', async () => {
    const input = { kind: 'tokens', tokenIds: new Uint32Array(0), promptEmbeds: 'AAAA' } as const;
    const bed = mockBed();
    const { sink } = bed.call(await bed.start(), [], { input });
    await bed.clock.advance(10);
    expect(sink.error).toMatchObject({ code: 'invalid_value', param: 'prompt_embeds' });
    expect(sink.error?.message).toBe(
      'this model takes no prompt_embeds: its workers need vLLM with --enable-prompt-embeds',
    );
    const engine = new ScriptedEngine(); // says nothing of them, and is asked
    const other = workerBed(engine);
    other.call(await other.start(), [], { input });
    await other.clock.advance(10);
    expect(engine.requests[0]?.request.input).toMatchObject({ promptEmbeds: 'AAAA' });
  });

  it('is refused when a field has the wrong shape, and leaves nothing counted as under way', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    const { sink } = bed.call(worker, [1], { stop: 'at once' as unknown as EngineRequest['stop'] });
    await bed.clock.advance(10);
    expect(sink.error).toMatchObject({ code: 'invalid_value', param: 'stop_conditions' });
    expect(worker.activeRequests).toBe(0);
    const text = await bed.metrics.render();
    expect(text).toMatch(/inflight_requests\{[^}]*\} 0\n/);
    expect(text).toMatch(/errors_total\{[^}]*error_type="deserialization"[^}]*\} 1\n/);
  });

  it('brings a text of any length, in pieces that no frontend refuses', async () => {
    const engine = new ScriptedEngine();
    const text = 'grüße '.repeat(20_000);
    engine.generate = (_request, sink) => {
      sink.output({ text, finish_reason: 'stop' });
      sink.end();
    };
    const bed = workerBed(engine);
    const { sink } = bed.call(await bed.start(), [1]);
    await bed.clock.advance(10);
    expect(sink).toMatchObject({ end_: true, error: undefined });
    expect(sink.outputs.length).toBeGreaterThan(1);
    expect(sink.outputs.map((output) => output.text).join('')).toBe(text);
  });

  it('fails when the engine throws', async () => {
    const engine = new ScriptedEngine();
    engine.generate = () => {
      throw new Error('bug');
    };
    const bed = workerBed(engine);
    const { sink } = bed.call(await bed.start(), [1]);
    await bed.clock.advance(10);
    expect(sink.error?.code).toBe('internal_error');
    expect(bed.lines.some((line) => line.level === 'error')).toBe(true);
  });
});

describe('a worker whose engine takes more than the model', () => {
  it.each([
    ['more', 101, 100, ["a context of 101 tokens is more than the model's configuration allows: serving 100"]],
    ['as much', 100, 100, []],
    ['less', 99, 99, []],
  ])('says so once where it is %s', async (_, asked, served, told) => {
    const engine = new ScriptedEngine();
    engine.info = { ...engine.info, contextLength: asked };
    const bed = workerBed(engine);
    const { card } = await bed.start({ model: { contextLength: 100 } });
    expect(card.runtime_config.context_length).toBe(served);
    expect(bed.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual(told);
  });
});

describe('a worker that loses its lease', () => {
  it('goes on serving callers that still know it, and logs once that the lease is lost and once that it is back', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    const running = bed.call(worker, range(10), { stop: { max_tokens: 20 } });
    await bed.clock.advance(20);
    bed.discovery.loseLease();
    expect(bed.health.status).toBe('ready');
    const served = bed.call(worker, range(10), { stop: { max_tokens: 5 } });
    await bed.clock.advance(1000);
    expect(served.sink).toMatchObject({ tokenCount: 5, end_: true });
    expect(running.sink).toMatchObject({ tokenCount: 20, end_: true });
    bed.discovery.regainLease();
    const told = bed.lines.map(({ message }) => message).filter((message) => message.startsWith('lease'));
    expect(told).toEqual(['lease lost: serving callers that still know this worker', 'lease regained']);
  });
});

describe('draining a worker', () => {
  it('ends its streams at the deadline of an order, which may come nearer while it drains', async () => {
    const bed = workerBed(new ScriptedEngine());
    const worker = await bed.start();
    const { sink } = bed.call(worker, [1], {}, undefined, { headers: { [MOVES_HEADER]: '1' } });
    await bed.clock.advance(10);
    const draining = worker.drain(600_000);
    await bed.clock.advance(20_000);
    expect(sink.error).toBeUndefined();
    void worker.drain(30_000);
    void worker.drain(500_000); // a later deadline changes nothing
    await bed.clock.advance(36_000); // it asks the callers to move every five seconds
    expect(sink.error).toBeDefined();
    await bed.clock.advance(2000);
    expect(await draining).toEqual({ finished: 0, moved: 0, failed: 1 });
  });

  it('ends its streams at a deadline that comes during a long grace period', async () => {
    const bed = workerBed(new ScriptedEngine());
    const worker = await bed.start({ settings: { graceMs: 120_000 } });
    const { sink } = bed.call(worker, [1]);
    await bed.clock.advance(10);
    const draining = worker.drain();
    await bed.clock.advance(20_000);
    expect(sink.error).toBeUndefined();
    void worker.drain(30_000);
    await bed.clock.advance(36_000);
    expect(sink.error).toBeDefined();
    await bed.clock.advance(2000);
    expect((await draining).finished).toBe(0);
  });

  it('leaves discovery, refuses new requests and lets streams end within the grace period', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    const { sink } = bed.call(worker, range(10), { stop: { max_tokens: 100 } });
    await bed.clock.advance(50);
    const draining = worker.drain();
    expect(worker.drain()).toBe(draining);
    for (let record = 0; record < ALL_RECORDS.length; record++) await bed.clock.advance(0); // they leave one by one
    expect(await bed.records()).toEqual([]);
    expect([bed.health.status, bed.health.isLive]).toEqual(['notready', true]);
    const refused = bed.call(worker, range(10));
    await bed.clock.advance(4000);
    expect(refused.sink.error !== undefined && isMigratable(refused.sink.error)).toBe(true);
    expect(sink).toMatchObject({ tokenCount: 100, end_: true });
    expect(await draining).toEqual({ finished: 1, moved: 0, failed: 0 });
    await expect(bed.engine.health(new AbortController().signal)).rejects.toMatchObject({ worker: 'Unavailable' });
  });

  it('moves what still runs after the grace period, except what cannot move', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    const worker = await bed.start();
    const movable = bed.call(worker, [1]);
    const stuck = [
      bed.call(worker, [2], { sampling: { n: 2 } }),
      bed.call(worker, [3], { sampling: { guided_decoding: { regex: 'a' } } }),
      bed.call(worker, [4], { routing: { backend_instance_id: worker.instanceId } }),
      bed.call(worker, [], { input: { kind: 'text', endpoint: 'chat_completions', body: {} } }),
    ];
    await bed.clock.advance(10);
    const draining = worker.drain();
    await bed.clock.advance(5200); // withdrawing takes turns of its own
    expect(movable.sink.error !== undefined && isMigratable(movable.sink.error)).toBe(true);
    expect(engine.requests[0]?.signal.aborted).toBe(true);
    expect(stuck.map(({ sink }) => sink.error)).toEqual([undefined, undefined, undefined, undefined]);
    engine.requests[1]?.sink.end();
    await bed.clock.advance(894_000);
    const failures = () => stuck.map(({ sink }) => sink.error?.worker);
    expect(failures()).toEqual([undefined, undefined, undefined, undefined]);
    await bed.clock.advance(2000);
    expect(failures()).toEqual([undefined, 'EngineShutdown', 'EngineShutdown', 'EngineShutdown']);
    expect(stuck[1]?.sink.error).toMatchObject({ code: 'worker_lost', status: 503 }); // which SDKs retry
    expect(await draining).toEqual({ finished: 1, moved: 1, failed: 3 });
    const text = await bed.metrics.render();
    for (const line of ['finished"} 1', 'moved"} 1', 'failed"} 3']) {
      expect(text).toMatch(new RegExp(`^stator_worker_drained_requests_total\\{.*outcome="${line}$`, 'm'));
    }
    expect(engine.isStopped).toBe(true);
  });

  it('asks callers that can hear it, over and over, and keeps what stays', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    const worker = await bed.start();
    const asked = { headers: { [MOVES_HEADER]: '1' } };
    const [moved, kept, last] = [1, 2, 3].map((prompt) => bed.call(worker, [prompt], {}, undefined, asked));
    const guided = bed.call(worker, [4], { sampling: { guided_decoding: { regex: 'a' } } }, undefined, asked);
    await bed.clock.advance(10);
    const draining = worker.drain();
    await bed.clock.advance(5200);
    const asks = () => [moved, kept, last, guided].map((call) => call?.sink.movesAsked);
    expect(asks()).toEqual([1, 1, 1, 0]);
    moved?.call.kill('moved');
    await bed.clock.advance(5000);
    expect(asks()).toEqual([1, 2, 2, 0]);
    expect(engine.requests.map(({ signal }) => signal.aborted)).toEqual([true, false, false, false]);
    engine.requests[1]?.sink.end();
    engine.requests[3]?.sink.end();
    await bed.clock.advance(890_000);
    expect(kept?.sink).toMatchObject({ end_: true, error: undefined });
    expect(last?.sink.error?.worker).toBe('EngineShutdown');
    expect(await draining).toEqual({ finished: 2, moved: 1, failed: 1 });
  });

  it('asks no caller through a router of an earlier release, which hands on what its caller says of itself', async () => {
    const bed = workerBed(new ScriptedEngine(), { hearsMoves: false });
    const worker = await bed.start();
    const { sink } = bed.call(worker, [1], {}, undefined, { headers: { [MOVES_HEADER]: '1' } });
    await bed.clock.advance(10);
    const draining = worker.drain();
    await bed.clock.advance(5200);
    expect([sink.movesAsked, sink.error?.worker]).toEqual([0, 'EngineShutdown']);
    expect(await draining).toEqual({ finished: 0, moved: 1, failed: 0 });
  });

  it('counts what its clients leave as over, not as moved', async () => {
    const bed = workerBed(new ScriptedEngine());
    const worker = await bed.start();
    const { call } = bed.call(worker, [1], {}, undefined, { headers: { [MOVES_HEADER]: '1' } });
    await bed.clock.advance(10);
    const draining = worker.drain();
    await bed.clock.advance(5200);
    call.kill();
    await bed.clock.advance(1000);
    expect(await draining).toEqual({ finished: 1, moved: 0, failed: 0 });
  });

  it('leaves no timer of its own behind', async () => {
    const bed = mockBed();
    const worker = await bed.start();
    bed.call(worker, range(10));
    await bed.clock.advance(1000);
    const draining = worker.drain();
    await bed.clock.advance(2000);
    await draining;
    await bed.discovery.close();
    await bed.clock.advance(60_000);
    expect(bed.clock.pendingTimers).toBe(0);
  });
});

describe('a worker whose engine stops answering', () => {
  it.each([
    ['fails three times', { healthError: new Error('dead') }, 4000],
    ['gets no answer within its bound', { hangs: true }, 7000],
  ])('leaves discovery when the health check %s, and returns with it', async (_, fault, patienceMs) => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    const worker = await bed.start({ settings: { healthIntervalMs: 2000, healthTimeoutMs: 6000 } });
    const { sink } = bed.call(worker, [1]);
    Object.assign(engine, fault);
    await bed.clock.advance(patienceMs);
    expect(await bed.records()).toEqual(ALL_RECORDS);
    await bed.clock.advance(4000);
    expect(await bed.records()).toEqual([]);
    expect([bed.health.status, bed.health.isLive]).toEqual(['notready', false]);
    expect(sink.error?.worker).toBe('EngineShutdown');
    expect(bed.lines.filter((line) => line.message === 'engine is down')).toHaveLength(1);
    Object.assign(engine, { healthError: undefined, hangs: false });
    await bed.clock.advance(5000);
    expect(await bed.records()).toEqual(ALL_RECORDS);
    expect(bed.health.status).toBe('ready');
  });

  it('leaves discovery at the first check after its engine has said that it is dead', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    await bed.start();
    engine.healthError = workerError('EngineShutdown', 'the core is dead');
    await bed.clock.advance(1999);
    expect(await bed.records()).toEqual(ALL_RECORDS);
    await bed.clock.advance(1);
    expect(await bed.records()).toEqual([]);
    expect(bed.lines.find((line) => line.message === 'engine is down')?.fields.reason).toContain('the core is dead');
  });

  it.each([
    ['EngineShutdown', 0],
    ['Disconnected', 0],
    ['InvalidArgument', ALL_RECORDS.length],
  ] as const)('looks at its engine at once when a request fails with %s', async (kind, recordsLeft) => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    const worker = await bed.start();
    bed.call(worker, [1]);
    await bed.clock.advance(1);
    engine.healthError = workerError('EngineShutdown', 'the core is dead');
    expect(engine.requests).toHaveLength(1);
    engine.requests[0]?.sink.fail(workerError(kind, 'it failed'));
    await bed.clock.advance(100);
    expect(await bed.records()).toHaveLength(recordsLeft);
  });

  it('writes its records again until discovery takes them', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    await bed.start();
    engine.healthError = new Error('dead');
    await bed.clock.advance(10_000);
    bed.discovery.putError = new Error('table away');
    engine.healthError = undefined;
    await bed.clock.advance(10_000);
    expect(await bed.records()).toEqual([]);
    bed.discovery.putError = undefined;
    await bed.clock.advance(2000);
    expect(await bed.records()).toEqual(ALL_RECORDS);
  });

  it('forgives two failures in a row', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    await bed.start();
    for (let times = 0; times < 5; times++) {
      engine.healthError = new Error('busy');
      await bed.clock.advance(4000);
      engine.healthError = undefined;
      await bed.clock.advance(2000);
    }
    expect(await bed.records()).toEqual(ALL_RECORDS);
    expect(bed.health.status).toBe('ready');
  });
});

describe('what a worker publishes', () => {
  it('is every cache change once, with 64-bit values as text and bytes and ids without a gap', async () => {
    const bed = workerBed(new ScriptedEngine());
    const engine = bed.engine as ScriptedEngine;
    engine.info = { ...engine.info, dataParallelSize: 2 };
    const worker = await bed.start({ instanceId: '1fffffffffffff' });
    const envelopes = await bed.follow('kv-events');
    const pair = (...words: number[]) => Uint32Array.from(words);
    engine.emitKvEvents([
      { kind: 'stored', dpRank: 0, parentHash: undefined, blockHashes: pair(1, 2), tokensHashes: pair(3, 4) },
      { kind: 'stored', dpRank: 0, parentHash: [1, 2], blockHashes: pair(5, 6), tokensHashes: pair(7, 8) },
      { kind: 'stored', dpRank: 1, parentHash: undefined, blockHashes: pair(1, 2), tokensHashes: pair(3, 4) },
    ]);
    engine.emitKvEvents([
      { kind: 'stored', dpRank: 0, parentHash: undefined, blockHashes: pair(1, 2), tokensHashes: pair(3, 4) },
    ]);
    engine.emitKvEvents([
      { kind: 'removed', dpRank: 0, blockHashes: pair(1, 2) },
      { kind: 'cleared', dpRank: 0 },
    ]);
    await bed.clock.advance(0);
    const bytes = (...words: number[]) => Buffer.from(pair(...words).buffer);
    const event = (event_id: number, dp_rank: number, data: unknown) => ({
      worker_id: '9007199254740991',
      storage_tier: 'device',
      event: { event_id, dp_rank, data },
    });
    const first = { parent_hash: null, block_hashes: bytes(1, 2), tokens_hashes: bytes(3, 4) };
    expect(envelopes.map(({ payload }) => payload)).toEqual([
      [
        event(1, 0, { stored: first }),
        event(2, 0, { stored: { parent_hash: bytes(1, 2), block_hashes: bytes(5, 6), tokens_hashes: bytes(7, 8) } }),
        event(1, 1, { stored: first }),
      ],
      [event(3, 0, 'cleared')], // one of two copies removed: nothing to tell
    ]);
    expect(worker.instanceId).toBe('1fffffffffffff');
  });

  it('is its load every second, and soon after a large change', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    await bed.start();
    const envelopes = await bed.follow('kv_metrics');
    await bed.clock.advance(3050);
    expect(envelopes).toHaveLength(3);
    engine.loads = [load(40, 100)]; // 4 % of the blocks
    await bed.clock.advance(500);
    expect(envelopes).toHaveLength(3);
    engine.loads = [load(400, 100)];
    await bed.clock.advance(100);
    expect(envelopes).toHaveLength(4);
    engine.loads = [load(400, 20_000)];
    await bed.clock.advance(100);
    expect(envelopes.at(-1)?.payload).toEqual({
      worker_id: expect.stringMatching(/^\d+$/),
      dp_rank: 0,
      kv_used_blocks: 400,
      active_prefill_tokens: 20_000,
      last_event_id: 0,
    });
    expect(await bed.metrics.render()).toMatch(/gpu_cache_usage_percent\{[^}]*\} 0\.4\n/);
  });

  it('holds no channel for cache changes when the engine tells none', async () => {
    const engine = new ScriptedEngine();
    engine.info = { ...engine.info, publishesKvEvents: false };
    const bed = workerBed(engine);
    await bed.start();
    const channels = await bed.discovery.list({ bucket: 'v1/event_channels', prefix: '' });
    expect(channels.map((record) => record.type === 'EventChannel' && record.topic)).toEqual([
      'kv_metrics',
      'planner_rollups',
    ]);
  });
});

describe('a failure inside the worker', () => {
  it('keeps its diagnostics in the log', async () => {
    const engine = new ScriptedEngine();
    const bed = workerBed(engine);
    const { sink } = bed.call(await bed.start(), [1]);
    await bed.clock.advance(1);
    engine.requests[0]?.sink.fail(workerError('Internal', 'secret path'));
    await bed.clock.advance(1);
    expect(sink.error?.message).toBe('Internal server error');
    expect(bed.lines.find(({ message }) => message === 'request failed')?.fields).toMatchObject({
      request_id: 'r',
      x_request_id: 'mine',
      trace_id: '0af7651916cd43dd8448eb211c80319c',
      message: 'secret path',
    });
  });
});

describe('a worker with an engine process of its own', () => {
  it('reports a hanging engine as down, and waits for it no longer than the stop timeout', async () => {
    const engine = Object.assign(new ScriptedEngine(), { isOwn: true, stop: () => new Promise<void>(() => {}) });
    const bed = workerBed(engine);
    const settings = { healthTimeoutMs: 6000, engineStopMs: 9000 };
    const worker = await bed.start({ settings });
    let exit: Error | undefined;
    void worker.engineExit.then((reason) => {
      exit = reason;
    });
    engine.hangs = true;
    await bed.clock.advance(7000);
    expect(exit).toBeUndefined();
    await bed.clock.advance(2000);
    expect(exit?.message).toBe("the engine is down: the engine's health check took more than 6000 ms");
    let hasDrained = false;
    void worker.drain().then(() => {
      hasDrained = true;
    });
    await bed.clock.advance(8900);
    expect(hasDrained).toBe(false);
    await bed.clock.advance(1000);
    expect(hasDrained).toBe(true);
    expect(bed.lines.find(({ message }) => message === 'engine does not stop')?.fields).toMatchObject({
      timeout_ms: 9000,
    });
  });
});

describe('a prefill worker that drains', () => {
  it.each([
    [2000, 6000], // ms from its last prompt to the drain, and how long it stays
    [9000, 0],
  ])(
    'keeps its engine for decode workers for the prefill drain time after its last prompt, and no longer',
    async (agoMs, staysMs) => {
      const engine = new ScriptedEngine();
      const bed = workerBed(engine);
      const worker = await bed.start({ settings: { prefillDrainMs: 8000 }, card: { workerType: 'prefill' } });
      bed.call(worker, [1]);
      await bed.clock.advance(10);
      engine.requests[0]?.sink.end();
      await bed.clock.advance(agoMs);
      const draining = worker.drain();
      await bed.clock.advance(Math.max(0, staysMs - 500));
      expect(engine.isStopped).toBe(false);
      await bed.clock.advance(1000); // withdrawing takes turns of its own
      expect(engine.isStopped).toBe(true);
      await draining;
    },
  );

  it('takes releases, and nothing else, until its engine has given up the last blocks', async () => {
    const engine = new (class extends ScriptedEngine {
      releasePrefill: () => void = () => {};
      readonly #released = new Promise<void>((resolve) => {
        this.releasePrefill = resolve;
      });
      override async stop(): Promise<void> {
        await this.#released;
        await super.stop();
      }
    })();
    const bed = workerBed(engine);
    const worker = await bed.start({ card: { workerType: 'prefill' } });
    const draining = worker.drain();
    await bed.clock.advance(1000);
    const { sink: refused } = bed.call(worker, [1]);
    await bed.clock.advance(10);
    expect(refused.error?.worker).toBe('WorkerUnavailable');
    expect([engine.requests.length, engine.isStopped]).toEqual([0, false]);
    const { sink: released } = bed.call(worker, [1], { id: 'release-r', annotations: [RELEASE_PREFILL] });
    await bed.clock.advance(10);
    expect(released.end_).toBe(true);
    expect(await draining).toEqual({ finished: 0, moved: 0, failed: 0 });
    expect(engine.isStopped).toBe(true);
  });

  it('has gone as soon as the blocks that it still kept are released', async () => {
    const bed = mockBed({ isPrefill: true });
    const worker = await bed.start();
    const { sink } = bed.call(worker, [1, 2], { stop: { max_tokens: 1 } });
    await bed.clock.advance(500);
    const params = sink.outputs.find(({ disaggregated_params }) => disaggregated_params)?.disaggregated_params;
    let isGone = false;
    void worker.drain().then(() => {
      isGone = true;
    });
    const pass = async (ms: number): Promise<void> => {
      for (let at = 0; at < ms; at += 100) await bed.clock.advance(100); // each step of the drain takes turns of its own
    };
    await pass(3000); // of five seconds
    expect(isGone).toBe(false);
    const prefillResult = { disaggregated_params: params ?? {} };
    bed.call(worker, [1], { id: 'release-r', annotations: [RELEASE_PREFILL], prefillResult });
    await pass(500);
    expect(isGone).toBe(true);
  });
});
