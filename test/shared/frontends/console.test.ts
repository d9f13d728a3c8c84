import { describe, expect, it } from 'vitest';
import { ANYBODY } from '../../../shared/access/index.ts';
import type { ConsoleFleet } from '../../../shared/console/wire/fleet.ts';
import type { ConsoleRequestDetail, ConsoleRequests } from '../../../shared/console/wire/requests.ts';
import { LIMITS, ServeError, workerError } from '../../../shared/errors/index.ts';
import { WebFrameSink } from '../../../shared/frontends/fetch/web-exchange.ts';
import { serveConsole } from '../../../shared/frontends/http/console/api.ts';
import type { HttpExchange } from '../../../shared/frontends/http/exchange/exchange.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const EVENTS = { accept: 'text/event-stream' };

function bed({ showsPrompts = false, ...options }: TestAppOptions & { readonly showsPrompts?: boolean } = {}) {
  const clock = new VirtualClock();
  const shown = openConsoleBed(clock, 1000, { showsPrompts });
  shown.setModels([model({ workers: [worker('a1')] })]);
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['SECRET answer']));
  const test = createTestApp({ pipeline, clock, console: shown.open, ...options });
  const ask = (path: string, init: RequestInit = {}) =>
    Promise.resolve(test.app.fetch(new Request(`http://localhost${path}`, init)));
  const chat = () =>
    ask('/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'SECRET question' }] }),
    });
  return { ...test, ...shown, clock, ask, chat };
}

/** Reads a stream of events, and returns what has come so far. */
function readEvents(response: Response) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const state = { text: '', hasEnded: false };
  const reading = (async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      state.text += value;
    }
    state.hasEnded = true;
  })();
  return { state, leave: () => reader.cancel().then(() => reading) };
}

