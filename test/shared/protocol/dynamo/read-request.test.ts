import { readFileSync } from 'node:fs';
import { Unpackr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import {
  decodeEngineRequest,
  type EngineRequest,
  encodeEngineRequest,
  fromPreprocessedRequest,
  toPreprocessedRequest,
} from '../../../../shared/protocol/index.ts';

const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true });

/** Returns the bodies of requests that the frontend of Dynamo 1.6.1 sent, each in a message with control record. */
function recorded(): unknown[] {
  const lines = readFileSync('test/fixtures/dynamo/frontend-requests-1.6.1.hex', 'utf8').trim().split('\n');
  return lines.map((line) => {
    const bytes = Buffer.from(line, 'hex');
    const headersAt = 2 + bytes.readUInt16BE(0);
    const payloadAt = headersAt + 2 + bytes.readUInt16BE(headersAt) + 4;
    return unpackr.unpack(bytes.subarray(payloadAt + 24 + Number(bytes.readBigUInt64BE(payloadAt))));
  });
}

function decoded(value: unknown): EngineRequest {
  const { body, tokenIds } = fromPreprocessedRequest(value);
  return decodeEngineRequest('id', body as Record<string, unknown>, tokenIds);
}

describe('a request of a frontend of Dynamo', () => {
  it('has its prompt and only the terms that it states', () => {
    const [plain, full, choices] = recorded().map(decoded);
    expect(plain).toEqual({
      id: 'id',
      model: 'qwen3',
      input: {
        kind: 'tokens',
        tokenIds: Uint32Array.of(151_644, 872, 198, 6023, 151_645, 198, 151_644, 77_091, 198),
      },
      stop: { max_tokens: 2, stop_token_ids_hidden: [151_645, 151_643] },
      sampling: {},
      output: {},
      eosTokenIds: [151_645, 151_643],
      routing: {},
      annotations: [],
    });
    expect(full).toMatchObject({
      stop: { max_tokens: 3, stop: ['END'] },
      sampling: { presence_penalty: 0.5, seed: 7, guided_decoding: { json: { type: 'object' } } },
      output: { logprobs: 2 },
      routing: { cache_salt: 'tenant', priority: 3, priority_jump: 3 },
      annotations: ['token_ids'],
    });
    expect(choices).toMatchObject({ sampling: { n: 2, top_k: 5 }, output: { logprobs: 1 } });
  });

  it('is the request of Stator that was written as one of Dynamo', () => {
    const request: EngineRequest = {
      id: 'id',
      model: 'qwen3',
      input: { kind: 'tokens', tokenIds: Uint32Array.of(1, 2) },
      stop: { max_tokens: 1 },
      sampling: { temperature: 0 },
      output: { logprobs: 1 },
      eosTokenIds: [3],
      routing: { decode_worker_id: '694d98147d54be25', dp_rank: 1, lora_name: 'l' },
      annotations: ['a'],
      prefillResult: { disaggregated_params: { kv: 1 } },
      bootstrapInfo: { bootstrap_host: 'h', bootstrap_port: 1, bootstrap_room: '18446744073709551615' },
      encoderResult: { e: 1 },
      multiModalData: { image_url: [{ Url: 'https://a/b.png' }] },
      requireReasoning: true,
      isHealthCheck: true,
    };
    const { body, tokenIds } = encodeEngineRequest(request);
    expect(decoded(toPreprocessedRequest(body, tokenIds))).toEqual(request);
  });

  it('is the body of a client if the worker reads text, and a tensor if it has tensors', () => {
    const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true };
    expect(decoded({ ...chat, routing: { dp_rank: 1 } })).toMatchObject({
      model: 'm',
      input: { kind: 'text', endpoint: 'chat_completions', body: chat },
      routing: { dp_rank: 1 },
    });
    expect(decoded({ model: 'm', prompt: 'hi' }).input).toMatchObject({ endpoint: 'completions' });
    expect(decoded({ model: 'm', input: ['hi'] }).input).toMatchObject({ endpoint: 'embeddings' });
    const tensors = { model: 'm', tensors: [] };
    expect(decoded(tensors).input).toEqual({ kind: 'tensor', body: tensors });
  });

  it('asks for an embedding if it has a list of prompts', () => {
    const request = { model: 'm', token_ids: [[1, 2]], encoding_format: null, dimensions: 8, mdc_sum: 's' };
    expect(decoded(request)).toMatchObject({
      input: { kind: 'tokens', tokenIds: Uint32Array.of(1, 2) },
      embedding: { dimensions: 8 },
    });
    const both = fromPreprocessedRequest({ ...request, token_ids: [[1], [2, 3]] });
    expect(both).toMatchObject({ tokenIds: undefined, prompts: [Uint32Array.of(1), Uint32Array.of(2, 3)] });
    expect(() => fromPreprocessedRequest({ ...request, token_ids: [[1], 2] })).toThrow();
    expect(() => fromPreprocessedRequest({ ...request, token_ids: Array(2049).fill([1]) })).toThrow();
  });

  it('is as it is for an endpoint that does not generate', () => {
    expect(fromPreprocessedRequest({ lora_name: 'l' })).toEqual({ body: { lora_name: 'l' }, tokenIds: undefined });
    expect(fromPreprocessedRequest(null)).toEqual({ body: null, tokenIds: undefined });
  });

  it.each([
    [{ token_ids: 'secret' }, 'token_ids'],
    [{ token_ids: [1, -1] }, 'token_ids'],
    [{ token_ids: [1.5] }, 'token_ids'],
    [{ token_ids: [1], stop_conditions: 'secret' }, 'stop_conditions'],
    [{ token_ids: [1], sampling_options: [] }, 'sampling_options'],
    [{ token_ids: [1], routing: 7 }, 'routing'],
    [
      { token_ids: [1], bootstrap_info: { bootstrap_host: 'h', bootstrap_port: 1, bootstrap_room: 0.5 } },
      'bootstrap_room',
    ],
  ])('is refused by the name of its wrong field: %j', (value, field) => {
    expect(() => decoded(value)).toThrow(new RegExp(`${field} has the wrong type`));
    expect(() => decoded(value)).not.toThrow(/secret/);
  });
});
