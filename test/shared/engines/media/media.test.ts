import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { createHandlerEngine, type Engine } from '../../../../shared/engines/index.ts';
import { createMediaGuardedEngine } from '../../../../shared/engines/media/guarded-engine.ts';
import { checkMediaUrl, type MediaPolicy, mediaPolicy } from '../../../../shared/engines/media/media-policy.ts';
import { fetchMedia, type MediaFetchOptions } from '../../../../shared/engines/media/read-media.ts';
import type { EngineOutput, EngineRequest } from '../../../../shared/protocol/index.ts';
import { chatRequest, TEXT_ENGINE_INFO } from '../recording-sink.ts';

const PUBLIC = mediaPolicy();
const INTERNAL_TOO = mediaPolicy({ allowsInternal: true });

describe('which media URLs are allowed', () => {
  it.each([
    'https://example.com/a.png',
    'http://93.184.216.34:8080/a',
    'https://[2606:2800:220:1::1]/a',
    'data:image/png;base64,AAAA',
    'data:text/plain,hello',
  ])('%s', (url) => {
    expect(checkMediaUrl(url, PUBLIC)).toBeUndefined();
  });

  it.each([
    ['http://127.0.0.1/', 'internal address'],
    ['http://127.1/', 'internal address'],
    ['http://2130706433/', 'internal address'],
    ['http://0x7f.0.0.1/', 'internal address'],
    ['http://10.0.0.5/', 'internal address'],
    ['http://172.31.255.255/', 'internal address'],
    ['http://169.254.169.254/latest/meta-data/', 'internal address'],
    ['http://[::1]/', 'internal address'],
    ['http://[::ffff:127.0.0.1]/', 'internal address'],
    ['http://[fd00::1]/', 'internal address'],
    ['http://[64:ff9b::a00:1]/', 'internal address'],
    ['http://[::127.0.0.1]/', 'internal address'],
    ['http://[::ffff:0:127.0.0.1]/', 'internal address'],
    ['http://[5f00::1]/', 'internal address'],
    ['http://localhost/', 'internal address'],
    ['http://localhost./', 'internal address'],
    ['http://metadata.google.internal/', 'internal address'],
    ['file:///etc/passwd', 'scheme file:'],
    ['ftp://example.com/a', 'scheme ftp:'],
    ['http://user:secret@example.com/', 'user name'],
    ['/relative', 'not a URL'],
    ['data:image/png;base64', 'without content'],
  ])('not %s', (url, fault) => {
    expect(checkMediaUrl(url, PUBLIC)).toContain(fault);
  });

  it('only those on allowed hosts, if some are named', () => {
    const policy = mediaPolicy({ allowHosts: ['images.example.com', '*.cdn.example'] });
    expect(checkMediaUrl('https://images.example.com/a', policy)).toBeUndefined();
    expect(checkMediaUrl('https://IMAGES.example.com/a', policy)).toBeUndefined();
    expect(checkMediaUrl('https://eu.cdn.example/a', policy)).toBeUndefined();
    expect(checkMediaUrl('https://cdn.example/a', policy)).toContain('not one of those allowed');
    expect(checkMediaUrl('https://evil-images.example.com/a', policy)).toContain('not one of those allowed');
  });

  it('inline only up to a size', () => {
    const policy = mediaPolicy({ dataUrlBytesMax: 30 });
    expect(checkMediaUrl(`data:a/b;base64,${'A'.repeat(40)}`, policy)).toBeUndefined();
    expect(checkMediaUrl(`data:a/b;base64,${'A'.repeat(44)}`, policy)).toContain('at most 30');
  });
});

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function options(policy: Partial<MediaPolicy> = {}, more: Partial<MediaFetchOptions> = {}): MediaFetchOptions {
  return { policy: { ...INTERNAL_TOO, ...policy }, clock: systemClock, signal: new AbortController().signal, ...more };
}

