import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import { type EngineRequest, encodeEngineRequest, toPreprocessedRequest } from '../../../../shared/protocol/index.ts';

const REQUEST: EngineRequest = {
  id: 'a',
  model: 'qwen',
  input: { kind: 'tokens', tokenIds: Uint32Array.of(1, 4_294_967_295) },
  stop: { max_tokens: 3, stop: ['END'], ignore_eos: true, stop_token_ids_visible: [9] },
  sampling: { temperature: 0, seed: 7, guided_decoding: { regex: 'a+' } },
  output: { logprobs: 2 },
  eosTokenIds: [5],
  routing: {},
  annotations: ['worker_id'],
};

function written(changes: Partial<EngineRequest>): Record<string, unknown> {
  const { body, tokenIds } = encodeEngineRequest({ ...REQUEST, ...changes });
  return toPreprocessedRequest(body, tokenIds);
}

function refusal(changes: Partial<EngineRequest>): unknown {
  try {
    written(changes);
  } catch (error) {
    return error instanceof ServeError && [error.code, error.param, error.message];
  }
  return 'not refused';
}

describe('a request for a worker of Dynamo', () => {
  it('carries the prompt as a plain list, and the terms of generation under the same names', () => {
    expect(written({})).toEqual({
      model: 'qwen',
      token_ids: [1, 4_294_967_295],
      stop_conditions: REQUEST.stop,
      sampling_options: REQUEST.sampling,
      output_options: REQUEST.output,
      eos_token_ids: [5],
      annotations: ['worker_id'],
    });
    expect(Array.isArray(written({}).token_ids)).toBe(true);
  });

  it('names instances by exact integers', () => {
    const routing = {
      backend_instance_id: '694d98147d54be25',
      decode_worker_id: '1f',
      allowed_worker_ids: ['ffffffffffffffff', '2'],
      dp_rank: 1,
    };
    expect(written({ routing }).routing).toEqual({
      backend_instance_id: 7_587_888_160_958_627_365n,
      decode_worker_id: 31,
      allowed_worker_ids: [18_446_744_073_709_551_615n, 2],
      dp_rank: 1,
    });
  });

  it('leaves out the hints that only the router of Stator reads', () => {
    const routing = { session_id: 's', prompt_cache_key: 'k', cache_ttl_ms: 1 };
    expect(written({ routing })).not.toHaveProperty('routing');
  });

  it('gives the salt of the cache to the router and to the engine', () => {
    const request = written({ routing: { cache_salt: 'tenant' }, extraArgs: { nvext: { extra_fields: ['timing'] } } });
    expect(request.routing).toEqual({ cache_salt: 'tenant' });
    expect(request.extra_args).toEqual({ nvext: { extra_fields: ['timing'], cache_salt: 'tenant' } });
  });

  it('hands over a prefill, a rendezvous and an encoding', () => {
    const parts = {
      prefillResult: { disaggregated_params: { kv_transfer_params: { remote_port: 1 } } },
      bootstrapInfo: { bootstrap_host: 'h', bootstrap_port: 1, bootstrap_room: '18446744073709551615' },
      encoderResult: { ec_transfer_params: {} },
      multiModalData: { image_url: [{ Url: 'https://a/b.png' }] },
      mmProcessorKwargs: { use_audio_in_video: true },
      requireReasoning: true,
      isHealthCheck: true,
    };
    expect(written(parts)).toMatchObject({
      prefill_result: parts.prefillResult,
      bootstrap_info: {
        ...parts.bootstrapInfo,
        bootstrap_room: 18_446_744_073_709_551_615n,
        handoff_id: Buffer.from('ffffffffffff8000800000000000ffff', 'hex'),
      },
      encoder_result: parts.encoderResult,
      multi_modal_data: parts.multiModalData,
      mm_processor_kwargs: parts.mmProcessorKwargs,
      require_reasoning: true,
      _HEALTH_CHECK: true,
    });
  });

  it('is the body of the client for a worker that takes text, and always asks for a stream', () => {
    const body = { model: 'qwen', messages: [{ role: 'user', content: 'hi' }], stream: false };
    const chat = { kind: 'text' as const, endpoint: 'chat_completions', body };
    expect(written({ input: chat, routing: { dp_rank: 2 } })).toEqual({
      ...body,
      stream: true,
      routing: { dp_rank: 2 },
    });
    const images = { kind: 'text' as const, endpoint: 'images', body: { prompt: 'a cat' } };
    expect(written({ input: images })).toEqual({ prompt: 'a cat' });
  });

  it('asks for the embedding of a prompt as Dynamo does', () => {
    expect(written({ embedding: { dimensions: 8 } })).toEqual({
      model: 'qwen',
      token_ids: [[1, 4_294_967_295]],
      encoding_format: 'base64',
      dimensions: 8,
      mdc_sum: null,
      annotations: ['worker_id'],
    });
  });

  it('is refused if it would lose a part, by name and without the content of the prompt', () => {
    expect(refusal({ sampling: { logit_bias: { 5: 1 } } })).toEqual([
      'unsupported_parameter',
      'logit_bias',
      "logit_bias has no place in the requests of Dynamo's workers",
    ]);
    expect(refusal({ routing: { decode_worker_id: 'secret prompt' } })).toEqual([
      'invalid_value',
      'routing.decode_worker_id',
      'routing.decode_worker_id has the wrong type',
    ]);
    const bootstrapInfo = { bootstrap_host: 'h', bootstrap_port: 1, bootstrap_room: '1e3' };
    expect(refusal({ bootstrapInfo })).toContain('bootstrap_info.bootstrap_room');
    expect(refusal({ annotations: ['release_prefill'] })).toContain('not_implemented');
  });
});
