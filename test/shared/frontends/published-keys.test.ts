import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Deployment, startDeployment } from '../../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../../support/dynamo-http/records.ts';
import { BESIDE, PICTURE, VALUES } from '../../support/parameter-values.ts';
import { type PublishedKeys, readSdkKeys } from '../../support/sdk-keys.ts';

/** What the installed client declares; written anew by `npx vitest run test/shared/frontends/published-keys.test.ts -u`. */
const FIXTURE = new URL('../../fixtures/openai-sdk/request-keys.json', import.meta.url);
const { keys: KEYS } = JSON.parse(readFileSync(FIXTURE, 'utf8')) as PublishedKeys;

const CHAT = { model: 'plain', messages: [{ role: 'user', content: 'hi' }] };
const RESPONSE = { model: 'plain', input: 'hi' };

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
