import { describe, expect, it } from 'vitest';
import { createTestApp } from '../../support/http-app.ts';

const KEY = 'k'.repeat(32);
const HERE = { peer: '127.0.0.1' };
const ELSEWHERE = { peer: '10.0.0.7' };

const OPERATORS = [
  ['GET', '/busy_threshold'],
  ['POST', '/busy_threshold'],
  ['POST', '/clear_kv_blocks'],
  ['POST', '/router/explain'],
  ['GET', '/router/explain/x'],
  ['GET', '/console/api'],
  ['GET', '/console/api/requests/1'],
  ['POST', '/console/api/drain/a1'],
] as const;

function ask(
  { method, path, headers = {} }: { method: string; path: string; headers?: Readonly<Record<string, string>> },
  from: { readonly peer?: string | undefined },
  settings = {},
  test = createTestApp({ settings }),
): Promise<Response> {
  const body = method === 'POST' ? { body: '{"model": "m"}' } : {};
  const request = new Request(`http://localhost${path}`, { method, headers, ...body });
  return Promise.resolve(test.app.fetch(request, from));
}

describe.each(OPERATORS)('%s %s', (method, path) => {
  const route = { method, path, headers: { 'content-type': 'application/json' } };

  it('is answered on this machine, and from elsewhere with the admin key', async () => {
    expect((await ask(route, HERE)).status).not.toBe(403);
    const headers = { ...route.headers, authorization: `Bearer ${KEY}` };
    expect((await ask({ ...route, headers }, ELSEWHERE, { adminKey: KEY })).status).not.toBe(403);
  });

  it.each([
    ['another machine', {}, ELSEWHERE],
    ['a function, which has no socket', {}, { peer: undefined }],
    ['a web page', { origin: 'https://evil.example', 'content-type': 'text/plain' }, HERE],
    ['a page whose name was made to resolve to this machine', { host: 'evil.example:8000' }, HERE],
    ['a proxy', { 'x-forwarded-for': '127.0.0.1' }, HERE],
    ['a client with a wrong key', { authorization: `Bearer ${KEY}x` }, ELSEWHERE],
  ])('is 403 for %s', async (_, headers, from) => {
    const response = await ask({ ...route, headers: { ...route.headers, ...headers } }, from, { adminKey: KEY });
    expect(response.status).toBe(403);
    expect(await response.json()).toEqual({
      error: {
        message: expect.stringContaining('STATOR_ADMIN_KEY'),
        type: 'invalid_request_error',
        param: null,
        code: 'insufficient_permissions',
      },
    });
  });
});

describe('/health', () => {
  const transport = { tcp: '10.1.2.3:4567/1/generate' };
  const record = {
    type: 'Endpoint',
    namespace: 'ns',
    component: 'c',
    endpoint: 'generate',
    instance_id: '1f',
    transport,
  };
  const ready = () => createTestApp({ instances: () => [record] as never });
  const route = { method: 'GET', path: '/health' };

  it('tells where workers are on this machine, and others that all is well', async () => {
    expect(await (await ask(route, HERE, {}, ready())).text()).toContain('10.1.2.3:4567');
    expect(await (await ask(route, ELSEWHERE, {}, ready())).json()).toEqual({ status: 'healthy' });
    expect(await (await ask(route, {}, {}, ready())).text()).toContain('10.1.2.3'); // as tests ask: from this machine
  });
});

describe('Host, where only this machine is listened to', () => {
  const list = (host: string) => ({ method: 'GET', path: '/v1/models', headers: { host } });
  const settings = { hosts: ['tunnel.example'] };

  it.each(['localhost:8000', '127.0.0.1:8000', '[::1]:8000', 'tunnel.example', 'TUNNEL.example:443'])(
    'may be %s',
    async (host) => expect((await ask(list(host), HERE, settings)).status).toBe(200),
  );

  it('may be no other name: a web page could have made it resolve to this machine', async () => {
    const response = await ask(list('evil.example:8000'), HERE, settings);
    expect([response.status, await response.json()]).toMatchObject([
      403,
      { error: { code: 'insufficient_permissions', message: expect.stringContaining('--http-hosts') } },
    ]);
    expect((await ask(list('evil.example:8000'), HERE)).status).toBe(200); // listens to others: they have their names
  });
});

it('shows no more of a path than anybody could want to read', async () => {
  const response = await ask({ method: 'GET', path: `/${'x'.repeat(50_000)}` }, HERE);
  expect(response.status).toBe(404);
  expect((await response.text()).length).toBeLessThan(1000);
});
