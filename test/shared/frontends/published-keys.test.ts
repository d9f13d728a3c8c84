import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Deployment, startDeployment } from '../../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../../support/dynamo-http/records.ts';
import { type PublishedKeys, readSdkKeys } from '../../support/sdk-keys.ts';

/** What the installed client declares; written anew by `npx vitest run test/shared/frontends/published-keys.test.ts -u`. */
const FIXTURE = new URL('../../fixtures/openai-sdk/request-keys.json', import.meta.url);
const { keys: KEYS } = JSON.parse(readFileSync(FIXTURE, 'utf8')) as PublishedKeys;

const FUNCTION = { name: 'f', parameters: { type: 'object', properties: {} } };
const CHAT = { model: 'plain', messages: [{ role: 'user', content: 'hi' }] };
const RESPONSE = { model: 'plain', input: 'hi' };
const PICTURE = 'data:image/png;base64,iVBORw0KGgo=';

/** The shortest good body of each route. */
const BODIES: Readonly<Record<string, object>> = {
  '/v1/chat/completions': CHAT,
  '/v1/completions': { model: 'plain', prompt: 'hi' },
  '/v1/embeddings': { model: 'emb', input: 'hi' },
  '/v1/responses': RESPONSE,
  '/v1/responses/compact': RESPONSE,
  '/v1/responses/input_tokens': RESPONSE,
  '/v1/images/generations': { model: 'img', prompt: 'a cat' },
  '/v1/images/edits': { model: 'img', prompt: 'a cat', input_reference: PICTURE },
};

/** Good values by key, first by what the route makes of it. */
const VALUES: Readonly<Record<string, unknown>> = {
  '/v1/responses tools': [{ type: 'function', ...FUNCTION }],
  '/v1/responses/input_tokens tools': [{ type: 'function', ...FUNCTION }],
  '/v1/responses prompt': { id: 'pmpt_1' },
  '/v1/responses background': true,
  '/v1/responses moderation': { model: 'omni-moderation-latest' },
  '/v1/chat/completions moderation': { model: 'omni-moderation-latest' },
  '/v1/chat/completions logprobs': true,
  '/v1/images/edits response_format': 'url',
  '/v1/images/generations response_format': 'url',
  '/v1/embeddings encoding_format': 'float',
  '/v1/embeddings dimensions': 8,
  audio: { voice: 'alloy', format: 'mp3' },
  background: 'opaque',
  best_of: 2,
  context_management: [{ type: 'compaction', compact_threshold: 1000 }],
  conversation: 'conv_1',
  echo: true,
  frequency_penalty: 0.5,
  function_call: 'auto',
  functions: [FUNCTION],
  image: PICTURE,
  include: ['reasoning.encrypted_content'],
  input_fidelity: 'high',
  instructions: 'Be brief.',
  logit_bias: { '5': 1 },
  logprobs: 1,
  mask: PICTURE,
  max_completion_tokens: 5,
  max_output_tokens: 16,
  max_tokens: 5,
  max_tool_calls: 3,
  metadata: { a: 'b' },
  modalities: ['text'],
  moderation: 'low',
  n: 2,
  output_compression: 50,
  output_format: 'png',
  parallel_tool_calls: true,
  partial_images: 1,
  personality: 'friendly',
  prediction: { type: 'content', content: 'x' },
  presence_penalty: 0.5,
  previous_response_id: `resp_${'0'.repeat(32)}`,
  prompt_cache_key: 'k',
  prompt_cache_options: { mode: 'implicit', ttl: '30m' },
  prompt_cache_retention: '24h',
  quality: 'high',
  reasoning: { effort: 'low' },
  reasoning_effort: 'low',
  response_format: { type: 'text' },
  safety_identifier: 's',
  seed: 7,
  service_tier: 'auto',
  size: '1024x1024',
  stop: ['x'],
  store: true,
  stream: false,
  stream_options: { include_usage: true },
  style: 'vivid',
  suffix: ' end',
  temperature: 0.5,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [{ type: 'function', function: FUNCTION }],
  top_logprobs: 2,
  top_p: 0.5,
  truncation: 'auto',
  user: 'u',
  verbosity: 'low',
  web_search_options: {},
};

/** Keys that are good only beside others. */
const BESIDE: Readonly<Record<string, object>> = {
  '/v1/chat/completions tool_choice': { tools: VALUES.tools },
  '/v1/chat/completions parallel_tool_calls': { tools: VALUES.tools },
  '/v1/chat/completions top_logprobs': { logprobs: true },
  '/v1/chat/completions stream_options': { stream: true },
  '/v1/completions stream_options': { stream: true },
  '/v1/completions best_of': { n: 1 },
};

/** Keys that change what is answered and that nothing here can honour: refused by name. */
const REFUSED: Readonly<Record<string, string>> = {
  '/v1/chat/completions function_call': '400 unsupported_parameter',
  '/v1/chat/completions functions': '400 unsupported_parameter',
  '/v1/chat/completions moderation': '400 unsupported_parameter',
  '/v1/completions suffix': '400 unsupported_parameter',
  '/v1/responses background': '400 unsupported_parameter',
  '/v1/responses conversation': '400 unsupported_parameter',
  '/v1/responses moderation': '400 unsupported_parameter',
  '/v1/responses prompt': '400 unsupported_parameter',
  '/v1/responses previous_response_id': '404 previous_response_not_found', // of that id, not of the key
  '/v1/responses/compact previous_response_id': '404 previous_response_not_found',
};

let deployment: Deployment;
beforeAll(async () => {
  deployment = await startDeployment('default', FIXTURES, new Map());
});
afterAll(() => deployment.close());

it('the known keys are those that the installed client declares', async () => {
  const declared = `${JSON.stringify(readSdkKeys(), undefined, 2)}\n`;
  await expect(declared).toMatchFileSnapshot(FIXTURE.pathname);
});

describe.each(Object.entries(KEYS))('every published key of POST %s', (route, keys) => {
  it.each(keys)('%s is honoured or harmless, or refused by name when it changes the answer', async (key) => {
    const place = `${route} ${key}`;
    const given = BODIES[route] as Readonly<Record<string, unknown>>;
    const value = VALUES[place] ?? given[key] ?? VALUES[key];
    expect(value, `a value for ${key}`).toBeDefined();
    const response = await fetch(`http://127.0.0.1:${deployment.port}${route}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...given, [key]: value, ...BESIDE[place] }),
    });
    const text = await response.text();
    const refusal = REFUSED[place];
    if (refusal === undefined) {
      expect(response.status, text).toBe(200);
      return;
    }
    const { error } = JSON.parse(text) as { readonly error: { readonly code: string; readonly param: string } };
    expect(`${response.status} ${error.code}`).toBe(refusal);
    expect(error.param).toBe(key);
  });
});
