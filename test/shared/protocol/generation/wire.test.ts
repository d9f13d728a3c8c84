import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import {
  decodeEngineRequest,
  type EngineRequest,
  encodeEngineRequest,
  healthCheckRequest,
} from '../../../../shared/protocol/index.ts';

const record = fc.dictionary(
  fc.string({ maxLength: 8 }).filter((key) => key !== '__proto__'),
  fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null), fc.array(fc.integer(), { maxLength: 3 })),
  { maxKeys: 4 },
);
/** Any number but -0, which msgpack takes for 0. */
const decimal = fc.double({ noNaN: true }).map((value) => value + 0);
const tokenIds = fc.array(fc.nat(0xffff_ffff), { maxLength: 20 });
const input: fc.Arbitrary<EngineRequest['input']> = fc.oneof(
  tokenIds.map((ids) => ({ kind: 'tokens' as const, tokenIds: Uint32Array.from(ids) })),
  fc.string().map((promptEmbeds) => ({ kind: 'tokens' as const, tokenIds: new Uint32Array(0), promptEmbeds })),
  fc.record({ kind: fc.constant('text' as const), endpoint: fc.string(), body: record }),
  fc.record({ kind: fc.constant('tensor' as const), body: record }),
);
const request = fc.record(
  {
    id: fc.uuid(),
    model: fc.string(),
    input,
    stop: fc.record(
      { max_tokens: fc.nat(), stop: fc.array(fc.string()), ignore_eos: fc.boolean() },
      { requiredKeys: [] },
    ),
    sampling: fc.record({ temperature: decimal, seed: fc.maxSafeInteger() }, { requiredKeys: [] }),
    output: fc.record({ logprobs: fc.nat(20) }, { requiredKeys: [] }),
    eosTokenIds: tokenIds,
    routing: fc.record({ decode_worker_id: fc.constant('1fffffffffffff'), dp_rank: fc.nat() }, { requiredKeys: [] }),
    annotations: fc.array(fc.string()),
    routerConfigOverride: fc.record({ router_temperature: decimal }),
    mdcSum: fc.string(),
    prefillResult: fc.record({ disaggregated_params: record }),
    bootstrapInfo: fc.record({
      bootstrap_host: fc.string(),
      bootstrap_port: fc.nat(65_535),
      bootstrap_room: fc.constant('18446744073709551615'),
    }),
    encoderResult: record,
    multiModalData: fc.record({ image_url: fc.array(record) }),
    mmRoutingInfo: record,
    mmProcessorKwargs: record,
    extraArgs: record,
    requireReasoning: fc.constant(true),
    router: fc.record({ ttft_target: fc.integer() }),
    agentContext: record,
    requestTimestampMs: decimal,
    isHealthCheck: fc.constant(true),
  },
  { requiredKeys: ['id', 'model', 'input', 'stop', 'sampling', 'output', 'eosTokenIds', 'routing', 'annotations'] },
) as fc.Arbitrary<EngineRequest>;

const packr = new Packr({ useRecords: false });

describe('the record of a request', () => {
  it('reads back as it was, over msgpack', () => {
    fc.assert(
      fc.property(request, (sent) => {
        const wire = encodeEngineRequest(sent);
        const body = packr.unpack(packr.pack(wire.body));
        expect(decodeEngineRequest(sent.id, body, wire.tokenIds)).toEqual(sent);
      }),
    );
  });

  it('never carries token ids, nor anything under a name of our own', () => {
    const names = new Set(fc.sample(request, 500).flatMap((sent) => Object.keys(encodeEngineRequest(sent).body)));
    expect([...names].filter((name) => /[A-Z]/.test(name))).toEqual(['_HEALTH_CHECK']);
    expect(names.has('token_ids')).toBe(false);
  });

  it('leaves out what is false or absent', () => {
    const plain = decodeEngineRequest('r', { model: 'm' }, undefined);
    const { body } = encodeEngineRequest({ ...plain, isHealthCheck: false, requireReasoning: false });
    expect(Object.keys(body).sort()).toEqual([
      'annotations',
      'eos_token_ids',
      'model',
      'output_options',
      'routing',
      'sampling_options',
      'stop_conditions',
    ]);
  });

  it('takes absent and null for the same, and ignores keys it does not know', () => {
    const body = { model: 'm', stop_conditions: null, routing: null, text_input: null, prompt_embeds: null, later: 1 };
    expect(decodeEngineRequest('r', body, undefined)).toEqual({
      id: 'r',
      model: 'm',
      input: { kind: 'tokens', tokenIds: new Uint32Array(0) },
      stop: {},
      sampling: {},
      output: {},
      eosTokenIds: [],
      routing: {},
      annotations: [],
    });
  });

  it.each([
    ['stop_conditions', 'text'],
    ['sampling_options', []],
    ['eos_token_ids', 7],
    ['annotations', {}],
    ['mdc_sum', 1],
    ['request_timestamp_ms', '1'],
    ['_HEALTH_CHECK', 1],
    ['prompt_embeds', {}],
    ['text_input', { endpoint: 'embeddings' }],
    ['text_input', { body: {} }],
    ['tensor_input', 'x'],
  ])('refuses %s = %j and names it', (field, value) => {
    expect(() => decodeEngineRequest('r', { [field]: value }, undefined)).toThrow(
      expect.objectContaining({ code: 'invalid_value', param: field, message: `${field} has the wrong type` }),
    );
  });
});

describe('the smallest request that proves an engine alive', () => {
  const probe = (more: object) => healthCheckRequest('c', { model: 'm', input: 'Tokens', types: ['Chat'], ...more });
  const tokens = (...ids: readonly number[]) => ({ kind: 'tokens', tokenIds: Uint32Array.from(ids) });

  it.each([
    ['a model of tokens', {}, tokens(1)],
    ['one whose texts begin with a token', { bosTokenId: 128_000 }, tokens(128_000)],
    ['a prefill engine', { types: ['Prefill'], bosTokenId: 2 }, tokens(2)],
    ['a prefill engine where prompts are text', { input: 'Text', types: ['Prefill'], bosTokenId: 2 }, tokens(2)],
    [
      'a model of text',
      { input: 'Text', types: ['Completions'] },
      { kind: 'text', endpoint: 'completions', body: { model: 'm', max_tokens: 1, temperature: 0, prompt: 'Test' } },
    ],
  ])('asks %s for one greedy token', (_, more, input) => {
    const common = { stop: { max_tokens: 1 }, sampling: { temperature: 0 }, isHealthCheck: true };
    expect(probe(more)).toMatchObject({ id: 'c', model: 'm', input, ...common });
  });

  it.each([{ types: ['Images'] }, { types: ['Embedding'] }, { input: 'Tensor' }])('is absent for %j', (more) => {
    expect(probe(more)).toBeUndefined();
  });
});

describe('the number of choices', () => {
  const decode = (n: unknown) => decodeEngineRequest('r', { sampling_options: { n } }, Uint32Array.of(1));

  it.each([2_000_000_000, 129, -1, 1.5, '2', {}])('is refused before anything is made of it: %s', (n) => {
    expect(() => decode(n)).toThrow('sampling_options.n must be an integer of at most 128');
  });

  it.each([undefined, null, 1, 128])('may be %s', (n) => {
    expect(decode(n).sampling.n).toBe(n);
  });
});
