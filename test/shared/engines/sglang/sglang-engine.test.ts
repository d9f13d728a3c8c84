import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { createSglangEngine } from '../../../../shared/engines/sglang/launch.ts';
import type { EngineRequest } from '../../../../shared/protocol/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../../support/index.ts';
import { FakeEngineServer, type Route, sendJson, startEvents, writeEvent } from '../fake-engine-server.ts';
import { chatRequest, RecordingSink, tokenRequest } from '../recording-sink.ts';

const never = new AbortController().signal;

const SERVER_INFO = {
  version: '0.5.23',
  page_size: 16,
  dp_size: 2,
  max_total_num_tokens: 1600,
  max_running_requests: 8,
  max_prefill_tokens: 4096,
  enable_priority_scheduling: true,
  disaggregation_mode: 'prefill',
  disaggregation_bootstrap_port: 8998,
};

type Finish = Readonly<Record<string, unknown>> | null;

function event(ids: readonly number[], total: number, finish: Finish = null, more: object = {}): object {
  const meta = {
    id: 'r1',
    finish_reason: finish,
    prompt_tokens: 4,
    completion_tokens: total,
    cached_tokens: 2,
    ...more,
  };
  return { text: 'x', output_ids: ids, meta_info: meta };
}

describe('SGLang', () => {
  let server: FakeEngineServer;
  let engine: Engine;
  let answer: Route;

  beforeEach(async () => {
    server = await new FakeEngineServer().start();
    server
      .json('GET /v1/models', { data: [{ id: 'm', max_model_len: 1000 }] })
      .json('GET /model_info', { model_path: '/models/m', served_model_name: 'm', is_generation: true })
      .json('GET /server_info', SERVER_INFO)
      .json('GET /openapi.json', { components: { schemas: { GenerateReqInput: { properties: { cache_salt: {} } } } } })
      .on(
        'GET /metrics',
        ({ response }) =>
          void response.end(
            'sglang:num_running_reqs{dp_rank="1"} 3\nsglang:num_queue_reqs{dp_rank="1"} 2\nsglang:token_usage{dp_rank="1"} 0.5\n',
          ),
      )
      .on('POST /generate', (received) => answer(received));
    engine = createSglangEngine(
      { url: server.url, scrapeIntervalMs: 20 },
      { clock: systemClock, logger: captureLogger().logger },
    );
  });

  afterEach(async () => {
    await engine.stop();
    await server.stop();
  });

  async function ask(fields: Partial<EngineRequest> = {}, signal = never): Promise<RecordingSink> {
    const sink = new RecordingSink();
    engine.generate(tokenRequest([1, 2, 3, 4], { stop: { max_tokens: 9 }, ...fields }), sink, signal);
    await sink.closed;
    return sink;
  }

  const stream =
    (events: readonly object[], tail = 'data: [DONE]\n\n'): Route =>
    ({ response }) => {
      startEvents(response);
      for (const each of events) writeEvent(response, each);
      response.end(tail);
    };

  it('learns what it is and can do', async () => {
    expect(await engine.start(never)).toEqual({
      contextLength: 1000,
      kvBlockSizeTokens: 16,
      totalKvBlocks: 100,
      maxNumSeqs: 8,
      maxNumBatchedTokens: 4096,
      dataParallelSize: 2,
      modelInput: 'Tokens',
      modelType: ['Chat', 'Completions'],
      publishesKvEvents: false,
      takesPromptEmbeds: false,
      samplingSource: { config: 'model', override: {}, own: {} },
      modelName: 'm',
      modelPath: '/models/m',
      bootstrapPort: 8998,
    });
    await waitUntil(() => engine.load()[1]?.runningRequests === 3);
    expect(engine.load()).toMatchObject([
      { dpRank: 0, runningRequests: 0, totalKvBlocks: 100 },
      { dpRank: 1, runningRequests: 3, waitingRequests: 2, usedKvBlocks: 50, totalKvBlocks: 100 },
    ]);
  });

  it.each([
    ['shares attention', { enable_dp_attention: true }, { maxNumSeqs: 4 }],
    ['shares blocks, and reports the page of one rank', { dcp_size: 4 }, { kvBlockSizeTokens: 64 }],
    ['does so in its events as well', { dcp_size: 4, kv_events: { block_size: 16 } }, { kvBlockSizeTokens: 64 }],
    [
      'shares blocks, and reports those of events',
      { dcp_size: 4, kv_events: { block_size: 64 } },
      { kvBlockSizeTokens: 64 },
    ],
  ])('learns what each rank has where it %s', async (_, info, expected) => {
    server.json('GET /server_info', { ...SERVER_INFO, ...info });
    expect(await engine.start(never)).toMatchObject(expected);
  });

  it('works with the older names of its routes', async () => {
    server.routes.delete('GET /model_info');
    server.routes.delete('GET /server_info');
    server.json('GET /get_model_info', { model_path: '/models/old' });
    server.json('GET /get_server_info', { page_size: 1, internal_states: [{ max_total_num_tokens: 500 }] });
    expect(await engine.start(never)).toMatchObject({
      kvBlockSizeTokens: 1,
      totalKvBlocks: 500,
      modelPath: '/models/old',
    });
  });

  it.each([
    ['new ones alone', [event([7], 1), event([8, 9], 3), event([10], 4, { type: 'length', length: 4 })]],
    ['all so far', [event([7], 1), event([7, 8, 9], 3), event([7, 8, 9, 10], 4, { type: 'length', length: 4 })]],
  ])('gives each token once when events hold the %s', async (_, events) => {
    await engine.start(never);
    answer = stream(events);
    const sink = await ask();
    expect(sink.ids).toEqual([[7, 8, 9, 10]]);
    expect(sink.plainIds).toBe(3);
    expect(sink.finish).toBe('length');
    expect(sink.usage).toEqual({
      prompt_tokens: 4,
      completion_tokens: 4,
      total_tokens: 8,
      prompt_tokens_details: { cached_tokens: 2 },
    });
  });

  it('says which token ended the output, and reads log probabilities', async () => {
    await engine.start(never);
    const logprobs = {
      output_token_logprobs: [
        [-0.5, 7, null],
        [-0.25, 8, null],
      ],
      output_top_logprobs: [
        [
          [-0.5, 7, null],
          [-1, 3, null],
        ],
        [[-0.25, 8, null]],
      ],
    };
    answer = stream([event([7, 8], 2, { type: 'stop', matched: 8 }, logprobs)]);
    const sink = await ask({ output: { logprobs: 2 }, stop: { stop_token_ids: [8] } });
    expect(sink.outputs[0]).toEqual({
      index: 0,
      token_ids: [7, 8],
      log_probs: [-0.5, -0.25],
      top_logprobs: [
        [
          { rank: 1, token_id: 7, logprob: -0.5 },
          { rank: 2, token_id: 3, logprob: -1 },
        ],
        [{ rank: 1, token_id: 8, logprob: -0.25 }],
      ],
      finish_reason: 'stop',
      stop_reason: 8,
    });
    expect(server.of('POST /generate')[0]?.body).toMatchObject({ return_logprob: true, top_logprobs_num: 2 });
  });

  it('tells choices apart', async () => {
    await engine.start(never);
    const of = (index: number, each: object): object => ({ index, ...each });
    const end = { type: 'length', length: 1 };
    answer = stream([of(1, event([5], 1, end)), of(0, event([4], 1, end))]);
    const sink = await ask({ sampling: { n: 2 } });
    expect(sink.ids).toEqual([[4], [5]]);
  });

  it('probes a server that prefills for others without a peer, which it would refuse otherwise', async () => {
    await engine.start(never);
    answer = stream([event([7], 1, { type: 'length', length: 1 })]);
    await ask({ isHealthCheck: true });
    await ask();
    const [probe, plain] = server.of('POST /generate').map(({ body }) => body);
    expect(probe).toMatchObject({ bootstrap_host: '2.2.2.2', bootstrap_room: 0 });
    expect(plain).not.toHaveProperty('bootstrap_host');
  });

  it('maps every field', async () => {
    await engine.start(never);
    answer = stream([event([7], 1, { type: 'length', length: 1 })]);
    await ask({
      sampling: {
        temperature: 0.5,
        top_p: 0.9,
        top_k: 0,
        min_p: 0.1,
        seed: 3,
        presence_penalty: 1,
        frequency_penalty: 2,
        repetition_penalty: 1.5,
        logit_bias: { '7': 1 },
        guided_decoding: { choice: ['a.b', 'c'] },
      },
      stop: { max_tokens: 5, min_tokens: 2, stop_token_ids_hidden: [9], max_thinking_tokens: 4 },
      routing: { lora_name: 'ad', cache_salt: 's', priority: 2, dp_rank: 1, prefill_dp_rank: 0 },
      bootstrapInfo: { bootstrap_host: 'h', bootstrap_port: 8998, bootstrap_room: '9223372036854775807' },
      requireReasoning: true,
    });
    const [received] = server.of('POST /generate');
    expect(received?.body).toMatchObject({
      input_ids: [1, 2, 3, 4],
      rid: 'r1',
      stream: true,
      lora_path: 'ad',
      cache_salt: 'adapter:ad:s',
      priority: 2,
      data_parallel_rank: 1,
      disagg_prefill_dp_rank: 0,
      bootstrap_host: 'h',
      bootstrap_port: 8998,
      require_reasoning: true,
      max_thinking_tokens: 4,
      sampling_params: {
        temperature: 0.5,
        top_p: 0.9,
        top_k: -1,
        min_p: 0.1,
        sampling_seed: 3,
        presence_penalty: 1,
        frequency_penalty: 2,
        repetition_penalty: 1.5,
        logit_bias: { '7': 1 },
        regex: '(a\\.b|c)',
        max_new_tokens: 5,
        min_new_tokens: 2,
        stop_token_ids: [9],
      },
    });
    expect(received?.text).toContain('"bootstrap_room":9223372036854775807}'); // every digit of the u64
  });

  it.each([
    ['json', { json: { a: 1 } }, { json_schema: '{"a":1}' }],
    ['regex', { regex: 'x' }, { regex: 'x' }],
    ['grammar', { grammar: 'g' }, { ebnf: 'g' }],
    ['structural_tag', { structural_tag: { t: 1 } }, { structural_tag: '{"t":1}' }],
  ] as const)('guides by %s', async (_, guided_decoding, wanted) => {
    await engine.start(never);
    answer = stream([event([7], 1, { type: 'length', length: 1 })]);
    await ask({ sampling: { guided_decoding } });
    expect(server.of('POST /generate')[0]?.body.sampling_params).toMatchObject(wanted);
  });

  it('turns priorities round, or leaves them out, as the server has them', async () => {
    server.json('GET /server_info', { ...SERVER_INFO, schedule_low_priority_values_first: true });
    await engine.start(never);
    answer = stream([event([7], 1, { type: 'length', length: 1 })]);
    await ask({ routing: { priority: 2 } });
    expect(server.of('POST /generate')[0]?.body.priority).toBe(-2);
    server.json('GET /server_info', { ...SERVER_INFO, enable_priority_scheduling: false });
    server.json('GET /openapi.json', {});
    await engine.start(never);
    await ask({ routing: { priority: 2, cache_salt: 's' } });
    expect(server.of('POST /generate')[1]?.body).not.toHaveProperty('priority');
    expect(server.of('POST /generate')[1]?.body).toMatchObject({ extra_key: 's' });
  });

  it.each([
    ['allowed_token_ids', { sampling: { allowed_token_ids: [1] } }],
    ['bad_words_token_ids', { sampling: { bad_words_token_ids: [[1]] } }],
    ['use_beam_search', { sampling: { use_beam_search: true } }],
  ] as const)('refuses %s, which it cannot honour', async (param, fields) => {
    await engine.start(never);
    expect((await ask(fields)).error).toMatchObject({ worker: 'InvalidArgument', param });
  });

  it('stops a request by its id, as a closed connection is noticed late', async () => {
    await engine.start(never);
    server.json('POST /abort_request', {});
    const aborter = new AbortController();
    const sink = new RecordingSink();
    answer = ({ response }) => writeEvent(startEvents(response), event([7], 1));
    engine.generate(tokenRequest([1]), sink, aborter.signal);
    await waitUntil(() => sink.plainIds === 1);
    aborter.abort();
    await waitUntil(() => server.of('POST /abort_request').length === 1);
    expect(server.of('POST /abort_request')[0]?.body).toEqual({ rid: 'r1' });
    expect([sink.isEnded, sink.error]).toEqual([false, undefined]);
  });

  it.each([
    ['a bad request', stream([{ error: { message: 'too long', code: 400 } }]), 'InvalidArgument', 'too long'],
    [
      'one that it gave up',
      stream([event([], 0, { type: 'abort', message: 'full', status_code: 503 })]),
      'WorkerUnavailable',
      'unavailable',
    ],
    ['ids that do not add up', stream([event([7], 5)]), 'BackendProtocol', 'Bad gateway'],
    ['no ids', stream([{ text: 'x', meta_info: {} }]), 'BackendProtocol', 'Bad gateway'],
    [
      'a refusal',
      (({ response }) => sendJson(response, 400, { error: { message: 'bad' } })) as Route,
      'InvalidArgument',
      'bad',
    ],
  ])('maps %s', async (_, route, worker, words) => {
    await engine.start(never);
    answer = route;
    const { error } = await ask();
    expect(error).toMatchObject({ worker });
    expect(error?.message).toContain(words);
  });

  it('reads log probabilities of the prompt', async () => {
    await engine.start(never);
    const meta = {
      input_token_logprobs: [
        [null, 1, null],
        [-2, 2, null],
      ],
      input_top_logprobs: [null, [[-1, 9, null]]],
      output_token_logprobs: [[-0.5, 7, null]],
    };
    answer = ({ response }) => sendJson(response, 200, event([7], 1, { type: 'length', length: 1 }, meta));
    const sink = await ask({ output: { prompt_logprobs: 1 } });
    expect(server.of('POST /generate')[0]?.body).toMatchObject({ stream: false, logprob_start_len: 0 });
    expect(sink.outputs.at(-1)?.engine_data).toEqual({
      prompt_logprobs: [null, { '9': { logprob: -1 }, '2': { logprob: -2 } }],
    });
  });

  it('loads and unloads adapters, empties the cache, sleeps and wakes', async () => {
    for (const path of [
      'flush_cache',
      'release_memory_occupation',
      'resume_memory_occupation',
      'unload_lora_adapter',
    ]) {
      server.json(`POST /${path}`, {});
    }
    server.json('POST /load_lora_adapter', { error: { message: 'LoRA adapter ad is already loaded.' } }, 400);
    await engine.start(never);
    await engine.clearKvBlocks?.(never);
    await engine.loadLora?.('ad', '/a', never);
    await engine.unloadLora?.('ad', never);
    await engine.sleep?.(1, never);
    expect((await ask()).error).toMatchObject({ worker: 'WorkerUnavailable' });
    await engine.wake?.([], never);
    answer = stream([event([7], 1, { type: 'length', length: 1 })]);
    expect((await ask()).finish).toBe('length');
  });

  it('finds where KV events are, described or configured', async () => {
    const probe = async (info: object): Promise<boolean> => {
      server.json('GET /server_info', { ...SERVER_INFO, dp_size: 1, ...info });
      const { logger, lines } = captureLogger();
      const other = createSglangEngine({ url: server.url }, { clock: systemClock, logger });
      const { publishesKvEvents } = await other.start(never);
      await other.stop();
      endpoint = lines.find(({ message }) => message === 'engine is up')?.fields?.kv_events;
      warnings = lines.flatMap(({ level, message }) => (level === 'warn' ? [message] : []));
      return publishesKvEvents;
    };
    let endpoint: unknown;
    let warnings: string[] = [];
    const described = { publisher: 'zmq', endpoint_host: '*', endpoint_port_base: 45557, topic: '', block_size: 16 };
    expect(await probe({ kv_events: described })).toBe(true);
    expect(endpoint).toBe('tcp://*:45557');
    expect(await probe({ kv_events_config: '{"publisher":"zmq","endpoint":"tcp://*:45558"}' })).toBe(true);
    expect(endpoint).toBe('tcp://*:45558');
    expect(warnings).toEqual([]);
    expect(await probe({ kv_events: { ...described, block_size: 1 }, page_size: 1 })).toBe(true);
    expect(warnings).toEqual([expect.stringContaining('small KV blocks')]);
    expect(await probe({ kv_events_config: '{"publisher":"null"}' })).toBe(false);
    expect(await probe({ kv_events: described, disable_radix_cache: true })).toBe(false);
  });

  describe('answers chats itself', () => {
    const CHATS = '/v1/chat/completions';
    const paths = { [CHATS]: {} };

    async function started(info: object = {}): Promise<Engine> {
      const schemas = { GenerateReqInput: { properties: { cache_salt: {} } } };
      server.json('GET /openapi.json', { paths, components: { schemas } });
      server.json('GET /server_info', { ...SERVER_INFO, disaggregation_mode: 'null', ...info });
      await engine.start(never);
      return engine;
    }

    it('and says so, unless it prefills or decodes for others', async () => {
      const chatEngine = async (mode: string) => {
        await started({ disaggregation_mode: mode });
        return (await engine.start(never)).chatEngine;
      };
      expect(await chatEngine('null')).toBe('sglang');
      expect([await chatEngine('prefill'), await chatEngine('decode')]).toEqual([undefined, undefined]);
    });

    it('with its place in the engine, and with settings where the engine reads them', async () => {
      await started();
      server.json(`POST ${CHATS}`, { choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }] });
      const asked = async (body: object, fields: Partial<EngineRequest> = {}) => {
        const sink = new RecordingSink();
        engine.generate({ ...chatRequest({ ...body }), ...fields }, sink, never);
        await sink.closed;
        const { model: _, ...more } = server.of(`POST ${CHATS}`).at(-1)!.body;
        return more;
      };
      const routing = { cache_salt: 'salt', priority: 2, dp_rank: 1 };
      const place = { rid: 'r1', cache_salt: 'salt', priority: 2, data_parallel_rank: 1 };
      expect(await asked({ nvext: { cache_salt: 'salt' } }, { routing })).toEqual(place);
      const constraints = [
        [{ choice: ['a', 'b.'] }, { regex: '(a|b\\.)' }],
        [{ regex: 'a+' }, { regex: 'a+' }],
        [{ grammar: 'root ::= "a"' }, { ebnf: 'root ::= "a"' }],
        [
          { json: { type: 'object' } },
          { response_format: { type: 'json_schema', json_schema: { name: 'output', schema: { type: 'object' } } } },
        ],
      ] as const;
      for (const [guided_decoding, expected] of constraints) {
        const body = { structured_outputs: guided_decoding };
        expect(await asked(body, { sampling: { guided_decoding } })).toEqual({ rid: 'r1', ...expected });
      }
    });

    it('and stops them by their id', async () => {
      await started();
      server.on(`POST ${CHATS}`, ({ response }) => {
        startEvents(response);
        writeEvent(response, { choices: [{ index: 0, delta: { content: 'x' }, finish_reason: null }] });
      });
      server.json('POST /abort_request', {});
      const stop = new AbortController();
      const sink = new RecordingSink();
      engine.generate(chatRequest({ stream: true }), sink, stop.signal);
      await waitUntil(() => sink.outputs.length > 0);
      stop.abort();
      await waitUntil(() => server.of('POST /abort_request').length > 0);
      expect(server.of('POST /abort_request')[0]?.body).toEqual({ rid: 'r1' });
      expect(server.of(`POST ${CHATS}`)[0]?.body.rid).toBe('r1');
    });
  });
});
