import { describe, expect, it } from 'vitest';
import { createTestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const JSON_TYPE = { 'content-type': 'application/json' };

function setUp() {
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
  return createTestApp({
    pipeline,
    settings: {
      corsOrigins: ['*'],
      bodyLimitBytes: 1000,
      anthropic: { isEnabled: true, stripsPreamble: true },
    },
  });
}

const chat = (body: object): RequestInit => ({
  method: 'POST',
  headers: JSON_TYPE,
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...body }),
});

const PREFLIGHT: RequestInit = {
  method: 'OPTIONS',
  headers: { origin: 'https://a.example', 'access-control-request-method': 'POST' },
};

const REQUESTS: readonly [string, number, string, RequestInit?][] = [
  ['a unary answer', 200, '/v1/chat/completions', chat({})],
  ['a stream', 200, '/v1/chat/completions', chat({ stream: true })],
  ['a message', 200, '/v1/messages', chat({ max_tokens: 5 })],
  ['a stream of messages', 200, '/v1/messages', chat({ max_tokens: 5, stream: true })],
  ['a refused message', 400, '/v1/messages', chat({ messages: [] })],
  ['a refused body', 400, '/v1/chat/completions', { method: 'POST', headers: JSON_TYPE, body: '{' }],
  ['a body that is too large', 413, '/v1/chat/completions', chat({ user: 'x'.repeat(2000) })],
  ['another content type', 415, '/v1/chat/completions', { method: 'POST', body: 'x' }],
  [
    'too many headers',
    431,
    '/live',
    { headers: Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`h${at}`, '1'])) },
  ],
  ['an unknown route', 404, '/v1/nothing'],
  ['a method that is not allowed', 405, '/v1/models', { method: 'DELETE' }],
  ['the models', 200, '/v1/models'],
  ['a model', 200, '/v1/models/m'],
  ['an unknown model', 404, '/v1/models/x'],
  ['readiness', 200, '/v1/models/m/ready'],
  ['health', 200, '/health'],
  ['liveness', 200, '/live'],
  ['metrics', 200, '/metrics'],
  ['the description', 200, '/openapi.json'],
  ['the way to the docs', 303, '/docs'],
  ['a cancel', 404, '/v1/cancel/nothing', { method: 'POST' }],
  ['a stored response that does not exist', 404, '/v1/responses/resp_1'],
  ['a preflight', 204, '/v1/chat/completions', PREFLIGHT],
];

describe('x-request-id of every answer', () => {
  it.each(REQUESTS)('is the client’s own: %s', async (_what, status, path, init) => {
    const request = new Request(`http://localhost${path}`, init);
    request.headers.set('x-request-id', 'mine-1');
    const response = await setUp().app.fetch(request);
    await response.arrayBuffer();
    expect([response.status, response.headers.get('x-request-id')]).toEqual([status, 'mine-1']);
  });

  it.each(REQUESTS)('is a new one where the client has none: %s', async (_what, status, path, init) => {
    const { app } = setUp();
    const responses = await Promise.all([1, 2].map(() => app.fetch(new Request(`http://localhost${path}`, init))));
    await Promise.all(responses.map((response) => response.arrayBuffer()));
    const ids = responses.map((response) => response.headers.get('x-request-id'));
    expect(responses.map((response) => response.status)).toEqual([status, status]);
    for (const id of ids) expect(id).toMatch(UUID);
    expect(ids[0]).not.toBe(ids[1]);
  });

  it.each([
    ['is empty', ''],
    ['is longer than 512 characters', 'x'.repeat(513)],
    ['holds a control character', 'a\tb'],
  ])('is a new one where the client’s %s', async (_what, given) => {
    const headers = given === '' ? {} : { 'x-request-id': given };
    const { app, lines } = setUp();
    const response = await app.fetch(
      new Request('http://localhost/v1/chat/completions', { ...chat({}), headers: { ...JSON_TYPE, ...headers } }),
    );
    const id = response.headers.get('x-request-id');
    expect(id).toMatch(UUID);
    expect(lines.at(-1)?.fields).toMatchObject({ x_request_id: id });
  });

  it('names the request in the log line and in the answer where we made it', async () => {
    const { app, lines } = setUp();
    const response = await app.fetch(new Request('http://localhost/v1/chat/completions', chat({})));
    const id = response.headers.get('x-request-id');
    expect(await response.json()).toMatchObject({ id: `chatcmpl-${id}` });
    expect(lines.at(-1)?.fields).toMatchObject({ x_request_id: id, request_id: id });
  });
});
