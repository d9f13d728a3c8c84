import { describe, expect, it } from 'vitest';
import { issueKey, KeyGate, KeyStoreError } from '../../../shared/access/index.ts';
import type { ConsoleIssuedKey, ConsoleKeys } from '../../../shared/console/wire/keys.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { MemoryKeyStore } from '../../support/memory-key-store.ts';
import { playTexts, ScriptedPipeline } from '../../support/scripted-pipeline.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const ADMIN = 'an-admin-key-of-thirty-two-or-more-characters';
const PATH = '/console/api/keys';
const CHAT = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
/** Tokens of prompt and answer of one chat. */
const TOKENS = 5;

function bed(options: TestAppOptions = {}) {
  const clock = new VirtualClock();
  const store = new MemoryKeyStore();
  const gate = new KeyGate({ store, clock, freshMs: 0 });
  const { settings, ...others } = options;
  const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['x']));
  const test = createTestApp({
    clock,
    pipeline,
    gate,
    keyStore: async () => store,
    settings: { adminKey: ADMIN, ...settings },
    ...others,
  });
  const ask = (method: string, path: string, body?: object, key: string | undefined = ADMIN) =>
    Promise.resolve(
      test.app.fetch(
        new Request(`http://localhost${path}`, {
          method,
          headers: {
            'content-type': 'application/json',
            ...(key === '' ? {} : { authorization: `Bearer ${key}` }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      ),
    );
  const create = async (body: object) => (await (await ask('POST', PATH, body)).json()) as ConsoleIssuedKey;
  const list = async () => ((await (await ask('GET', PATH)).json()) as ConsoleKeys).keys;
  return { clock, store, ask, create, list };
}

describe('API keys in the console', () => {
  it('are created, shown once, and listed without their secrets', async () => {
    const { ask, create } = bed();
    const wanted = { name: 'Team <b>', models: ['m'], tokens_per_day: 5000, expires_days: 30 };
    const { text, key } = await create(wanted);
    expect(text).toMatch(/^sk-stator-/);
    const listed = await ask('GET', PATH);
    expect(listed.headers.get('cache-control')).toBe('no-store');
    const shown = await listed.text();
    expect(shown).not.toContain(text);
    expect(shown).not.toContain('digest');
    expect((JSON.parse(shown) as ConsoleKeys).keys).toEqual([key]);
    expect(key).toMatchObject({ name: 'Team <b>', scopes: ['inference'], models: ['m'], tokens_per_day: 5000 });
    expect(key).toMatchObject({
      requests_per_minute: null,
      state: 'valid',
      expires_ms: key.created_ms + 30 * 86_400_000,
    });
  });

  it('are rotated and revoked, and say so', async () => {
    const { ask, create, list, store } = bed();
    const { text, key } = await create({ name: 'a' });
    const rotated = (await (await ask('POST', `${PATH}/${key.id}`, { overlap_hours: 0 })).json()) as ConsoleIssuedKey;
    expect(rotated.text).not.toBe(text);
    expect((await store.get(key.id))?.previous?.untilMs).toBe((await list())[0]?.created_ms);
    expect(await (await ask('DELETE', `${PATH}/${key.id}`)).json()).toMatchObject({ state: 'revoked' });
    expect(await list()).toMatchObject([{ id: key.id, state: 'revoked' }]);
    const unknown = 'A'.repeat(12);
    for (const method of ['POST', 'DELETE']) {
      for (const id of [unknown, 'x']) expect((await ask(method, `${PATH}/${id}`, {})).status).toBe(404);
    }
  });

  it('show what they have used at this frontend, and what is left of their limits', async () => {
    const { ask, create, list, clock } = bed();
    const limits = { requests_per_minute: 60, tokens_per_day: 5000 };
    const { text, key } = await create({ name: 'a', ...limits });
    expect(key).toMatchObject({
      ...limits,
      tokens_per_minute: null,
      used: { requests: 0, tokens: 0, tokens_today: 0 },
    });
    expect(key.left).toEqual({ ...limits, tokens_per_minute: null });
    await clock.advance(1); // lists begin with the oldest
    const { text: free } = await create({ name: 'b' });
    for (const each of [text, text, free]) {
      expect((await ask('POST', '/v1/chat/completions', CHAT, each)).status).toBe(200);
    }
    const [first, second] = await list();
    expect(first).toMatchObject({
      used: { requests: 2, tokens: 2 * TOKENS, tokens_today: 2 * TOKENS },
      left: { requests_per_minute: 58, tokens_per_minute: null, tokens_per_day: 5000 - 2 * TOKENS },
    });
    expect(second).toMatchObject({
      used: { requests: 1, tokens: TOKENS },
      left: { requests_per_minute: null, tokens_per_minute: null, tokens_per_day: null },
    });
  });

  it('have no counts at a frontend that requires no keys', async () => {
    const { create } = bed({ gate: undefined });
    expect((await create({ name: 'a', tokens_per_day: 1 })).key).toMatchObject({ used: null, left: null });
  });

  it('get other limits, which count from now on', async () => {
    const { ask, create, list, clock } = bed();
    const { text, key } = await create({ name: 'a', requests_per_minute: 1, tokens_per_day: 5000 });
    const chat = () => ask('POST', '/v1/chat/completions', CHAT, text);
    expect([(await chat()).status, (await chat()).status]).toEqual([200, 429]);
    const change = { requests_per_minute: null, tokens_per_minute: 3 };
    const changed = await ask('PATCH', `${PATH}/${key.id}`, change);
    const limits = { requests_per_minute: null, tokens_per_minute: 3, tokens_per_day: 5000 };
    expect([changed.status, await changed.json()]).toEqual([200, expect.objectContaining(limits)]);
    expect(await list()).toMatchObject([limits]);
    await clock.advance(1); // keys of this gate are read for each request
    const after = await chat();
    expect([after.status, after.headers.get('x-ratelimit-limit-tokens')]).toEqual([200, '3']);
    expect((await list())[0]?.used).toMatchObject({ requests: 2 });
    for (const id of ['A'.repeat(12), 'x']) expect((await ask('PATCH', `${PATH}/${id}`, {})).status).toBe(404);
  });

  it('get a first limit a minute, which counts nothing that was used before', async () => {
    const { ask, create, list, clock } = bed();
    const { text, key } = await create({ name: 'a' });
    const chat = () => ask('POST', '/v1/chat/completions', CHAT, text);
    for (let at = 0; at < 10; at++) expect((await chat()).status).toBe(200);
    const limit = { tokens_per_minute: 2 * TOKENS };
    const changed = await ask('PATCH', `${PATH}/${key.id}`, limit);
    expect(await changed.json()).toMatchObject({ used: { tokens: 10 * TOKENS }, left: limit });
    await clock.advance(1); // keys of this gate are read for each request
    expect([(await chat()).status, (await chat()).status, (await chat()).status]).toEqual([200, 200, 429]);
    expect((await list())[0]).toMatchObject({ used: { requests: 12 }, left: { tokens_per_minute: 0 } });
  });

  it.each([
    [{ tokens_per_day: 0 }, 'tokens_per_day'],
    [{ tokens_per_day: '5' }, 'tokens_per_day'],
    [{ tokens_per_minute: 1e13 }, 'tokens_per_minute'],
    [{ tokens_per_year: 1 }, null],
  ])('keep their limits if the new ones are refused: %j', async (body, param) => {
    const { ask, create, list } = bed();
    const { key } = await create({ name: 'a', tokens_per_day: 7 });
    const response = await ask('PATCH', `${PATH}/${key.id}`, body);
    const { error } = (await response.json()) as { readonly error: { readonly param: string | null } };
    expect(response.status).toBe(400);
    if (param !== null) expect(error.param).toBe(param);
    expect(await list()).toEqual([key]);
  });

  it('are not created with lists that are empty or too long', async () => {
    const { ask, list } = bed();
    const lists = [
      { models: [] },
      { models: Array(101).fill('m') },
      { scopes: [] },
      { scopes: Array(9).fill('admin') },
    ];
    for (const wanted of lists) {
      const answer = await ask('POST', PATH, { name: 'a', ...wanted });
      expect(answer.status).toBe(400);
      const [field = ''] = Object.keys(wanted);
      expect(await answer.json()).toMatchObject({
        error: {
          param: field,
          message: expect.stringMatching(/^(scopes|models): 1 to \d+ entries are allowed, got \d+$/),
        },
      });
    }
    expect(await list()).toEqual([]);
  });

  it('need a proof even on this machine, because they give rights away', async () => {
    const { ask, store, clock } = bed();
    expect((await ask('GET', PATH, undefined, '')).status).toBe(401);
    expect((await ask('POST', PATH, { name: 'a' }, '')).status).toBe(401);
    const client = await issueKey(store, clock, { name: 'c', scopes: ['inference'], limits: {} });
    expect((await ask('GET', PATH, undefined, client.text)).status).toBe(403);
    const admin = await issueKey(store, clock, { name: 'a', scopes: ['admin'], limits: {} });
    expect((await ask('GET', PATH, undefined, admin.text)).status).toBe(200);
    const open = bed({ gate: undefined });
    expect((await open.ask('GET', PATH, undefined, '')).status).toBe(403);
    expect((await open.ask('GET', PATH)).status).toBe(200);
  });

  it.each([
    [{}, 'name'],
    [{ name: '' }, 'name'],
    [{ name: 'a\nb' }, 'name'],
    [{ name: 'a', scopes: ['root'] }, 'scopes.0'],
    [{ name: 'a', tokens_per_day: 0 }, 'tokens_per_day'],
    [{ name: 'a', unknown: 1 }, null],
  ])('are refused with the name of the field: %j', async (body, param) => {
    const { ask, list } = bed();
    const response = await ask('POST', PATH, body);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { readonly error: { readonly param: string | null } };
    if (param !== null) expect(error.param?.replace('[0]', '.0')).toBe(param);
    expect(await list()).toEqual([]);
  });

  it('say that there is no store, or that it cannot be reached', async () => {
    const none = await bed({ keyStore: undefined }).ask('GET', PATH);
    expect(none.status).toBe(501);
    expect(await none.text()).toContain('--keys-file');
    const keyStore = () => Promise.reject(new KeyStoreError('unavailable', 'the table does not answer'));
    const away = await bed({ keyStore }).ask('GET', PATH);
    expect(away.status).toBe(503);
    expect(await away.text()).toContain('the table does not answer');
  });
});
