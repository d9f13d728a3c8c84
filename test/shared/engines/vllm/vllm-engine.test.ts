import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { createVllmEngine, type VllmEngineOptions } from '../../../../shared/engines/vllm/launch.ts';
import type { EngineRequest } from '../../../../shared/protocol/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../../support/index.ts';
import type { Received } from '../fake-engine-server.ts';
import { chatRequest, RecordingSink, tokenRequest } from '../recording-sink.ts';
import { RecordedVllm } from './recorded-vllm.ts';

const never = new AbortController().signal;
const PROMPT = Array.from({ length: 70 }, (_, at) => ((at * 7) % 250) + 1);

describe('vLLM, as it was recorded', () => {
  let server: RecordedVllm;
  const engines: Engine[] = [];

  beforeEach(async () => {
    server = await new RecordedVllm().start();
    server.json('GET /kv_event_sources', {}); // its sockets are not there
  });

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop();
    await server.stop();
  });

  async function started(options: Partial<VllmEngineOptions> = {}): Promise<Engine> {
    const { logger } = captureLogger();
    const engine = createVllmEngine(
      { url: server.url, scrapeIntervalMs: 20, ...options },
      { clock: systemClock, logger },
    );
    engines.push(engine);
    await engine.start(never);
    return engine;
  }

  /** Without `/inference/v1/generate`, as most servers are. */
  function hideGenerate(): void {
    server.routes.delete('POST /inference/v1/generate');
    server.json('GET /openapi.json', { paths: { '/v1/completions': {} } });
  }

  async function ask(engine: Engine, name: string, fields: Partial<EngineRequest> = {}): Promise<RecordingSink> {
    server.next = name;
    const sink = new RecordingSink();
    engine.generate(tokenRequest(PROMPT, { stop: { max_tokens: 8 }, ...fields }), sink, never);
    await sink.closed;
    return sink;
  }

  /** The last request that was no reading of the metrics, which goes on all the time. */
  const lastSent = (): Received => server.received.findLast(({ method }) => method === 'POST')!;
  const sent = (): Record<string, unknown> => lastSent().body;

  it.each([
    ['says', 200, { vllm_config: { scheduler_config: { max_num_seqs: 128, max_num_batched_tokens: 2048 } } }, 2048],
    ['cannot say', 500, {}, undefined],
    ['says in words', 200, { vllm_config: 'scheduler_config=SchedulerConfig(max_num_seqs=128)' }, undefined],
  ])(
    '%s how much it runs at once where it has the route, and what was given counts',
    async (_, status, said, tokens) => {
      server.json('GET /openapi.json', {
        paths: { '/server_info': {}, '/inference/v1/generate': {}, '/v1/completions': {} },
      });
      server.json('GET /server_info', said, status);
      const { logger } = captureLogger();
      const engine = createVllmEngine({ url: server.url, maxNumSeqs: 9 }, { clock: systemClock, logger });
      engines.push(engine);
      expect(await engine.start(never)).toMatchObject({ maxNumSeqs: 9, maxNumBatchedTokens: tokens });
      expect(server.of('GET /server_info').map(({ path }) => path)).toEqual(['/server_info?config_format=json']);
    },
  );

  it('learns what it is and can do', async () => {
    const { logger, lines } = captureLogger();
    const engine = createVllmEngine({ url: server.url }, { clock: systemClock, logger });
    engines.push(engine);
    expect(await engine.start(never)).toEqual({
      contextLength: 4096,
      kvBlockSizeTokens: 32,
      totalKvBlocks: 512,
      maxNumSeqs: undefined,
      maxNumBatchedTokens: undefined,
      dataParallelSize: 1,
      modelInput: 'Tokens',
      modelType: ['Chat', 'Completions'],
      chatEngine: 'vllm',
      publishesKvEvents: false,
      modelName: 'tiny',
      modelPath: '/models/tiny',
    });
    expect(lines).toMatchObject([{ fields: { version: '0.32.0', tokens: '/inference/v1/generate' } }]);
  });

  it('says that it is a CPU where its version says so', async () => {
    server.json('GET /version', { version: '0.33.0+cpu' });
    const { logger } = captureLogger();
    const engine = createVllmEngine({ url: server.url }, { clock: systemClock, logger });
    engines.push(engine);
    expect((await engine.start(never)).deviceType).toBe('cpu');
  });

  it.each([
    ['/inference/v1/generate', 'generate'],
    ['/v1/completions', 'completions'],
  ])('gives tokens, finish and usage by %s', async (path, way) => {
    if (way === 'completions') hideGenerate();
    const sink = await ask(await started(), `${way} stream`);
    expect(lastSent().path).toBe(path);
    expect(sink.ids).toEqual([[420, 315, 324, 187, ...(sink.ids[0] ?? []).slice(4)]]);
    expect(sink.ids[0]).toHaveLength(8);
    expect(sink.plainIds).toBeGreaterThan(3); // those that came without an object each
    expect(sink.finish).toBe('length');
    expect(sink.usage).toMatchObject({ prompt_tokens: 70, completion_tokens: 8, total_tokens: 78 });
    expect(sink.isEnded).toBe(true);
  });

  it.each(['generate', 'completions'])('gives log probabilities by %s with ids, never texts', async (way) => {
    if (way === 'completions') hideGenerate();
    const sink = await ask(await started(), `${way} logprobs`, { output: { logprobs: 2 }, stop: { max_tokens: 3 } });
    const [first] = sink.outputs;
    expect(first).toMatchObject({ token_ids: [420], log_probs: [-5.77878999710083] });
    expect(first?.top_logprobs).toEqual([
      [
        { rank: 1, token_id: 420, logprob: -5.77878999710083 },
        { rank: 2, token_id: 84, logprob: -5.82566499710083 },
      ],
    ]);
    expect(sink.ids).toEqual([[420, 315, 324]]);
  });

  it.each(['generate', 'completions'])('tells choices apart by %s', async (way) => {
    if (way === 'completions') hideGenerate();
    const sink = await ask(await started(), `${way} n 2`, {
      sampling: { n: 2, temperature: 1 },
      stop: { max_tokens: 3 },
    });
    expect(sink.ids.map((ids) => ids.length)).toEqual([3, 3]);
    expect(sink.outputs.filter(({ finish_reason: reason }) => reason === 'length').map(({ index }) => index)).toEqual([
      0, 1,
    ]);
  });

  it('says which of the client’s tokens ended the output, and nothing of the model’s own end', async () => {
    const engine = await started();
    const stop = { max_tokens: 8, stop_token_ids: [420] };
    const named = await ask(engine, 'generate stop id', { stop });
    expect(named.outputs[0]).toMatchObject({ token_ids: [420], finish_reason: 'stop', stop_reason: 420 });
    const own = await ask(engine, 'generate stop id', { stop: { max_tokens: 8, stop_token_ids_hidden: [420] } });
    expect(own.outputs[0]).toEqual({ index: 0, token_ids: [420], finish_reason: 'stop' });
  });

  it.each(['generate', 'completions'])(
    'reads log probabilities of the prompt by %s, for which it does not stream',
    async (way) => {
      if (way === 'completions') hideGenerate();
      const output = { prompt_logprobs: 1 };
      const sink = await ask(await started(), `${way} whole`, { output, stop: { max_tokens: 1 } });
      expect(sent()).toMatchObject({ stream: false });
      const data = sink.outputs.find(({ engine_data: data }) => data !== undefined)?.engine_data;
      expect(data?.prompt_logprobs).toHaveLength(70);
      expect(data?.prompt_logprobs).toMatchObject({ 0: null, 1: { '8': { logprob: -6.305112361907959 } } });
      expect(sink.finish).toBe('length');
    },
  );

  it.each([
    ['generate too long', 'InvalidArgument', 400, 'longer than the maximum model length'],
    ['generate bad token', 'InvalidArgument', 400, 'Token id 99999 is out of vocabulary'],
    ['generate bad sampling', 'InvalidArgument', 400, 'temperature must be non-negative'],
    ['generate bad rank', 'InvalidArgument', 400, 'data_parallel_rank 1 is out of range [0, 1).'],
    ['generate salt bad', 'InvalidArgument', 400, 'cache_salt'],
    ['generate unknown model', 'NotFound', 404, 'Resource not found'],
    ['completions too long', 'InvalidArgument', 400, 'maximum context length is 4096'],
    ['completions unknown model', 'NotFound', 404, 'Resource not found'],
  ])('maps the recorded fault %s', async (name, kind, status, words) => {
    if (name.startsWith('completions')) hideGenerate();
    const { error } = await ask(await started(), name);
    expect(error).toMatchObject({ worker: kind, status });
    expect(error?.message).toContain(words);
  });

  it('fills max_tokens with the rest of the context, which one way would cut at 16', async () => {
    await ask(await started(), 'generate stream', { stop: {} });
    expect(sent().sampling_params).toMatchObject({ max_tokens: 4096 - 70 });
    hideGenerate();
    await ask(await started(), 'completions stream', { stop: {} });
    expect(sent()).toMatchObject({ max_tokens: 4096 - 70, return_token_ids: true, skip_special_tokens: false });
  });

  it('sends prefills for a decode worker and hands on what it needs', async () => {
    const engine = await started({ isPrefill: true });
    const whole = server.exchange('generate kv params');
    const params = { do_remote_prefill: true, remote_block_ids: [[7]], remote_port: 5600 };
    server.on('POST /inference/v1/generate', ({ response }) => {
      const body = JSON.parse(whole.chunks.join('')) as object;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...body, kv_transfer_params: params }));
    });
    const sink = await ask(engine, 'generate kv params', { stop: { max_tokens: 99, min_tokens: 5 } });
    expect(sent()).toMatchObject({
      stream: false,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, remote_host: null },
      sampling_params: { max_tokens: 1, min_tokens: 1 },
    });
    expect(sink.outputs[0]).toMatchObject({
      disaggregated_params: { kv_transfer_params: params },
      finish_reason: 'length',
    });
    const probe = await ask(engine, 'generate stream', { isHealthCheck: true });
    expect(sent().kv_transfer_params).toBeUndefined();
    expect(probe.isEnded || probe.error !== undefined).toBe(true);
  });

  it('reads load and metrics again and again', async () => {
    const engine = await started();
    const metrics = server.exchange('metrics').chunks.join('');
    const busy = metrics
      .replace(/(vllm:num_requests_running\{[^}]*\}) [\d.]+/, '$1 3.0')
      .replace(/(vllm:num_requests_waiting\{[^}]*\}) [\d.]+/, '$1 2.0')
      .replace(/(vllm:kv_cache_usage_perc\{[^}]*\}) [\d.]+/, '$1 0.25');
    server.on('GET /metrics', ({ response }) => void response.end(busy));
    await waitUntil(() => engine.load()[0]?.runningRequests === 3);
    expect(engine.load()).toEqual([
      {
        dpRank: 0,
        runningRequests: 3,
        waitingRequests: 2,
        usedKvBlocks: 128,
        totalKvBlocks: 512,
        activePrefillTokens: 0,
      },
    ]);
    expect(engine.metricsText?.()).toBe(busy);
  });

  it('loads and unloads adapters, empties the cache, sleeps and wakes', async () => {
    const engine = await started();
    await engine.loadLora?.('ad', '/adapters/ad', never);
    expect(sent()).toEqual({ lora_name: 'ad', lora_path: '/adapters/ad' });
    await ask(engine, 'generate lora', { routing: { lora_name: 'ad' } });
    expect(sent()).toMatchObject({ model: 'ad' });
    server.next = 'load lora twice';
    await engine.loadLora?.('ad', '/adapters/ad', never); // an engine may outlive the worker that loaded it
    server.next = undefined;
    await engine.unloadLora?.('ad', never);
    await engine.clearKvBlocks?.(never);
    await engine.sleep?.(2, never);
    expect(lastSent().path).toBe('/sleep?level=2');
    expect((await ask(engine, 'generate stream')).error).toMatchObject({ worker: 'WorkerUnavailable' });
    server.next = undefined;
    await engine.wake?.(['weights', 'kv_cache'], never);
    expect(lastSent().path).toBe('/wake_up?tags=weights&tags=kv_cache');
    expect((await ask(engine, 'generate stream')).isEnded).toBe(true);
  });

  it('says what an engine without development routes does not have', async () => {
    const engine = await started();
    server.routes.delete('POST /reset_prefix_cache');
    await expect(engine.clearKvBlocks?.(never)).rejects.toMatchObject({ worker: 'NotImplemented' });
    server.next = 'load lora unknown path';
    await expect(engine.loadLora?.('x', '/nowhere', never)).rejects.toMatchObject({ worker: 'NotFound' });
  });

  it('says what to change when the engine gives no ids, or does not serve the model', async () => {
    hideGenerate();
    server.json('POST /v1/completions', { choices: [{ index: 0, text: 'x', finish_reason: 'length' }] });
    await expect(started()).rejects.toThrow('needs vLLM 0.12 or later');
    server.json('POST /v1/completions', { error: { message: 'the core is dead' } }, 500);
    await expect(started()).rejects.toThrow('answered its first request with 500: the core is dead');
    await expect(started({ modelName: 'other' })).rejects.toThrow('does not serve `other` (it lists: tiny)');
  });

  it('serves embeddings of models that have nothing else', async () => {
    server.json('GET /openapi.json', { paths: { '/v1/embeddings': {}, '/v1/models': {} } });
    const usage = { prompt_tokens: 3, total_tokens: 3 };
    server.json('POST /v1/embeddings', { data: [{ index: 0, embedding: [0.5, -2] }], usage });
    const engine = await started();
    const sink = await ask(engine, 'x', { embedding: { dimensions: 2 } });
    expect(sent()).toMatchObject({ model: 'tiny', input: PROMPT, dimensions: 2 });
    const bytes = Buffer.alloc(8);
    bytes.writeFloatLE(0.5, 0);
    bytes.writeFloatLE(-2, 4);
    expect(sink.outputs[0]?.body).toEqual({ embeddings: [bytes.toString('base64')], ...usage });
    expect(sink.isEnded).toBe(true);
  });

  it('takes chats with media beside prompts in tokens, or chats alone where it gives no tokens', async () => {
    const { logger } = captureLogger();
    const factsOf = async () => {
      const engine = createVllmEngine({ url: server.url, takesMedia: true }, { clock: systemClock, logger });
      engines.push(engine);
      const { modelInput, modelType, takesMediaChats = false } = await engine.start(never);
      return { modelInput, modelType, takesMediaChats };
    };
    const both = { modelInput: 'Tokens', modelType: ['Chat', 'Completions'], takesMediaChats: true };
    expect(await factsOf()).toEqual(both);
    hideGenerate();
    server.json('POST /v1/completions', { choices: [{ index: 0, text: 'x' }] });
    expect(await factsOf()).toEqual({ modelInput: 'Text', modelType: ['Chat'], takesMediaChats: false });
  });

  it('passes a chat on as it is when the engine renders it itself', async () => {
    const engine = await started({ takesText: true });
    server.next = 'chat stream';
    const sink = new RecordingSink();
    const body = { model: 'ours', stream: true, messages: [{ role: 'user', content: [{ type: 'image_url' }] }] };
    const input = { kind: 'text', endpoint: 'chat_completions', body } as const;
    engine.generate({ ...tokenRequest([]), input }, sink, never);
    await sink.closed;
    expect(sent()).toEqual({ ...body, model: 'tiny', stream_options: { include_usage: true } });
    expect(sink.finish).toBe('length');
    expect(sink.outputs[0]?.body).toMatchObject({ object: 'chat.completion.chunk' });
  });

  it('passes a chat on with its place in the engine, and with settings where the engine reads them', async () => {
    const engine = await started();
    server.next = 'chat stream';
    const asked = async (body: object, fields: Partial<EngineRequest>) => {
      const sink = new RecordingSink();
      engine.generate({ ...chatRequest({ stream: true, ...body }), ...fields }, sink, never);
      await sink.closed;
      const { stream: _, stream_options: __, model: ___, ...more } = sent();
      return more;
    };
    const routing = { cache_salt: 'salt', priority: 2, dp_rank: 1, session_id: 's' };
    expect(await asked({ nvext: { cache_salt: 'salt' } }, { routing })).toEqual({ cache_salt: 'salt', priority: -2 });
    expect(lastSent().headers).toMatchObject({
      'x-data-parallel-rank': '1',
      'x-session-id': 's',
      'x-request-id': 'r1',
    });
    const nvext = { greed_sampling: true, ignore_eos: true, top_k: 5, max_thinking_tokens: 9, annotations: [] };
    expect(await asked({ nvext, top_p: 0.5, temperature: 1, top_k: 3 }, {})).toEqual({
      temperature: 0,
      top_k: 3,
      ignore_eos: true,
      thinking_token_budget: 9,
    });
    const sampling = { guided_decoding: { choice: ['a', 'b'] } };
    const constrained = { structured_outputs: { choice: ['a', 'b'] } };
    for (const body of [{ guided_choice: ['a', 'b'] }, { nvext: { guided_choice: ['a', 'b'] } }, constrained]) {
      expect(await asked(body, { sampling })).toEqual(constrained);
    }
    const forced = { tool_choice: 'required', tools: [] };
    expect(await asked(forced, { sampling: { guided_decoding: { json: {} } } })).toEqual(forced);
  });

  it('says that it answers chats itself, if it has the route and computes whole answers', async () => {
    const { logger } = captureLogger();
    const chatEngine = async (options: object = {}) => {
      const engine = createVllmEngine({ url: server.url, ...options }, { clock: systemClock, logger });
      engines.push(engine);
      return (await engine.start(never)).chatEngine;
    };
    expect(await chatEngine()).toBe('vllm');
    expect(await chatEngine({ takesText: true })).toBe('vllm');
    expect(await chatEngine({ isPrefill: true })).toBeUndefined();
    server.json('GET /openapi.json', { paths: { '/inference/v1/generate': {}, '/v1/completions': {} } });
    expect(await chatEngine()).toBeUndefined();
    server.json('GET /openapi.json', { detail: 'Not Found' }, 404);
    expect(await chatEngine()).toBe('vllm');
  });
});
