import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, type HttpServerOptions, startHttpServer } from '../../../../shared/frontends/node/server.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../../../support/http-app.ts';
import { waitUntil } from '../../../support/index.ts';
import { playTexts, ScriptedPipeline } from '../../../support/scripted-pipeline.ts';
import { LIVE, postText, RawClient } from './raw-client.ts';

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close(0);
});

async function start(
  options: TestAppOptions & Pick<HttpServerOptions, 'keepAliveMs'> = {},
): Promise<TestApp & { readonly server: HttpServer }> {
  const test = createTestApp(options);
  const server = await startHttpServer(test.app, {
    host: '127.0.0.1',
    port: 0,
    lifecycle: test.lifecycle,
    ...(options.keepAliveMs === undefined ? {} : { keepAliveMs: options.keepAliveMs }),
  });
  servers.push(server);
  return { ...test, server };
}

const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true };
const chat = (version = '1.1', headers = '') => postText('/v1/chat/completions', BODY, version, headers);

/** Resolves when the server has handled what arrived before. */
async function roundTrip(port: number): Promise<void> {
  const client = new RawClient(port);
  client.send(LIVE);
  await waitUntil(() => client.text.includes('Service is live'));
  client.socket.destroy();
}

describe('the Node server', () => {
  it('sends head and first frames in one piece', async () => {
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a', 'b']));
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    const pieces: string[] = [];
    client.socket.on('data', (chunk) => pieces.push(chunk.toString()));
    client.send(chat());
    await waitUntil(() => client.text.endsWith('0\r\n\r\n'));
    expect(pieces).toHaveLength(1);
    expect(pieces[0]).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  });

  it('serves one request after another on a connection', async () => {
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    for (let round = 1; round <= 3; round++) {
      client.send(chat());
      await waitUntil(() => client.text.split('[DONE]').length === round + 1 && client.text.endsWith('0\r\n\r\n'));
    }
    client.send(LIVE);
    await waitUntil(() => client.text.endsWith('"Service is live"}'));
    client.socket.destroy();
  });

  it.each([
    [undefined, 75],
    [4_060_000, 4060],
  ])('says how long a connection may wait for its next request: %s ms', async (keepAliveMs, seconds) => {
    const { server } = await start(keepAliveMs === undefined ? {} : { keepAliveMs });
    const client = new RawClient(server.port);
    client.send(LIVE);
    await waitUntil(() => client.text.endsWith('"Service is live"}'));
    expect(client.text.toLowerCase()).toContain(`\r\nkeep-alive: timeout=${seconds}\r\n`);
    client.socket.destroy();
  });

  it('closes a connection whose next request does not come in time', async () => {
    const { server } = await start({ keepAliveMs: 50 });
    const client = new RawClient(server.port);
    const closed = once(client.socket, 'close');
    client.send(LIVE);
    await closed;
    expect(client.text).toMatch(/"Service is live"}$/);
  });

  it('answers pipelined requests in their order, whichever is ready first', async () => {
    const pipeline = new ScriptedPipeline();
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    client.send(chat() + chat() + LIVE);
    const [first, second] = [await pipeline.call(0), await pipeline.call(1)];
    playTexts(second.sink, ['second']);
    first.sink.text(0, 'first', 1);
    await waitUntil(() => client.text.includes('"first"'));
    expect(client.text).not.toContain('"second"');
    playTexts(first.sink, ['more']);
    await waitUntil(() => client.text.endsWith('"Service is live"}'));
    expect(client.text.match(/first|more|second|DONE|Service is live/g)).toEqual([
      'first',
      'more',
      'DONE',
      'second',
      'DONE',
      'Service is live',
    ]);
    client.socket.destroy();
  });

  it('frees the workers of pipelined requests whose connection breaks', async () => {
    const pipeline = new ScriptedPipeline();
    const { server, lifecycle } = await start({ pipeline });
    const client = new RawClient(server.port);
    client.send(chat() + chat());
    const calls = [await pipeline.call(0), await pipeline.call(1)];
    client.socket.destroy();
    await waitUntil(() => calls.every(({ options }) => options.signal.aborted));
    expect(lifecycle.inflight).toBe(0);
  });

  it('streams to HTTP/1.0 without chunks and closes', async () => {
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    client.send(chat('1.0'));
    await waitUntil(() => client.isClosed);
    expect(client.text).not.toMatch(/transfer-encoding/i);
    expect(client.text.endsWith('data: [DONE]\n\n')).toBe(true);
  });

  it('answers operators on this machine, but not through nginx with its defaults', async () => {
    const { server } = await start();
    const ask = async (version: string): Promise<string> => {
      const client = new RawClient(server.port);
      client.send(`GET /busy_threshold HTTP/${version}\r\nhost: 127.0.0.1:${server.port}\r\nconnection: close\r\n\r\n`);
      await waitUntil(() => client.isClosed);
      return client.text;
    };
    expect(await ask('1.1')).toMatch(/^HTTP\/1\.1 200/);
    expect(await ask('1.0')).toMatch(/^HTTP\/1\.1 403.*insufficient_permissions/s);
  });

  it('answers HEAD without a body on a connection that stays usable', async () => {
    const { server } = await start();
    const client = new RawClient(server.port);
    client.send(`HEAD /live HTTP/1.1\r\nhost: t\r\n\r\n${LIVE}`);
    await waitUntil(() => client.text.endsWith('"Service is live"}'));
    expect(client.text.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(client.text.match(/Service is live/g)).toHaveLength(1);
    client.socket.destroy();
  });

  it('echoes a request id byte for byte, also beside text of another width', async () => {
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['\u20ac']));
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    client.send(chat('1.1', 'x-request-id: \u00e9-1\r\n'));
    await waitUntil(() => client.text.includes('[DONE]'));
    expect(client.text).toMatch(/x-request-id: \u00e9-1\r\n/);
    expect(client.text).toContain(Buffer.from('"\u20ac"').toString('latin1'));
    client.socket.destroy();
  });

  it('knows a path whose target has scheme and host in front, as it is sent to a proxy', async () => {
    const { server } = await start();
    const client = new RawClient(server.port);
    client.send('GET http://t/v1/models/m HTTP/1.1\r\nhost: t\r\n\r\n');
    await waitUntil(() => client.text.includes('"id":"m"'));
    client.send('GET http://t/v1/models/none?a=b HTTP/1.1\r\nhost: t\r\n\r\n');
    await waitUntil(() => client.text.includes('Model not found: `none`'));
    client.socket.destroy();
  });

  it.each([
    ['http://evil.example/live', 'localhost', 403],
    ['HTTP://evil.example:80/live', 'localhost', 403],
    ['https://evil.example?a=http://localhost/', 'localhost', 403],
    ['http://localhost.evil.example/live', 'localhost', 403],
    ['http://localhost/live', 'evil.example', 200],
    ['http://LOCALHOST:8000/live?a=b', 'evil.example', 200],
    ['http://[::1]/live', 'evil.example', 200],
    ['/live', 'localhost', 200],
    ['/live', 'evil.example', 403],
  ])('takes the host of %s and not %s, where only this machine is served', async (target, host, status) => {
    const { server } = await start({ settings: { hosts: [] } });
    const client = new RawClient(server.port);
    client.send(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
    await waitUntil(() => client.isClosed);
    expect(client.text).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  const withId = (line: string, rest = 'host: t\r\n'): string => `${line}\r\nx-request-id: mine\r\n${rest}\r\n`;
  it.each([
    ['no Host', 400, withId('GET /live HTTP/1.1', '')],
    ['an invalid Host', 400, withId('GET /live HTTP/1.1', 'host: a b\r\n')],
    ['half an address as its Host', 400, withId('GET /live HTTP/1.1', 'host: [::\r\n')],
    ['a target that is no URL', 400, withId('GET http://[::/live HTTP/1.1')],
    ['a target with a host and no Host', 400, withId('GET http://t/live HTTP/1.1', '')],
    ['a target with a host, and an invalid Host', 400, withId('GET http://t/live HTTP/1.1', 'host: a b\r\n')],
    ['a target with an empty host', 400, withId('GET http:///live HTTP/1.1')],
    ['a target whose slashes are missing', 400, withId('GET http:live HTTP/1.1')],
    ['a target whose slashes are others', 400, withId('GET http:\\\\t/live HTTP/1.1')],
    ['a target that names a user', 400, withId('GET http://localhost@t/live HTTP/1.1')],
    ['a target of another scheme', 400, withId('GET ftp://t/live HTTP/1.1')],
    ['no target', 400, withId('OPTIONS * HTTP/1.1')],
    ['an expectation that no server meets', 417, withId('GET /live HTTP/1.1', 'host: t\r\nexpect: more\r\n')],
    ['a line that is not a header', 400, withId('GET /live HTTP/1.1', 'bad header: x\r\n')],
    ['an unknown method', 405, withId('FOO /live HTTP/1.1')],
  ])('refuses a request with %s under its id', async (_what, status, text) => {
    const { server } = await start();
    const client = new RawClient(server.port);
    client.send(text);
    await waitUntil(() => client.isClosed);
    expect(client.text).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(client.text).toContain('\r\nx-request-id: mine\r\n');
    expect(client.text).toContain('"type":"invalid_request_error"');
  });

  it.each(['t', 'T.example:8000', '127.0.0.1:1', '[::1]:8000', 'a_b'])('takes requests to %s', async (host) => {
    const { server } = await start();
    const client = new RawClient(server.port);
    client.send(withId('GET /live HTTP/1.1', `host: ${host}\r\nconnection: close\r\n`));
    await waitUntil(() => client.isClosed);
    expect(client.text).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('answers at once what cannot be read, however much white space is in its id', async () => {
    const { server } = await start();
    const client = new RawClient(server.port);
    client.send(`GET /live HTTP/1.1\r\nhost: t\r\nx-request-id:${' '.repeat(10_000)}\0`); // no line end: all of it is tried
    await waitUntil(() => client.isClosed);
    expect(client.text).toMatch(/^HTTP\/1.1 400 /);
  });

  it('reads a body that comes in pieces, and refuses one over the limit while it is still coming', async () => {
    const pipeline = new ScriptedPipeline().onGenerate(({ sink }) => playTexts(sink, ['a']));
    const { server } = await start({ pipeline, settings: { bodyLimitBytes: 1024 } });
    const client = new RawClient(server.port);
    const [head, body] = chat().split('\r\n\r\n') as [string, string];
    client.send(`${head}\r\n\r\n${body.slice(0, 10)}`);
    client.send(body.slice(10));
    await waitUntil(() => client.text.includes('[DONE]'));
    const large = new RawClient(server.port);
    large.send('POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n');
    large.send(`transfer-encoding: chunked\r\n\r\n800\r\n${'x'.repeat(2048)}\r\n`);
    await waitUntil(() => large.text.includes('request_too_large'));
    client.socket.destroy();
    large.socket.destroy();
  });

  it('keeps nothing of a body that it has refused, however much still comes', async () => {
    const { server, deps } = await start({ settings: { bodyLimitBytes: 64 * 1024 } });
    const client = new RawClient(server.port);
    client.send('POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n');
    client.send('transfer-encoding: chunked\r\n\r\n');
    const chunk = `c000\r\n${'x'.repeat(0xc000)}\r\n`;
    client.send(chunk);
    await waitUntil(() => deps.bodies.takenBytes === 0xc000);
    client.send(chunk);
    await waitUntil(() => client.text.includes('request_too_large'));
    expect(deps.bodies.takenBytes).toBe(0);
    client.send(`${chunk}0\r\n\r\n${LIVE}`); // the connection goes on after it
    await waitUntil(() => client.text.includes('Service is live'));
    expect(deps.bodies.takenBytes).toBe(0);
    client.socket.destroy();
  });

  it('lets go of a body whose client leaves in the middle', async () => {
    const { server, deps } = await start();
    const client = new RawClient(server.port);
    client.send(`${chat().split('\r\n\r\n')[0]}\r\n\r\n{"model"`);
    await waitUntil(() => deps.bodies.takenBytes > 0);
    client.socket.destroy();
    await waitUntil(() => deps.bodies.takenBytes === 0);
  });

  it('ends a running answer before it refuses what was sent behind its request', async () => {
    const pipeline = new ScriptedPipeline();
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    client.send(chat());
    const { sink } = await pipeline.call(0);
    sink.text(0, 'a', 1);
    await waitUntil(() => client.text.includes('"a"'));
    client.send('garbage\r\n\r\n');
    client.send('more garbage\r\n\r\n');
    await roundTrip(server.port); // by now the server has read it
    playTexts(sink, ['b']);
    await waitUntil(() => client.isClosed);
    const [answer = '', refusal = ''] = client.text.split('0\r\n\r\n');
    expect(answer).toMatch(/data: \[DONE\]\n\n\r\n$/);
    expect(answer).not.toContain('HTTP/1.1 400');
    expect(refusal).toMatch(/^HTTP\/1\.1 400 /);
    expect(client.text.split('HTTP/1.1 400')).toHaveLength(2);
  });

  it.each([
    [
      'the rest of the last request',
      'POST /v1/completions HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n',
    ],
    ['a request', 'NONSENSE\r\n\r\n'],
  ])('ends all answers under way before it refuses %s', async (_, bad) => {
    const pipeline = new ScriptedPipeline();
    const { server } = await start({ pipeline });
    const client = new RawClient(server.port);
    client.send(chat() + chat() + bad);
    const calls = [await pipeline.call(0), await pipeline.call(1)];
    await roundTrip(server.port); // by now the server has read it
    for (const { sink } of calls) playTexts(sink, ['one']);
    await waitUntil(() => client.isClosed);
    expect(client.text.match(/HTTP\/1\.1 \d+|\[DONE\]/g)).toEqual([
      ...['HTTP/1.1 200', '[DONE]', 'HTTP/1.1 200', '[DONE]'],
      'HTTP/1.1 400',
    ]);
  });

  it('cuts an answer that has begun when the rest of its own request cannot be read', async () => {
    const { server } = await start({ settings: { bodyLimitBytes: 16 } });
    const client = new RawClient(server.port);
    client.send('POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n');
    client.send('transfer-encoding: chunked\r\n\r\n20\r\n');
    client.send(`${'x'.repeat(32)}\r\n`);
    await waitUntil(() => client.text.includes('request_too_large'));
    client.send('no chunk length\r\n\r\n');
    await waitUntil(() => client.isClosed);
    expect(client.text.split('HTTP/1.1 ')).toHaveLength(2);
  });

  it.each([
    [
      'a method that Node does not know',
      'FOO /v1/chat/completions HTTP/1.1\r\nhost: t\r\n\r\n',
      405,
      'method_not_allowed',
    ],
    ['such a method on an unknown path', 'FOO /x HTTP/1.1\r\nhost: t\r\n\r\n', 404, 'not_found'],
    ['what is not HTTP', 'hello\r\n\r\n', 400, 'invalid_value'],
    [
      'headers beyond every limit',
      `GET / HTTP/1.1\r\nhost: t\r\nx-a: ${'v'.repeat(1_100_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
  ])('answers %s in the envelope', async (_what, request, status, code) => {
    const { server } = await start();
    const client = new RawClient(server.port);
    client.send(request);
    await waitUntil(() => client.isClosed);
    expect(client.text).toContain(`HTTP/1.1 ${status} `);
    expect(client.text).toContain(`"code":"${code}"`);
  });
});

describe('starting', () => {
  it.each([
    ['127.0.0.1', 'http://127.0.0.1', '127.0.0.1'],
    ['0.0.0.0', 'http://127.0.0.1', '0.0.0.0'],
    ['::', 'http://[::1]', '[::]'],
    ['::1', 'http://[::1]', '[::1]'],
    ['localhost', 'http://localhost', '(127.0.0.1|[::1])'],
  ])(
    'on %s says how it is reached and what it listens on, with the port that it was given',
    async (host, url, address) => {
      const { app, lifecycle } = createTestApp();
      const server = await startHttpServer(app, { host, port: 0, lifecycle });
      servers.push(server);
      expect(server.port).toBeGreaterThan(0);
      expect(server.url).toBe(`${url}:${server.port}`);
      const allowed = address.startsWith('(') ? address.slice(1, -1).split('|') : [address];
      expect(allowed.map((each) => `${each}:${server.port}`)).toContain(server.address);
      expect((await fetch(`${server.url}/live`)).status).toBe(200);
    },
  );

  it('names the flag when the port is in use', async () => {
    const { server, app, lifecycle } = await start();
    const again = startHttpServer(app, { host: '127.0.0.1', port: server.port, lifecycle });
    await expect(again).rejects.toThrow(`port ${server.port} is in use on 127.0.0.1: choose another with --http-port`);
  });

  it('names the flag when the host is not ours', async () => {
    const { app, lifecycle } = await start();
    const elsewhere = startHttpServer(app, { host: '192.0.2.1', port: 0, lifecycle });
    await expect(elsewhere).rejects.toThrow('--http-host');
  });
});