describe('fetching a medium', () => {
  it('gives its type and its bytes', async () => {
    const url = await serve((_, response) => {
      response.setHeader('content-type', 'image/png; charset=x').end(Buffer.from([1, 2, 3]));
    });
    const { mediaType, bytes } = await fetchMedia(`${url}/a.png`, options());
    expect(mediaType).toBe('image/png');
    expect([...bytes]).toEqual([1, 2, 3]);
  });

  it('follows redirects, but to no internal address', async () => {
    const url = await serve((request, response) => {
      if (request.url === '/a') response.writeHead(302, { location: '/b' }).end();
      else if (request.url === '/b') response.end('there');
      else response.writeHead(302, { location: 'http://192.168.0.1/secret' }).end();
    });
    expect((await fetchMedia(`${url}/a`, options())).bytes.toString()).toBe('there');
    const { port } = new URL(url);
    // The name leads to the test server under an address that counts as public here.
    const asPublic = options(
      { allowsInternal: false },
      {
        resolve: ((_name: string, _options: object, done: (error: null, found: unknown) => void) =>
          done(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as NonNullable<MediaFetchOptions['resolve']>,
      },
    );
    await expect(fetchMedia(`http://example.com:${port}/a`, asPublic)).rejects.toThrow('names no public host');
    await expect(fetchMedia(`${url}/c`, options({ allowHosts: ['127.0.0.1'] }))).rejects.toThrow(
      'redirects to one that is on a host that is not one of those allowed',
    );
  });

  it('gives up on endless redirects', async () => {
    const url = await serve((_, response) => response.writeHead(307, { location: '/again' }).end());
    await expect(fetchMedia(url, options())).rejects.toThrow('redirects more than 5 times');
  });

  it('reads no more than allowed, for any length that the server announces', async () => {
    const announced = await serve((_, response) => response.end(Buffer.alloc(100)));
    const endless = await serve((_, response) => {
      const more = (): void => {
        while (response.write(Buffer.alloc(1000)));
        response.once('drain', more);
      };
      more();
    });
    for (const url of [announced, endless]) {
      await expect(fetchMedia(url, options({ fileBytesMax: 99 }))).rejects.toThrow('has more than 99 bytes');
    }
  });

  it('gives up on servers that are silent, before and within the answer', async () => {
    const mute = await serve(() => {});
    await expect(fetchMedia(mute, options({ connectTimeoutMs: 50 }))).rejects.toThrow('did not answer within 50 ms');
    const slow = await serve((_, response) => response.write('a'));
    await expect(fetchMedia(slow, options({ timeoutMs: 80 }))).rejects.toThrow('was not read within 80 ms');
  });

  it('names the status of the server, and reports when no server listens', async () => {
    const url = await serve((_, response) => response.writeHead(404).end());
    await expect(fetchMedia(url, options())).rejects.toMatchObject({
      code: 'invalid_value',
      message: expect.stringContaining('404'),
    });
    servers[0]?.close();
    servers[0]?.closeAllConnections();
    await expect(fetchMedia('http://127.0.0.1:1/', options())).rejects.toThrow('ECONNREFUSED');
  });

  it('stops with the request', async () => {
    const aborter = new AbortController();
    const url = await serve(() => aborter.abort(new Error('the client left')));
    await expect(fetchMedia(url, options({}, { signal: aborter.signal }))).rejects.toThrow('the client left');
  });
});

describe('an engine behind the guard', () => {
  const seen: EngineRequest[] = [];
  const inner: Engine = createHandlerEngine({
    info: TEXT_ENGINE_INFO,
    handler: async function* (request) {
      seen.push(request);
      yield 'ok';
    },
  });

  function guarded(policy: Partial<MediaPolicy> = {}, fetchesMax?: number): Engine {
    return createMediaGuardedEngine(inner, {
      policy: { ...INTERNAL_TOO, ...policy },
      clock: systemClock,
      ...(fetchesMax && { fetchesMax }),
    });
  }

  function ask(content: unknown, fetchesMax?: number, engine = guarded({}, fetchesMax)): Promise<unknown> {
    const request = chatRequest({ messages: [{ role: 'user', content }] });
    return new Promise((resolve) => {
      const sink = {
        tokens: () => {},
        output: (_: EngineOutput) => {},
        end: () => resolve(seen.at(-1)?.input),
        fail: resolve,
        isBlocked: () => false,
        onUnblocked: () => {},
      };
      engine.generate(request, sink, new AbortController().signal);
    });
  }

  it('gets what was named by URL inline, each URL read once', async () => {
    let reads = 0;
    const url = await serve((_, response) => {
      reads++;
      response.setHeader('content-type', 'image/png').end('x');
    });
    const image = { type: 'image_url', image_url: { url, detail: 'low' } };
    const input = await ask([
      { type: 'text', text: 'look' },
      image,
      image,
      { type: 'video_url', video_url: 'data:,v' },
    ]);
    const inline = { type: 'image_url', image_url: { url: 'data:image/png;base64,eA==', detail: 'low' } };
    expect(input).toMatchObject({
      body: {
        messages: [
          {
            content: [
              { type: 'text', text: 'look' },
              inline,
              inline,
              { type: 'video_url', video_url: { url: 'data:,v' } },
            ],
          },
        ],
      },
    });
    expect(reads).toBe(1);
  });

  it('reads no more media at a time than it may', async () => {
    const open = new Set<ServerResponse>();
    let most = 0;
    const url = await serve((_, response) => {
      open.add(response);
      most = Math.max(most, open.size);
      // Answers two at a time, late enough that a third would be seen.
      if (open.size < 2) return;
      setTimeout(() => {
        for (const each of open) each.end('x');
        open.clear();
      }, 20);
    });
    await ask(
      ['/1', '/2', '/3', '/4'].map((path) => ({ type: 'image_url', image_url: { url: url + path } })),
      2,
    );
    expect(most).toBe(2);
  });

  it('leaves requests without media as they are', async () => {
    expect(await ask('plain')).toMatchObject({ body: { messages: [{ content: 'plain' }] } });
  });

  it('refuses the request with the path of the URL that is wrong', async () => {
    const failure = await ask([{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }]);
    expect(failure).toMatchObject({
      code: 'invalid_value',
      param: 'messages[0].content[0].image_url.url',
      message: expect.stringContaining('scheme file:'),
    });
  });

  it('passes only the checked fields of a part to the engine', async () => {
    const secret = 'http://169.254.169.254/latest/meta-data/';
    const smuggled = await ask([
      { type: 'text', text: 'look', image_url: { url: secret } },
      { type: 'video_url', image_url: { url: 'data:,i' }, video_url: { url: 'data:,v', other: secret }, uuid: 'x' },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav', url: secret }, audio_url: { url: secret } },
    ]);
    expect(smuggled).toMatchObject({ kind: 'text' });
    expect((smuggled as { body: { messages: { content: unknown }[] } }).body.messages[0]?.content).toEqual([
      { type: 'text', text: 'look' },
      { type: 'video_url', video_url: { url: 'data:,v' } },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
    ]);
  });

  it.each<[string, Record<string, unknown>, string]>([
    [
      'the URL that its type names',
      { type: 'video_url', image_url: { url: 'data:,i' }, video_url: { url: 'file:///etc/passwd' } },
      '[0].video_url.url',
    ],
    ['a part of a type that is not checked', { type: 'image', image: 'file:///etc/passwd' }, '[0]'],
    ['a part without a type', { image_url: { url: 'file:///etc/passwd' } }, '[0]'],
    [
      'sound that is a URL',
      { type: 'input_audio', input_audio: { data: 'file:///etc/passwd', format: 'wav' } },
      '[0].input_audio.data',
    ],
    [
      'sound whose format is more than a name',
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav;base64,AAAA' } },
      '[0].input_audio.format',
    ],
  ])('refuses %s', async (_what, part, at) => {
    expect(await ask([part])).toMatchObject({ code: 'invalid_value', param: `messages[0].content${at}` });
  });

  it('refuses media that hold more together than a request may, however they are named', async () => {
    const url = await serve((_, response) => response.end(Buffer.alloc(40)));
    const engine = guarded({ requestBytesMax: 100 });
    const each = (path: string) => ({ type: 'image_url', image_url: { url: url + path } });
    expect(await ask([each('/a'), each('/b')], undefined, engine)).toMatchObject({ kind: 'text' });
    const refused = {
      code: 'invalid_value',
      param: 'messages',
      message: expect.stringContaining('100 bytes in total'),
    };
    expect(await ask([each('/a'), each('/b'), each('/c')], undefined, engine)).toMatchObject(refused);
    expect(await ask([each('/a'), each('/a'), each('/a')], undefined, engine)).toMatchObject(refused);
    const sound = { type: 'input_audio', input_audio: { data: 'A'.repeat(100), format: 'wav' } };
    expect(await ask([sound, each('/a')], undefined, engine)).toMatchObject(refused);
  });

  it('says the same of a host inside and of one that is not there', async () => {
    const resolve = (found: object[] | undefined) =>
      ((_name: string, _options: object, done: (error: Error | null, found: unknown) => void) =>
        done(found === undefined ? new Error('ENOTFOUND') : null, found)) as unknown as NonNullable<
        MediaFetchOptions['resolve']
      >;
    const says = (found: object[] | undefined) =>
      fetchMedia('http://db.corp.example/', options({ allowsInternal: false }, { resolve: resolve(found) })).catch(
        (error: Error) => error.message,
      );
    const inside = await says([{ address: '10.0.0.7', family: 4 }]);
    expect(inside).toBe(await says(undefined));
    expect(inside).not.toContain('10.0.0.7');
  });

  const picture = (url: string) => [{ type: 'image_url', image_url: { url } }];

  it('gets files inline where a folder of them is allowed, and a redirect leads to none', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stator-media-'));
    try {
      writeFileSync(join(folder, 'a.png'), 'x');
      const engine = guarded({ localFolder: folder });
      const url = `file://${folder}/a.png`;
      expect(await ask(picture(url), undefined, engine)).toMatchObject({
        body: { messages: [{ content: picture('data:image/png;base64,eA==') }] },
      });
      const refused = { code: 'invalid_value', param: 'messages[0].content[0].image_url.url' };
      expect(await ask(picture('file:///etc/passwd'), undefined, engine)).toMatchObject(refused);
      const leading = await serve((_, response) => response.writeHead(302, { location: url }).end());
      expect(await ask(picture(leading), undefined, engine)).toMatchObject({
        ...refused,
        message: expect.stringContaining('scheme file:'),
      });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('is fetched for over one connection while that is kept, and over a new one when the server has closed it', async () => {
    const sockets = new Set<Socket>();
    const url = await serve((request, response) => {
      sockets.add(request.socket);
      response.setHeader('content-type', 'image/png').end('x');
    });
    const engine = guarded();
    const inline = { body: { messages: [{ content: picture('data:image/png;base64,eA==') }] } };
    for (const path of ['/1', '/2', '/3']) {
      expect(await ask(picture(url + path), undefined, engine)).toMatchObject(inline);
    }
    expect(sockets.size).toBe(1);
    for (const socket of sockets) socket.destroy();
    expect(await ask(picture(`${url}/4`), undefined, engine)).toMatchObject(inline);
    expect(sockets.size).toBe(2);
  });
});
