import { describe, expect, it } from 'vitest';
import { type NamedRequest, RequestNames } from '../../../shared/access/index.ts';
import { ServeError, workerError } from '../../../shared/errors/index.ts';
import type { HttpAppDeps } from '../../../shared/frontends/http/deps.ts';
import { RunningRequests } from '../../../shared/frontends/inference/lifecycle.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import { createTestApp, type TestApp } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const ID = '1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';

function post(test: TestApp, path: string, body?: object, headers: Readonly<Record<string, string>> = {}) {
  const request = new Request(`http://localhost${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return Promise.resolve(test.app.fetch(request));
}

function setUp(canceller?: HttpAppDeps['canceller']) {
  const pipeline = new ScriptedPipeline();
  return { pipeline, ...createTestApp({ pipeline, canceller }) };
}

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
const WITH_ID = { 'x-dynamo-request-id': ID, 'x-request-id': 'mine' };

describe('POST /v1/cancel/{id}', () => {
  it.each([`chatcmpl-${ID}`, ID, ID.toUpperCase(), `resp_${ID.replaceAll('-', '')}`])(
    'ends a unary answer as cancelled, asked for as %s',
    async (id) => {
      const test = setUp();
      const answer = post(test, '/v1/chat/completions', CHAT, WITH_ID);
      const { options } = await test.pipeline.call(0);
      const cancelled = await post(test, `/v1/cancel/${id}`);
      expect(cancelled.status).toBe(200);
      expect(await cancelled.json()).toEqual({ id, object: 'cancellation', cancelled: true });
      expect(options.signal.aborted).toBe(true);
      const response = await answer;
      expect(response.status).toBe(499);
      expect(await response.json()).toMatchObject({ error: { code: 'client_closed_request' } });
      expect((await post(test, `/v1/cancel/${id}`)).status).toBe(404);
    },
  );

  it('ends a stream with an error event and counts it as cancelled', async () => {
    const test = setUp();
    const answer = post(test, '/v1/chat/completions', { ...CHAT, stream: true }, WITH_ID);
    const { sink } = await test.pipeline.call(0);
    sink.text(0, 'hello', 1);
    const response = await answer;
    await post(test, `/v1/cancel/${ID}`);
    const frames = parseFrames(await response.text());
    expect(frames.slice(-2)).toMatchObject([
      { data: { error: { message: 'Request cancelled', code: 'client_closed_request' } } },
      { data: '[DONE]' },
    ]);
    const metrics = await test.deps.metrics.render();
    expect(metrics).toMatch(/model_cancellation_total\{[^}]*endpoint="chat_completions"[^}]*\} 1/);
    expect(metrics).toMatch(/requests_total\{[^}]*error_type="cancelled"[^}]*\} 1/);
    expect(test.lifecycle.inflight).toBe(0);
  });

  it('ends every prompt of a batch', async () => {
    const test = setUp();
    const answer = post(test, '/v1/completions', { model: 'm', prompt: ['a', 'b'] }, WITH_ID);
    await test.pipeline.call(1);
    expect((await post(test, `/v1/cancel/cmpl-${ID}`)).status).toBe(200);
    expect(test.pipeline.calls.map(({ options }) => options.signal.aborted)).toEqual([true, true]);
    expect((await answer).status).toBe(499);
  });

  it('does not know a request that has ended, or never was', async () => {
    const test = setUp();
    test.pipeline.onGenerate(({ sink }) => playTexts(sink, ['a']));
    expect((await post(test, '/v1/chat/completions', CHAT, WITH_ID)).status).toBe(200);
    for (const id of [ID, 'mine', 'nope', '%ff']) {
      const response = await post(test, `/v1/cancel/${id}`);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } });
    }
  });
});

describe('POST /v1/cancel/{id} with what a client made up', () => {
  it('does not end a request by its x-request-id, which others may guess', async () => {
    const test = setUp();
    const answer = post(test, '/v1/chat/completions', CHAT, WITH_ID);
    const { sink, options } = await test.pipeline.call(0);
    expect((await post(test, '/v1/cancel/mine')).status).toBe(404);
    expect(options.signal.aborted).toBe(false);
    playTexts(sink, ['a']);
    expect((await answer).status).toBe(200);
  });

  it.each(['mine', 'x'.repeat(4000), `chatcmpl-${ID}x`, `${ID}${ID}`, `${ID}-0-0`, 'resp_1', '%ff', '%2e%2e'])(
    'asks no other process about %s',
    async (id) => {
      const asked: string[] = [];
      const test = setUp({ cancel: async ({ key }) => ({ isCancelled: asked.push(key) > 0, silent: 0 }) });
      const response = await post(test, `/v1/cancel/${id}`);
      expect([response.status, await response.json()]).toMatchObject([404, { error: { code: 'not_found' } }]);
      expect(asked).toEqual([]);
    },
  );
});

/** An edge that shares the secret of names with others, and what its workers are asked. */
function edge(silent = 0, isCancelled = true, secret: string | null = 'shared by all edges') {
  const asked: NamedRequest[] = [];
  const pipeline = new ScriptedPipeline();
  const cancel = async (named: NamedRequest) => {
    asked.push(named);
    return { isCancelled, silent };
  };
  const test = createTestApp({
    pipeline,
    canceller: { cancel },
    ...(secret !== null && { names: new RequestNames(secret) }),
  });
  return { ...test, pipeline, asked };
}

/** Streams an answer that worker 2a serves, and reads its id from the first event. */
async function streamedId(test: ReturnType<typeof edge>, path: string, body: object): Promise<string> {
  const answer = post(test, path, { ...body, stream: true }, WITH_ID);
  const { sink, options } = await test.pipeline.call(test.pipeline.calls.length);
  options.meter.servedBy(...WORKER_2A);
  sink.text(0, 'hello', 1);
  sink.end({ promptTokens: 1, completionTokens: 1 }, true);
  const text = await (await answer).text();
  return /"(?:id)":"((?:chatcmpl|cmpl|msg|resp)[^"]*)"/.exec(text)?.[1] ?? text;
}

const SERVED = { workerId: '2a', dpRank: 0, workerType: 'decode' } as const;
const WORKER_2A = [SERVED, SERVED] as const;
const STREAMS = [
  ['/v1/chat/completions', CHAT],
  ['/v1/completions', { model: 'm', prompt: 'x' }],
  ['/v1/responses', { model: 'm', input: 'x' }],
] as const;

describe('POST /v1/cancel/{id} for a request of another process', () => {
  it.each(STREAMS)('asks the worker that the id of a stream of %s names', async (path, body) => {
    const streaming = edge();
    const other = edge();
    const id = await streamedId(streaming, path, body);
    expect(id).toMatch(/^[\w-]{40,128}$/);
    const cancelled = await post(other, `/v1/cancel/${id}`);
    expect([cancelled.status, await cancelled.json()]).toEqual([200, { id, object: 'cancellation', cancelled: true }]);
    expect(other.asked).toEqual([{ key: ID.replaceAll('-', ''), workerId: '2a' }]);
  });

  it('names no worker for a batch, whose prompts may be at several', async () => {
    const streaming = edge();
    const answer = post(streaming, '/v1/completions', { model: 'm', prompt: ['a', 'b'], stream: true }, WITH_ID);
    for (const at of [0, 1]) {
      const { sink, options } = await streaming.pipeline.call(at);
      options.meter.servedBy(...WORKER_2A);
      sink.text(0, 'hello', 1);
      sink.end({ promptTokens: 1, completionTokens: 1 }, true);
    }
    const other = edge();
    for (const [, id] of (await (await answer).text()).matchAll(/"id":"([^"]*)"/g)) {
      expect((await post(other, `/v1/cancel/${id}`)).status).toBe(200);
    }
    expect(other.asked).toContainEqual({ key: ID.replaceAll('-', ''), workerId: undefined });
    expect(new Set(other.asked.map(({ workerId }) => workerId))).toEqual(new Set([undefined]));
  });

  it('asks no other process about an id that no edge of this deployment has made', async () => {
    const id = await streamedId(edge(), ...STREAMS[0]);
    const other = edge();
    const forged = id.slice(0, -1) + (id.endsWith('0') ? '1' : '0');
    const elsewhere = id.replace('000000000000002a', '000000000000002b');
    for (const made of [ID, `chatcmpl-${ID}`, forged, elsewhere, id.replace('1b4e', '1b4f'), `${id}0`]) {
      expect([made, (await post(other, `/v1/cancel/${made}`)).status]).toEqual([made, 404]);
    }
    expect(other.asked).toEqual([]);
    const foreign = edge(0, true, 'of another deployment');
    expect((await post(foreign, `/v1/cancel/${id}`)).status).toBe(404);
    expect(foreign.asked).toEqual([]);
  });

  it('asks no other process if the edges share no secret and ids are plain', async () => {
    const id = await streamedId(edge(0, true, null), ...STREAMS[0]);
    expect(id).toBe(`chatcmpl-${ID}`);
    const named = await streamedId(edge(), ...STREAMS[0]);
    const other = edge(0, true, null);
    for (const each of [id, named]) expect((await post(other, `/v1/cancel/${each}`)).status).toBe(404);
    expect(other.asked).toEqual([]);
  });

  it('is 404 when no process has the request, and a retryable 503 when some processes did not answer', async () => {
    const id = await streamedId(edge(), ...STREAMS[0]);
    expect((await post(edge(0, false), `/v1/cancel/${id}`)).status).toBe(404);
    const refused = await post(edge(2, false), `/v1/cancel/${id}`);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await refused.json()).toMatchObject({
      error: { code: 'service_unavailable', message: expect.stringMatching(/^2 workers/) },
    });
  });

  it.each([false, true])('ends like one that was cancelled here, streamed: %s', async (stream) => {
    const test = setUp();
    const answer = post(test, '/v1/chat/completions', { ...CHAT, stream }, WITH_ID);
    const { sink } = await test.pipeline.call(0);
    sink.text(0, 'hello', 1);
    sink.fail(workerError('CancelledByClient'));
    const response = await answer;
    const text = await response.text();
    expect(response.status).toBe(stream ? 200 : 499);
    if (stream) {
      const error = { message: 'Request cancelled', code: 'client_closed_request' };
      expect(parseFrames(text).slice(-2)).toMatchObject([{ data: { error } }, { data: '[DONE]' }]);
    }
    const metrics = await test.deps.metrics.render();
    expect(metrics).toMatch(/model_cancellation_total\{[^}]*endpoint="chat_completions"[^}]*\} 1/);
    expect(metrics).toMatch(/requests_total\{[^}]*error_type="cancelled"[^}]*\} 1/);
  });
});

describe('the running requests', () => {
  const OTHER = '9b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b';
  const SINK = { fail: () => {}, abandon: () => {} };

  it('cancels by id and forgets each by itself', () => {
    const running = new RunningRequests();
    const ended: string[] = [];
    const forget = running.add(ID, 'me', (error) => ended.push(`a ${error.code}`), SINK);
    running.add(ID, 'me', (error) => ended.push(`b ${error.code}`), SINK);
    running.add(OTHER, 'me', (error) => ended.push(`c ${error.code}`), SINK);
    expect(running.cancel(ID, 'somebody else')).toBe(false);
    expect(running.cancel(ID, 'me')).toBe(true);
    expect(ended.splice(0)).toEqual(['a client_closed_request', 'b client_closed_request']);
    forget();
    expect(running.cancel('nothing of ours', 'me')).toBe(false);
    expect(running.cancel(`chatcmpl-${ID}`, 'me')).toBe(true);
    expect(ended).toEqual(['b client_closed_request']);
  });

  it('ends them all with one error', () => {
    const running = new RunningRequests();
    const ended: string[] = [];
    running.add(ID, 'me', (error) => ended.push(error.message), SINK);
    running.add(OTHER, 'me', (error) => ended.push(error.message), SINK);
    expect(running.breakOff(new ServeError('service_unavailable', 'over'))).toBe(2);
    expect(ended).toEqual(['over', 'over']);
  });
});

describe('an id that a client chooses', () => {
  it('cannot be that of a request that runs, whatever route it is for', async () => {
    const test = setUp();
    const answer = post(test, '/v1/chat/completions', CHAT, WITH_ID);
    const { sink } = await test.pipeline.call(0);
    for (const [path, body] of [
      ['/v1/chat/completions', CHAT],
      ['/v1/completions', { model: 'm', prompt: 'x' }],
      ['/v1/responses', { model: 'm', input: 'x' }],
    ] as const) {
      const second = await post(test, path, body, { 'x-dynamo-request-id': ID.toUpperCase() });
      expect([second.status, await second.json()]).toMatchObject([
        400,
        { error: { code: 'invalid_value', param: 'x-dynamo-request-id', message: expect.stringContaining('exists') } },
      ]);
    }
    sink.text(0, 'hello', 1);
    sink.end({ promptTokens: 1, completionTokens: 1, cachedTokens: 0 }, true);
    expect((await answer).status).toBe(200);
    const again = post(test, '/v1/chat/completions', CHAT, WITH_ID); // free once it is over
    const { sink: next } = await test.pipeline.call(1);
    next.text(0, 'hello', 1);
    next.end({ promptTokens: 1, completionTokens: 1, cachedTokens: 0 }, true);
    expect((await again).status).toBe(200);
  });

  it('is had by one of two streams that begin at once, and the other leaves no timer behind', async () => {
    const clock = new VirtualClock();
    const pipeline = new ScriptedPipeline();
    const test: TestApp = createTestApp({ pipeline, clock });
    const before = clock.pendingTimers;
    const body = { model: 'm', prompt: 'x', stream: true };
    const both = [1, 2].map(() => post(test, '/v1/completions', body, WITH_ID));
    const { sink } = await pipeline.call(0);
    sink.text(0, 'hello', 1);
    sink.end({ promptTokens: 1, completionTokens: 1, cachedTokens: 0 }, true);
    const responses = await Promise.all(both);
    for (const response of responses) await response.text();
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 400]);
    expect(clock.pendingTimers).toBe(before);
  });

  it('cannot be that of a stored response, which stays as it is', async () => {
    const test = setUp();
    const chosen = { 'x-dynamo-request-id': ID };
    const said = post(test, '/v1/responses', { model: 'm', input: 'mine' }, chosen);
    const { sink } = await test.pipeline.call(0);
    sink.text(0, 'first', 1);
    sink.end({ promptTokens: 1, completionTokens: 1, cachedTokens: 0 }, true);
    expect((await said).status).toBe(200);
    const stored = async () =>
      test.app.fetch(new Request(`http://localhost/v1/responses/resp_${ID.replaceAll('-', '')}`));
    const before = await (await stored()).json();
    const taken = await post(test, '/v1/responses', { model: 'm', input: 'theirs' }, chosen);
    expect([taken.status, await taken.json()]).toMatchObject([400, { error: { param: 'x-dynamo-request-id' } }]);
    expect(await (await stored()).json()).toEqual(before);
  });
});
