import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { errorCodes } from '../../../shared/errors/codes.ts';
import { type ErrorCode, ServeError, workerError } from '../../../shared/errors/index.ts';
import { serverAttributes } from '../../../shared/frontends/inference/server-attributes.ts';
import { type Span, Tracer } from '../../../shared/telemetry/index.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { playTexts, type ScriptedCall, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

/** One request, and the two spans that came of it. */
async function ask(play: (call: ScriptedCall) => void, body: object = CHAT, options: TestAppOptions = {}) {
  const ended: Span[] = [];
  const clock = new VirtualClock();
  const tracer = new Tracer({ clock, random: seededRandom(1), sinks: [{ ended: (span) => ended.push(span) }] });
  const pipeline = new ScriptedPipeline().onGenerate(play);
  const { app } = createTestApp({ pipeline, tracer, clock, ...options });
  const leaving = new AbortController();
  const request = new Request('http://edge.test:8080/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', host: 'edge.test:8080' },
    body: JSON.stringify(body),
    signal: leaving.signal,
  });
  return { pipeline, leaving, response: app.fetch(request), spans: () => ended, read: () => read(ended) };
}

function read(ended: readonly Span[]) {
  const [operation, transport] = ended.map(({ name, error, attributes, kind }) => ({ name, error, attributes, kind }));
  return { operation: operation!, transport: transport!, count: ended.length };
}

const failWith =
  (error: ServeError) =>
  ({ sink }: ScriptedCall) =>
    sink.fail(error);

describe('the spans of a request', () => {
  it('name each failure by its code; the transport has failed only where the server has', async () => {
    for (const code of errorCodes) {
      const { response, read } = await ask(failWith(new ServeError(code as ErrorCode, 'why')));
      const { status } = await response;
      const { operation, transport, count } = read();
      const isCancel = code === 'client_closed_request';
      expect([code, count, operation.error]).toEqual([code, 2, isCancel ? undefined : code]);
      expect([code, transport.error]).toEqual([code, status >= 500 ? code : undefined]);
      expect(transport.attributes['http.response.status_code']).toBe(status);
      for (const { attributes, error } of [operation, transport]) expect(attributes['error.type']).toBe(error);
    }
  });

  it('fail where a stream does, whose status was good', async () => {
    const { response, read } = await ask(
      ({ sink }) => {
        sink.text(0, 'Hi', 1);
        sink.fail(workerError('Disconnected'));
      },
      { ...CHAT, stream: true },
    );
    await (await response).text();
    const { operation, transport } = read();
    expect(transport.attributes['http.response.status_code']).toBe(200);
    expect(operation.error).toBe(transport.error);
    expect(transport.error).toEqual(expect.any(String));
    expect(operation.attributes['gen_ai.response.id']).toMatch(/^chatcmpl-/);
  });

  it.each([false, true])('of a client that leaves have not failed, streamed: %s', async (stream) => {
    const { response, leaving, read, pipeline } = await ask(({ sink }) => sink.text(0, 'Hi', 1), { ...CHAT, stream });
    if (stream) await (await response).body?.cancel();
    else {
      response.catch(() => undefined);
      await pipeline.call(0);
      leaving.abort();
      await Promise.resolve();
    }
    const { operation, transport } = read();
    expect([operation.error, transport.error]).toEqual([undefined, undefined]);
    expect(transport.attributes['request.outcome']).toBe('cancelled');
    expect(transport.attributes['http.response.status_code']).toBe(stream ? 200 : undefined);
    if (!stream) expect(operation.attributes).not.toHaveProperty('gen_ai.response.id');
  });

  it('leave out what neither the client nor the worker stated', async () => {
    const { response, read } = await ask(({ sink }) => playTexts(sink, ['Hi']), {
      ...CHAT,
      temperature: null,
      seed: null,
    });
    await response;
    const { operation, transport } = read();
    for (const { attributes } of [operation, transport]) {
      for (const value of Object.values(attributes)) expect(value).not.toBeNull();
    }
    expect(Object.keys(operation.attributes).filter((name) => name.startsWith('gen_ai.request.'))).toEqual([
      'gen_ai.request.model',
    ]);
    expect(transport.attributes).toMatchObject({
      'url.scheme': 'http',
      'server.address': 'edge.test',
      'server.port': 8080,
    });
  });
});

it.each([
  ['edge.test', 'https', 'edge.test', 443],
  ['edge.test:8080', 'https', 'edge.test', 8080],
  ['[::1]:81', 'http', '::1', 81],
  ['[::1]', 'http', '::1', 80],
  ['10.0.0.1', undefined, '10.0.0.1', undefined],
  ['user@edge.test', 'http', undefined, undefined],
  ['a b', 'http', undefined, undefined],
  ['', 'http', undefined, undefined],
  [undefined, 'http', undefined, undefined],
])('the address that %s names', (authority, scheme, address, port) => {
  const told = serverAttributes(authority, scheme);
  expect([told['server.address'], told['server.port']]).toEqual([address, port]);
});
