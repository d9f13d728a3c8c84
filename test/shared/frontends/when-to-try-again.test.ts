import { afterEach, describe, expect, it } from 'vitest';
import { type ErrorCode, ServeError } from '../../../shared/errors/index.ts';
import { createTestApp } from '../../support/http-app.ts';
import { defaultHttpSettings } from '../../support/http-settings.ts';
import { KserveClient } from '../../support/kserve/kserve-client.ts';
import { startScriptedKserve } from '../../support/kserve/scripted-server.ts';
import { ScriptedPipeline, servedModel } from '../../support/scripted-pipeline.ts';
import { CREATE, closeServers, openServer, SocketClient } from './node/socket-bed.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];
const STREAM = { stream: true };
const CHAT = { model: 'm', messages: MESSAGES };
const DIALECTS = [
  ['/v1/chat/completions', CHAT],
  ['/v1/chat/completions', { ...CHAT, ...STREAM }],
  ['/v1/completions', { model: 'm', prompt: 'hi' }],
  ['/v1/completions', { model: 'm', prompt: 'hi', ...STREAM }],
  ['/v1/responses', { model: 'm', input: 'hi' }],
  ['/v1/responses', { model: 'm', input: 'hi', ...STREAM }],
  ['/v1/messages', { ...CHAT, max_tokens: 9 }],
  ['/v1/messages', { ...CHAT, max_tokens: 9, ...STREAM }],
  ['/v1/embeddings', { model: 'vectors', input: 'hi' }],
] as const;

/** Failures that time may mend: whoever throws one may say when, and need not. */
const FAILURES = (['service_unavailable', 'worker_lost', 'server_overloaded', 'rate_limit_exceeded'] as const).flatMap(
  (code) => [
    { code, retryAfterMs: undefined, seconds: '1', ms: '1000' },
    { code, retryAfterMs: 2500, seconds: '3', ms: '2500' },
  ],
);
const GRPC_STATUS: Readonly<Record<(typeof FAILURES)[number]['code'], number>> = {
  service_unavailable: 14,
  worker_lost: 14,
  server_overloaded: 8,
  rate_limit_exceeded: 8,
};
const failureOf = (code: ErrorCode, retryAfterMs?: number): ServeError =>
  new ServeError(code, 'not now', { retryAfterMs });
const settings = { anthropic: { ...defaultHttpSettings.anthropic, isEnabled: true } };
const POST = { method: 'POST', headers: { 'content-type': 'application/json' } };

const served = servedModel('m');
const vectors = servedModel('vectors', { card: { ...served.card, model_type: ['Embedding'] } });

afterEach(closeServers);

describe.each(DIALECTS)('%s with %o', (path, body) => {
  const ask = (error: ServeError): Promise<Response> => {
    const pipeline = new ScriptedPipeline([served, vectors]).onGenerate(({ sink }) => sink.fail(error));
    const { app } = createTestApp({ pipeline, settings });
    return Promise.resolve(app.fetch(new Request(`http://h${path}`, { ...POST, body: JSON.stringify(body) })));
  };

  it.each(FAILURES)('says when to try again: $code, $retryAfterMs ms', async ({ code, retryAfterMs, seconds }) => {
    const response = await ask(failureOf(code, retryAfterMs));
    expect([429, 503, 529]).toContain(response.status);
    expect(response.headers.get('retry-after')).toBe(seconds);
  });

  it.each(['invalid_value', 'internal_error', 'insufficient_quota'] as const)(
    'says nothing of it: %s',
    async (code) => {
      expect((await ask(failureOf(code))).headers.get('retry-after')).toBeNull();
    },
  );
});

it.each(FAILURES)('a WebSocket tells it in its error event: $code, $retryAfterMs ms', async (failure) => {
  const { code, retryAfterMs, seconds } = failure;
  const { server } = await openServer({ play: ({ sink }) => sink.fail(failureOf(code, retryAfterMs)) });
  const client = await new SocketClient(server.port).opened();
  const told = await client.ask(CREATE);
  expect(told).toMatchObject({ type: 'error', error: { code }, headers: { 'retry-after': seconds } });
});

it.each(FAILURES)('gRPC tells it in its trailers: $code, $retryAfterMs ms', async ({ code, retryAfterMs, ms }) => {
  const gate = { admit: () => Promise.reject(failureOf(code, retryAfterMs)), close: () => {} };
  const models = await startScriptedKserve({ gate });
  const client = new KserveClient(`127.0.0.1:${models.server.port}`);
  try {
    for (const rpc of ['ModelInfer', 'ModelStreamInfer']) {
      const told = await client.ask(rpc, [{ model_name: 'text', inputs: [] }]);
      expect([rpc, told.code, told.retryMs]).toEqual([rpc, GRPC_STATUS[code], ms]);
    }
  } finally {
    client.close();
    await models.close();
  }
});
