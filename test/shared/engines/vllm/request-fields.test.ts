import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { createVllmEngine } from '../../../../shared/engines/vllm/launch.ts';
import type { EngineRequest } from '../../../../shared/protocol/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { RecordingSink, tokenRequest } from '../recording-sink.ts';
import { RecordedVllm } from './recorded-vllm.ts';

const never = new AbortController().signal;
const TRACE = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', requestId: 'client-7' };

/** Every field of a request by what vLLM is told. */
const SAMPLING: readonly (readonly [string, Partial<EngineRequest>, Record<string, unknown>])[] = [
  ...['presence_penalty', 'frequency_penalty', 'repetition_penalty', 'temperature', 'top_p', 'min_p'].map(
    (name) => [name, { sampling: { [name]: 0.25 } }, { [name]: 0.25 }] as const,
  ),
  ['top_k', { sampling: { top_k: -1 } }, { top_k: -1 }],
  ['seed', { sampling: { seed: 7 } }, { seed: 7 }],
  ['n', { sampling: { n: 2, temperature: 1 } }, { n: 2 }],
  ['greedy choices', { sampling: { n: 2, temperature: 0 } }, { n: 2, temperature: 1, top_k: 1 }],
  ['best_of that equals n', { sampling: { best_of: 1 } }, {}],
  ['logit_bias', { sampling: { logit_bias: { '42': -1 } } }, { logit_bias: { '42': -1 } }],
  ['allowed_token_ids', { sampling: { allowed_token_ids: [1, 2] } }, { allowed_token_ids: [1, 2] }],
  ['max_tokens', { stop: { max_tokens: 3 } }, { max_tokens: 3 }],
  ['min_tokens', { stop: { min_tokens: 2 } }, { min_tokens: 2 }],
  ['ignore_eos', { stop: { ignore_eos: true } }, { ignore_eos: true }],
  [
    'stop ids of all kinds',
    { stop: { stop_token_ids: [1], stop_token_ids_hidden: [2, 1], stop_token_ids_visible: [3] } },
    { stop_token_ids: [1, 2, 3] },
  ],
  ['max_thinking_tokens', { stop: { max_thinking_tokens: 5 } }, { thinking_token_budget: 5 }],
  ['logprobs', { output: { logprobs: 4 } }, { logprobs: 4 }],
  [
    'json',
    { sampling: { guided_decoding: { json: { type: 'object' } } } },
    { structured_outputs: { json: { type: 'object' } } },
  ],
  [
    'regex',
    { sampling: { guided_decoding: { regex: 'a+', whitespace_pattern: ' ', backend: 'x' } } },
    { structured_outputs: { regex: 'a+', whitespace_pattern: ' ' } },
  ],
  ['choice', { sampling: { guided_decoding: { choice: ['a'] } } }, { structured_outputs: { choice: ['a'] } }],
  ['no choice', { sampling: { guided_decoding: { choice: [] } } }, {}],
  ['grammar', { sampling: { guided_decoding: { grammar: 'g' } } }, { structured_outputs: { grammar: 'g' } }],
  [
    'structural_tag',
    { sampling: { guided_decoding: { structural_tag: { a: 1 } } } },
    { structured_outputs: { structural_tag: '{"a":1}' } },
  ],
];

const REQUEST: readonly (readonly [string, Partial<EngineRequest>, Record<string, unknown>])[] = [
  ['cache_salt', { routing: { cache_salt: 's' } }, { cache_salt: 's' }],
  ['priority, higher = sooner', { routing: { priority: 3 } }, { priority: -3 }],
  ['lora_name', { routing: { lora_name: 'ad' } }, { model: 'ad' }],
  [
    'prefill_result',
    { prefillResult: { disaggregated_params: { kv_transfer_params: { remote_port: 1 } } } },
    { kv_transfer_params: { remote_port: 1 } },
  ],
];

describe('fields of a request at vLLM', () => {
  let server: RecordedVllm;
  let engine: Engine;

  beforeEach(async () => {
    server = await new RecordedVllm().start();
    server.json('GET /kv_event_sources', {});
    const { logger } = captureLogger();
    engine = createVllmEngine({ url: server.url }, { clock: systemClock, logger });
  });

  afterEach(async () => {
    await engine.stop();
    await server.stop();
  });

  async function sent(fields: Partial<EngineRequest>) {
    server.next = 'generate stream';
    const sink = new RecordingSink();
    engine.generate(tokenRequest([5, 6], fields), sink, never);
    await sink.closed;
    return { sink, ...server.received.findLast(({ method }) => method === 'POST')! }; // metrics are read all the time
  }

  it.each(SAMPLING)('%s, by both ways', async (_, fields, wanted) => {
    await engine.start(never);
    const { body } = await sent(fields);
    expect(body.sampling_params).toMatchObject({ detokenize: false, ...wanted });
    if (Object.keys(wanted).length === 0) {
      expect(Object.keys(body.sampling_params as object).sort()).toEqual(['detokenize', 'max_tokens']);
    }
    server.json('GET /openapi.json', { paths: { '/v1/completions': {} } });
    const { logger } = captureLogger();
    const other = createVllmEngine({ url: server.url }, { clock: systemClock, logger });
    await engine.stop();
    engine = other;
    await engine.start(never);
    expect((await sent(fields)).body).toMatchObject({ prompt: [5, 6], return_token_ids: true, ...wanted });
  });

  it.each(REQUEST)('%s', async (_, fields, wanted) => {
    await engine.start(never);
    expect((await sent(fields)).body).toMatchObject({ model: 'tiny', token_ids: [5, 6], ...wanted });
  });

  it('extra arguments go where each way takes them', async () => {
    await engine.start(never);
    expect((await sent({ extraArgs: { a: 1 } })).body.sampling_params).toMatchObject({ extra_args: { a: 1 } });
    const input = { kind: 'tokens', tokenIds: new Uint32Array(0), promptEmbeds: 'AAAA' } as const;
    const { body, path } = await sent({ extraArgs: { a: 1 }, input });
    expect([path, body.prompt_embeds, body.vllm_xargs]).toEqual(['/v1/completions', 'AAAA', { a: 1 }]);
  });

  it('rank, session, request id and trace go as headers', async () => {
    await engine.start(never);
    const { headers } = await sent({ id: 'r9', routing: { dp_rank: 2, session_id: 's 1' }, trace: TRACE });
    expect(headers).toMatchObject({
      'x-request-id': 'r9',
      'x-data-parallel-rank': '2',
      traceparent: TRACE.traceparent,
    });
    expect(headers['x-session-id']).toBeUndefined(); // no text that a header takes
  });

  it.each([
    ['bad_words_token_ids', { sampling: { bad_words_token_ids: [[1]] } }],
    ['use_beam_search', { sampling: { use_beam_search: true } }],
    ['best_of', { sampling: { best_of: 3 } }],
  ] as const)('refuses %s, which it cannot honour', async (name, fields) => {
    await engine.start(never);
    const { sink } = await sent(fields);
    expect(sink.error).toMatchObject({
      worker: 'InvalidArgument',
      param: name,
      message: `${name} is not supported by vLLM`,
    });
  });

  it('refuses media beside tokens', async () => {
    await engine.start(never);
    const { sink } = await sent({ multiModalData: { image_url: [{ Url: 'x' }] } });
    expect(sink.error).toMatchObject({ worker: 'NotImplemented' });
  });
});
