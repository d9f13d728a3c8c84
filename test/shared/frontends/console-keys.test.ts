import { describe, expect, it } from 'vitest';
import { issueKey, KeyGate, KeyStoreError } from '../../../shared/access/index.ts';
import type { ConsoleIssuedKey, ConsoleKeys } from '../../../shared/console/wire.ts';
import { createTestApp, type TestAppOptions } from '../../support/http-app.ts';
import { MemoryKeyStore } from '../../support/memory-key-store.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const ADMIN = 'an-admin-key-of-thirty-two-or-more-characters';
const PATH = '/console/api/keys';

function bed(options: TestAppOptions = {}) {
  const clock = new VirtualClock();
  const store = new MemoryKeyStore();
  const gate = new KeyGate({ store, clock, freshMs: 0 });
  const { settings, ...others } = options;
  const test = createTestApp({
    clock,
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