describe('GET /console/api', () => {
  it('is the fleet as JSON, and the requests without any text of them', async () => {
    const { ask, chat } = bed();
    const answer = await (await chat()).text();
    const fleet = (await (await ask('/console/api')).json()) as ConsoleFleet;
    expect(fleet.workers).toMatchObject([{ id: 'a1', model: 'letters', pool: 'aggregated' }]);
    expect(fleet.hour.step_ms).toBe(10_000);
    const response = await ask('/console/api?view=requests&model=m');
    expect(response.headers.get('cache-control')).toBe('no-store');
    const text = await response.text();
    expect(text).not.toContain('SECRET');
    const [request] = (JSON.parse(text) as ConsoleRequests).requests;
    expect(request).toMatchObject({ model: 'm', endpoint: 'chat_completions', status: 200, output_tokens: 2 });
    const detail = await ask(`/console/api/requests/${JSON.parse(answer).id}`);
    expect(((await detail.json()) as ConsoleRequestDetail).request.number).toBe(request?.number);
  });

  it.each([
    ['its client left', 499, (body: ReadableStream) => body.cancel(), undefined],
    ['its worker failed', 200, (body: ReadableStream) => new Response(body).text(), workerError('Disconnected')],
  ])('has the tokens and the cost of a stream until %s', async (_what, status, end, failure) => {
    const clock = new VirtualClock();
    const tokenPrices = [{ model: 'm', inputUsd: 1, outputUsd: 100, cachedUsd: 0.5 }];
    const shown = openConsoleBed(clock, 1000, { tokenPrices });
    const pipeline = new ScriptedPipeline().onGenerate(({ sink, options: { meter } }) => {
      const worker = { workerId: 'a1', workerType: 'decode' } as const;
      meter.promptTokens(1000);
      meter.servedBy(worker, worker);
      meter.cachedTokens(600);
      meter.outputTokens(3);
      sink.text(0, 'Let me', 3);
      if (failure !== undefined) sink.fail(failure);
    });
    const { app, lines } = createTestApp({ pipeline, clock, console: shown.open });
    const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] });
    const headers = { 'content-type': 'application/json' };
    const chat = await app.fetch(
      new Request('http://localhost/v1/chat/completions', { method: 'POST', headers, body }),
    );
    await end(chat.body!);
    const answer = await app.fetch(new Request('http://localhost/console/api?view=requests'));
    const [request] = ((await answer.json()) as ConsoleRequests).requests;
    const used = { prompt_tokens: 1000, cached_tokens: 600, output_tokens: 3 };
    expect(request).toMatchObject({ status, ...used, cost_usd: (400 * 1 + 600 * 0.5 + 3 * 100) / 1e6 });
    const line = lines.find(({ message }) => message === 'request completed');
    expect(line?.fields).toMatchObject({ status, input_tokens: 1000, cached_tokens: 600, output_tokens: 3 });
  });

  it.each([true, false])('has prompt and answer of one request if the setting shows them: %s', async (showsPrompts) => {
    const { ask, chat } = bed({ showsPrompts });
    await (await chat()).text();
    expect(await (await ask('/console/api?view=requests')).text()).not.toContain('SECRET');
    const detail = (await (await ask('/console/api/requests/0')).json()) as ConsoleRequestDetail;
    if (!showsPrompts) {
      expect(JSON.stringify(detail)).not.toContain('SECRET');
      expect(detail).toMatchObject({ text: null, no_text: expect.stringContaining('--console-show-prompts') });
      return;
    }
    expect(detail.text).toMatchObject({
      prompt: [{ role: 'user', text: 'SECRET question' }],
      answers: [{ text: 'SECRET answer' }],
    });
  });

  it('says why a request has no decision, and that it does not know others', async () => {
    const { ask, chat } = bed();
    await chat();
    const detail = (await (await ask('/console/api/requests/0')).json()) as ConsoleRequestDetail;
    expect(detail).toMatchObject({ decision: null, no_decision: expect.stringContaining('--router-mode kv') });
    expect((await ask('/console/api/requests/1')).status).toBe(404);
  });

  it.each([
    ['view=flet', 'view'],
    ['view=fleet&key=k', 'key'],
    ['view=requests&outcome=good', 'outcome'],
    ['view=requests&before=-1', 'before'],
    ['nothing=1', 'nothing'],
    [`model=${'m'.repeat(2000)}`, 'model'],
  ])('is 400 for ?%s', async (query, param) => {
    const response = await bed().ask(`/console/api?${query}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param, code: 'invalid_value' } });
  });

  it('sends events to clients that take them, until they leave', async () => {
    const { ask, clock, open } = bed();
    const response = await ask('/console/api', { headers: EVENTS });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const { state, leave } = readEvents(response);
    await waitUntil(() => state.text.startsWith('event: fleet\ndata: {'));
    await clock.advance(1000);
    await waitUntil(() => state.text.includes('event: change\ndata: {'));
    await leave();
    await waitUntil(() => open.viewers.size === 0);
    expect(clock.pendingTimers).toBe(0);
  });

  it('ends its events once the key of the client is revoked, and not while keys cannot be looked up', async () => {
    let failure: ServeError | undefined;
    const admit = () => {
      if (failure !== undefined) throw failure;
      return ANYBODY;
    };
    const { app, clock, open } = bed({ gate: { admit, close: () => {} } });
    const request = new Request('http://localhost/console/api', { headers: EVENTS });
    const { state } = readEvents(await app.fetch(request, { peer: '10.0.0.7' }));
    failure = new ServeError('service_unavailable', 'no store');
    await clock.advance(60_000);
    expect(open.viewers.size).toBe(1);
    failure = new ServeError('invalid_api_key', 'revoked');
    await clock.advance(60_000);
    await waitUntil(() => state.hasEnded);
    expect(clock.pendingTimers).toBe(0);
  });

  it('keeps no viewer whose client has left before its events began', () => {
    const { deps, open, clock } = bed();
    const sink = new WebFrameSink(true, AbortSignal.abort());
    const exchange = { method: 'GET', query: '', header: () => EVENTS.accept, head: () => {}, sink };
    void serveConsole(deps, exchange as unknown as HttpExchange);
    expect([open.viewers.size, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('ends its events when the process drains, so that the drain does not wait for them', async () => {
    const { ask, lifecycle, open } = bed();
    const { state } = readEvents(await ask('/console/api', { headers: EVENTS }));
    lifecycle.drain();
    await waitUntil(() => state.hasEnded);
    expect(open.viewers.size).toBe(0);
    expect((await ask('/console/api', { headers: EVENTS })).status).toBe(503);
  });

  it('is 503 for one viewer more than the limit', async () => {
    const { ask } = bed();
    for (let at = 0; at < LIMITS.console_viewers.max; at++) {
      expect((await ask('/console/api?view=requests', { headers: EVENTS })).status).toBe(200);
    }
    const refused = await ask('/console/api?view=requests', { headers: EVENTS });
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect((await ask('/console/api?view=requests')).status).toBe(200);
  });

  it('names the setting where there is no console', async () => {
    const off = await bed({ settings: { hasConsole: false } }).ask('/console/');
    expect(off.status).toBe(404);
    expect(await off.text()).toContain('--console-requests');
    const closed = await bed({ settings: { hasConsole: false, hasAdminRoutes: false } }).ask('/console/api');
    expect(await closed.text()).toContain('DYN_DISABLE_FRONTEND_ADMIN_API');
  });
});

describe('GET /console/api/workers/{id}', () => {
  it('shows the worker and what the index knows of its cache', async () => {
    const prefix = { hash: '00ff', depth: 4, below: 6, branches: 3 };
    const rank = { dpRank: 0, device: 10, host: 2, disk: 0, isWhole: true, prefixes: [prefix] };
    const cacheOf = async (id: string) => (id === 'a1' ? { source: 'reported' as const, ranks: [rank] } : undefined);
    const clock = new VirtualClock();
    const { open, console, setModels } = openConsoleBed(clock, 10, { cacheOf });
    setModels([model({ workers: [worker('a1'), worker('b2')] })]);
    const { app } = createTestApp({ clock, console: open });
    const request = console.log.began({ endpoint: 'chat', xRequestId: 'x', key: undefined, receivedMs: 0 });
    request.ended({
      ...{ status: 200, error: undefined, worker: 'a1', outputTokens: 1, ttftMs: 1, totalMs: 2 },
      ...{ promptTokens: 64, cachedTokens: 32 },
    });
    const ask = async (id: string) => app.fetch(new Request(`http://localhost/console/api/workers/${id}`));
    expect(await (await ask('a1')).json()).toMatchObject({
      worker: { id: 'a1', state: 'ready' },
      cache: {
        source: 'reported',
        ranks: [{ dp_rank: 0, device_blocks: 10, host_blocks: 2, disk_blocks: 0, is_whole: true, prefixes: [prefix] }],
      },
      no_cache: null,
      requests: { count: 1, hits: 1, prompt_tokens: 64, cached_tokens: 32 },
    });
    expect(await (await ask('b2')).json()).toMatchObject({ cache: null, no_cache: expect.stringContaining('index') });
    expect((await ask('c3')).status).toBe(404);
  });

  it('says that there is no index', async () => {
    const answer = await (await bed().ask('/console/api/workers/a1')).json();
    expect(answer).toMatchObject({ cache: null, no_cache: expect.stringContaining('--router-mode kv') });
  });
});

describe('POST /console/api/drain/{id}', () => {
  it('orders the worker to drain, and says if there is none', async () => {
    const { ask, drained } = bed();
    const response = await ask('/console/api/drain/a1', { method: 'POST' });
    expect([response.status, await response.json()]).toEqual([200, { ordered: ['a1'] }]);
    expect(drained).toEqual(['a1']);
    expect((await ask('/console/api/drain/b2', { method: 'POST' })).status).toBe(404);
    expect((await ask('/console/api/drain/a1')).status).toBe(405);
  });
});

describe('GET /console', () => {
  it('leads to a page that may load only its own files', async () => {
    const { ask } = bed();
    const moved = await ask('/console');
    expect([moved.status, moved.headers.get('location')]).toEqual([303, 'console/']);
    const page = await ask('/console/');
    expect(page.status).toBe(200);
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    const html = await page.text();
    expect(html).not.toMatch(/<script(?![^>]*src=)|style=|\son\w+=/);
    for (const [, file] of html.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)) {
      expect((await ask(`/console/${file}`)).status, file).toBe(200);
    }
    expect((await ask('/console/main.tsx')).status).toBe(404);
  });
});
