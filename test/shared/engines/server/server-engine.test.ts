import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Engine, KvEvent } from '../../../../shared/engines/index.ts';
import { createVllmEngine, type VllmEngineOptions } from '../../../../shared/engines/vllm/launch.ts';
import { isInhibiting, isMigratable } from '../../../../shared/errors/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../../support/index.ts';
import { FakeEngineServer, type Route, sendJson, startEvents, writeEvent } from '../fake-engine-server.ts';
import { FakePublisher } from '../kv-stream/fake-publisher.ts';
import { RecordingSink, tokenRequest } from '../recording-sink.ts';

const never = new AbortController().signal;
const GENERATE = 'POST /inference/v1/generate';

const chunk = (ids: readonly number[], finish: string | null = null): object => ({
  choices: [{ index: 0, finish_reason: finish, stop_reason: null, token_ids: ids, logprobs: null }],
});

describe('an engine behind its own server', () => {
  let server: FakeEngineServer;
  let answer: Route;
  const engines: Engine[] = [];
  const publishers: FakePublisher[] = [];

  beforeEach(async () => {
    server = await new FakeEngineServer().start();
    server
      .json('GET /v1/models', { data: [{ id: 'm', max_model_len: 100 }] })
      .json('GET /version', { version: '9' })
      .json('GET /openapi.json', { paths: { '/inference/v1/generate': {} } })
      .on(
        'GET /metrics',
        ({ response }) => void response.end('vllm:cache_config_info{block_size="1",num_gpu_blocks="8"} 1\n'),
      )
      .on(GENERATE, (received) => {
        if (received.body.stream === true) return answer(received);
        sendJson(received.response, 200, chunk([7], 'length'));
      });
    answer = ({ response }) => {
      startEvents(response);
      writeEvent(response, chunk([1, 2]));
      writeEvent(response, chunk([3], 'length'));
      response.end('data: [DONE]\n\n');
    };
  });

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop();
    for (const publisher of publishers.splice(0)) publisher.close();
    await server.stop();
  });

  async function started(options: Partial<VllmEngineOptions> = {}): Promise<Engine> {
    const engine = createVllmEngine(
      {
        url: server.url,
        startTimeoutMs: 500,
        scrapeIntervalMs: 20,
        ...options,
      },
      { clock: systemClock, logger: captureLogger().logger },
    );
    engines.push(engine);
    await engine.start(never);
    return engine;
  }

  async function ask(engine: Engine, fields: Parameters<typeof tokenRequest>[1] = {}): Promise<RecordingSink> {
    const sink = new RecordingSink();
    engine.generate(tokenRequest([5], { stop: { max_tokens: 3 }, ...fields }), sink, never);
    await sink.closed;
    return sink;
  }

  const FAULTS: readonly (readonly [string, Route, string, boolean])[] = [
    ['resets before its answer', ({ response }) => void response.destroy(), 'EngineShutdown', true],
    ['never answers', () => {}, 'ResponseTimeout', true],
    ['falls silent', ({ response }) => writeEvent(startEvents(response), chunk([1])), 'ResponseTimeout', true],
    [
      'resets in the middle',
      ({ response }) => {
        writeEvent(startEvents(response), chunk([1]));
        setTimeout(() => response.destroy(), 20);
      },
      'Disconnected',
      true,
    ],
    [
      'ends without a finish',
      ({ response }) => {
        writeEvent(startEvents(response), chunk([1]));
        response.end();
      },
      'StreamIncomplete',
      true,
    ],
    [
      'says done without a finish',
      ({ response }) => {
        writeEvent(startEvents(response), chunk([1]));
        response.end('data: [DONE]\n\n');
      },
      'StreamIncomplete',
      true,
    ],
    [
      'sends text that is not JSON',
      ({ response }) => writeEvent(startEvents(response), '{"choices":[{'),
      'BackendProtocol',
      false,
    ],
    [
      'sends ids that are not token ids',
      ({ response }) => writeEvent(startEvents(response), chunk([1, -4])),
      'BackendProtocol',
      false,
    ],
    [
      'sends ids as text',
      ({ response }) => writeEvent(startEvents(response), { choices: [{ token_ids: '1' }] }),
      'BackendProtocol',
      false,
    ],
    [
      'answers for a choice that was not requested',
      ({ response }) => writeEvent(startEvents(response), { choices: [{ index: 4, token_ids: [1] }] }),
      'BackendProtocol',
      false,
    ],
    [
      'answers in HTML',
      ({ response }) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
      'BackendProtocol',
      false,
    ],
    ['is full', ({ response }) => sendJson(response, 503, { error: { message: 'full' } }), 'WorkerUnavailable', true],
    ['fails inside', ({ response }) => sendJson(response, 500, { error: { message: 'boom' } }), 'Unknown', false],
    [
      'fails in its stream',
      ({ response }) => writeEvent(startEvents(response), { error: { message: 'boom', code: 500 } }),
      'Unknown',
      false,
    ],
    [
      'gives a request up',
      ({ response }) => {
        writeEvent(startEvents(response), chunk([], 'error'));
        response.end('data: [DONE]\n\n');
      },
      'none',
      false,
    ],
  ];

  it.each(FAULTS)('an engine that %s', async (what, fault, kind, canMove) => {
    answer = fault;
    const patience = kind === 'ResponseTimeout' ? { idleTimeoutMs: 150 } : {};
    const { error, outputs, isEnded } = await ask(await started(patience));
    if (what === 'gives a request up') {
      expect(outputs.at(-1)?.finish_reason).toEqual({
        error: 'the engine ended its answer with the finish reason "error"',
      });
      expect(isEnded).toBe(true);
      return;
    }
    expect(error?.worker).toBe(kind);
    expect(error !== undefined && isMigratable(error)).toBe(canMove);
  });

  it('is dead when no server listens any more: requests move on and its health check fails', async () => {
    const engine = await started();
    await server.stop();
    const { error } = await ask(engine);
    expect(error).toMatchObject({ worker: 'EngineShutdown' });
    expect(error !== undefined && isInhibiting(error)).toBe(true);
    await expect(engine.health(never)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('is dead when its core is, which its server says in the stream and by its health', async () => {
    const engine = await started();
    answer = ({ response }) => {
      writeEvent(startEvents(response), chunk([1]));
      server.json('GET /health', {}, 503);
      writeEvent(response, { error: { message: 'EngineCore encountered an issue', code: 500 } });
      response.end('data: [DONE]\n\n');
    };
    const { error, ids } = await ask(engine);
    expect(ids).toEqual([[1]]);
    expect(error).toMatchObject({ worker: 'EngineShutdown' });
    await expect(engine.health(never)).rejects.toMatchObject({ worker: 'EngineShutdown' });
  });

  it('closes the connection on an abort, at once and in silence', async () => {
    const engine = await started();
    const aborter = new AbortController();
    const sink = new RecordingSink();
    let dropped: Promise<void> | undefined;
    answer = (received) => {
      dropped = received.dropped;
      writeEvent(startEvents(received.response), chunk([1]));
    };
    engine.generate(tokenRequest([5]), sink, aborter.signal);
    await waitUntil(() => sink.plainIds === 1);
    aborter.abort();
    await dropped;
    expect([sink.isEnded, sink.error, engine.load()[0]?.runningRequests]).toEqual([false, undefined, 0]);
  });

  it('infers a finish that the engine forgot to tell', async () => {
    answer = ({ response }) => {
      writeEvent(startEvents(response), chunk([1, 2, 9]));
      response.end('data: [DONE]\n\n');
    };
    const engine = await started();
    expect((await ask(engine, { stop: { max_tokens: 3 } })).finish).toBe('length');
    expect((await ask(engine, { stop: { max_tokens: 9 }, eosTokenIds: [9] })).finish).toBe('stop');
  });

  it('reads events that are cut anywhere, several at a time or commented', async () => {
    const text = `: hello\r\n\r\ndata: ${JSON.stringify(chunk([1]))}\n\ndata: ${JSON.stringify(chunk([2]))}\n\ndata: ${JSON.stringify(chunk([3], 'length'))}\n\ndata: [DONE]\n\n`;
    answer = async ({ response }) => {
      startEvents(response);
      for (let at = 0; at < text.length; at += 7) {
        response.write(text.slice(at, at + 7));
        await new Promise(setImmediate);
      }
      response.end();
    };
    const sink = await ask(await started());
    expect(sink.ids).toEqual([[1, 2, 3]]);
    expect(sink.finish).toBe('length');
  });

  it('stops reading while the reader has no room, and goes on after', async () => {
    const engine = await started();
    const sink = new RecordingSink();
    sink.isFull = true;
    answer = ({ response }) => {
      startEvents(response);
      for (let at = 0; at < 20_000; at++) writeEvent(response, chunk([at]));
      writeEvent(response, chunk([1], 'stop'));
      response.end('data: [DONE]\n\n');
    };
    engine.generate(tokenRequest([5]), sink, never);
    await waitUntil(() => sink.plainIds > 0);
    const before = sink.plainIds;
    expect(before).toBeLessThan(20_000);
    sink.unblock();
    await sink.closed;
    expect(sink.ids[0]).toHaveLength(20_001);
  });

  it('counts prompts that have no output yet as what is still to prefill', async () => {
    const engine = await started();
    const sink = new RecordingSink();
    let go: () => void = () => {};
    answer = ({ response }) => {
      go = () => writeEvent(startEvents(response), chunk([1]));
    };
    engine.generate(tokenRequest([1, 2, 3, 4]), sink, never);
    await waitUntil(() => server.of(GENERATE).length > 1);
    expect(engine.load()[0]?.activePrefillTokens).toBe(4);
    go();
    await waitUntil(() => sink.plainIds > 0);
    expect(engine.load()[0]?.activePrefillTokens).toBe(0);
  });

  it('waits for a server that is still loading, and says what is wrong with one that never comes', async () => {
    server.json('GET /health', {}, 503);
    const starting = started({ startTimeoutMs: 5000 });
    await systemClock.sleep(50);
    server.json('GET /health', {});
    await starting;
    server.json('GET /health', {}, 503);
    await expect(started()).rejects.toThrow(/no engine at .* within 500 ms \(its health check answers 503\)/);
    const aborter = new AbortController();
    const engine = createVllmEngine({ url: server.url }, { clock: systemClock, logger: captureLogger().logger });
    const aborted = engine.start(aborter.signal);
    aborter.abort(new Error('stopped by the caller'));
    await expect(aborted).rejects.toThrow('stopped by the caller');
  });

  it.each([
    ['reports it', 'block_size="16",effective_attention_block_size="256"', 256],
    ['does not report it', 'block_size="16",effective_attention_block_size="None"', 64],
    ['is older', 'block_size="16"', 64],
  ])('knows the blocks of events under context parallelism if vLLM %s', async (_, labels, tokens) => {
    server.on('GET /metrics', ({ response }) => void response.end(`vllm:cache_config_info{${labels}} 1\n`));
    const launchFacts = { ranks: 1, local: 1, firstRank: 0, events: undefined, contextRanks: 4 };
    const { logger } = captureLogger();
    const engine = createVllmEngine({ url: server.url, launchFacts }, { clock: systemClock, logger });
    engines.push(engine);
    expect((await engine.start(never)).kvBlockSizeTokens).toBe(tokens);
  });

  it('tells the cache of an engine that it finds running, and forgets it when another one listens there', async () => {
    const publisher = await new FakePublisher().open();
    publishers.push(publisher);
    const stored = (hash: number) => ({ type: 'BlockStored', block_hashes: [hash], token_ids: [hash], block_size: 1 });
    await publisher.publish([stored(1)]);
    const source = {
      enable_kv_cache_events: true,
      endpoint: publisher.endpoint.replace('127.0.0.1', '*'),
      replay_endpoint: publisher.replayEndpoint.replace('127.0.0.1', '*'),
      topic: 'kv-events',
    };
    server.json('GET /kv_event_sources', { '0': source });
    const engine = await started();
    const kinds: string[] = [];
    engine.onKvEvents((events: readonly KvEvent[]) => kinds.push(...events.map(({ kind }) => kind)));
    await waitUntil(() => kinds.length === 1);
    await server.stop();
    await waitUntil(() =>
      engine.health(never).then(
        () => false,
        () => true,
      ),
    );
    await systemClock.sleep(60); // a reading of the metrics is refused
    await server.start();
    await waitUntil(() => kinds.length === 3);
    expect(kinds).toEqual(['stored', 'cleared', 'stored']);
  });

  describe('with a configured endpoint of KV events', () => {
    const stored = (hash: number) => ({ type: 'BlockStored', block_hashes: [hash], token_ids: [hash], block_size: 1 });
    const prompt = { input: { kind: 'tokens', tokenIds: Uint32Array.of(1, 2, 3, 4) } } as const;

    async function following(
      replays = true,
    ): Promise<FakePublisher & { kinds: string[]; faults: unknown[]; engine: Engine }> {
      const publisher = await new FakePublisher().open();
      publishers.push(publisher);
      const events = {
        endpoint: publisher.endpoint.replace('127.0.0.1', '*'),
        replayEndpoint: replays ? publisher.replayEndpoint.replace('127.0.0.1', '*') : undefined,
        topic: 'kv-events',
      };
      const engine = await started({ launchFacts: { ranks: 1, local: 1, firstRank: 0, events }, eventWaitMs: 200 });
      const kinds: string[] = [];
      const faults: unknown[] = [];
      engine.onKvEvents((batch: readonly KvEvent[]) => kinds.push(...batch.map(({ kind }) => kind)));
      engine.onKvEventFault?.((fault) => faults.push(fault));
      return Object.assign(publisher, { kinds, faults, engine });
    }

    it('follows them although the server says nothing of them', async () => {
      const events = await following();
      await events.publish([stored(1)]);
      await ask(events.engine, prompt);
      await waitUntil(() => events.kinds.length > 0);
      expect(events.faults).toEqual([]);
    });

    it('asks again for what the first prompt brought, where it was said before anybody was connected', async () => {
      const events = await following();
      await waitUntil(() => events.asked.length === 1); // what was said before
      await events.publish([stored(1)], { lost: true });
      await ask(events.engine, prompt);
      await waitUntil(() => events.kinds.length > 0);
      expect(events.faults).toEqual([]);
    });

    it('says so when the first prompt brings none, and when they come after all', async () => {
      const events = await following(false);
      await ask(events.engine, prompt);
      await waitUntil(() => events.faults.length === 1);
      expect(events.faults).toEqual(['no usable event arrived within 200 ms of the answer to a prompt of 4 blocks']);
      await waitUntil(async () => {
        await events.publish([stored(1)]); // a subscriber joins late
        return events.kinds.length > 0;
      });
      expect(events.faults).toHaveLength(2);
      expect(events.faults[1]).toBeUndefined();
    });
  });

  it('says that the cache was not emptied where the engine says that its blocks are in use', async () => {
    const engine = await started();
    server.json('POST /reset_prefix_cache', { success: false });
    await expect(engine.clearKvBlocks?.(never)).rejects.toMatchObject({
      cause: 'the engine has not done /reset_prefix_cache: it is busy; try again when it is idle',
    });
    server.json('POST /reset_prefix_cache', { success: true });
    await engine.clearKvBlocks?.(never);
  });

  it('fails what runs when it stops, and everything after', async () => {
    const engine = await started();
    answer = ({ response }) => writeEvent(startEvents(response), chunk([1]));
    const sink = new RecordingSink();
    engine.generate(tokenRequest([5]), sink, never);
    await waitUntil(() => sink.plainIds === 1);
    await engine.stop();
    await sink.closed;
    expect(sink.error).toMatchObject({ worker: 'EngineShutdown' });
    expect((await ask(engine)).error).toMatchObject({ worker: 'EngineShutdown' });
  });
});
