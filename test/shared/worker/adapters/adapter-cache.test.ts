import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemRandom } from '../../../../shared/clock/index.ts';
import type { ServeError } from '../../../../shared/errors/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { AdapterCache, type AdapterCacheOptions } from '../../../../shared/worker/adapters/adapter-cache.ts';
import { waitUntil } from '../../../support/index.ts';
import { type S3Server, startS3Server } from '../../../support/s3-server.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const never = new AbortController().signal;
const WEIGHTS = Buffer.alloc(200_000, 'w');

describe('adapters out of a bucket', () => {
  let server: S3Server;
  let root: string;

  beforeAll(async () => {
    server = await startS3Server();
  });
  afterAll(() => server.stop());

  beforeEach(() => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'key');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    root = join(mkdtempSync(join(tmpdir(), 'adapters-')), 'cache');
    server.objects.clear();
    server.asked.length = 0;
    server.stuckAt = undefined;
    server.refusal = undefined;
    put('ad', { 'adapter_config.json': '{"r":8}', 'adapter_model.safetensors': WEIGHTS });
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(join(root, '..'), { recursive: true });
  });

  function put(prefix: string, files: Readonly<Record<string, string | Buffer>>): void {
    for (const [name, content] of Object.entries(files)) {
      server.objects.set(`models/${prefix}/${name}`, Buffer.from(content));
    }
  }

  function cacheWith(options: Partial<AdapterCacheOptions> = {}) {
    const clock = new VirtualClock(Date.now());
    const { logger, lines } = captureLogger();
    const buckets = { endpoint: server.url };
    const cache = new AdapterCache({ folder: root, buckets, clock, random: systemRandom, logger, ...options });
    return { cache, clock, lines };
  }

  const parts = (): readonly string[] =>
    (existsSync(root) ? readdirSync(root) : []).filter((name) => /part/.test(name));
  const reads = (): readonly string[] => server.asked.filter((line) => !line.endsWith('?list'));

  it('lie in a folder with all their files, and are fetched once', async () => {
    put('ad', { 'deep/down & out.txt': 'x', 'deep/': '' });
    put('ad2', { 'adapter_config.json': 'of another' });
    const { cache, lines } = cacheWith();
    const folder = await cache.hold('s3://models/ad', never);
    expect(readdirSync(folder, { recursive: true }).sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
      'deep',
      'deep/down & out.txt',
    ]);
    expect(readFileSync(join(folder, 'adapter_model.safetensors'))).toEqual(WEIGHTS);
    expect(lines).toMatchObject([{ message: 'adapter fetched', fields: { uri: 's3://models/ad', bytes: 200_008 } }]);
    const count = reads().length;
    expect(await cacheWith().cache.hold('s3://models/ad', never)).toBe(folder);
    expect(reads()).toHaveLength(count);
    expect(parts()).toEqual([]);
  });

  it('are fetched anew when they have changed; the folder of before stays as it was', async () => {
    const { cache } = cacheWith();
    const before = await cache.hold('s3://models/ad', never);
    put('ad', { 'adapter_config.json': '{"r":9}' });
    const after = await cache.hold('s3://models/ad/', never);
    expect(readFileSync(join(before, 'adapter_config.json'), 'utf8')).toBe('{"r":8}');
    expect(readFileSync(join(after, 'adapter_config.json'), 'utf8')).toBe('{"r":9}');
  });

  it('are one folder for several who fetch them at the same time', async () => {
    const holds = [cacheWith(), cacheWith(), cacheWith()].map(({ cache }) => cache.hold('s3://models/ad', never));
    expect(new Set(await Promise.all(holds)).size).toBe(1);
    expect(readdirSync(root)).toHaveLength(1);
  });

  it.each([
    ['s3://models/none', 'NotFound', 'no adapter_config.json under s3://models/none'],
    ['s3://nowhere/ad', 'NotFound', 's3://nowhere/ad: NoSuchBucket'],
    ['s3://', 'InvalidArgument', '`s3://` is not s3://bucket/prefix'],
    ['s3:///ad', 'InvalidArgument', '`s3:///ad` is not s3://bucket/prefix'],
    ['s3://models/evil', 'InvalidArgument', 'holds the key `evil/../../x`, which is not the path of a file'],
    ['s3://models/many', 'InvalidArgument', 'holds more than one adapter: over 1000 objects'],
  ])('refuse %s', async (uri, worker, words) => {
    put('evil', { 'adapter_config.json': '{}', '../../x': 'x' });
    if (uri.endsWith('many')) for (let at = 0; at <= 1000; at++) put('many', { [String(at)]: '' });
    const held = cacheWith().cache.hold(uri, never);
    const error: ServeError = await held.catch((thrown) => thrown);
    expect(error.worker).toBe(worker);
    expect(error.cause ?? error.message).toContain(words);
    expect(reads()).toEqual([]);
  });

  it('report that access is denied, or that the server is away', async () => {
    server.refusal = 403;
    await expect(cacheWith().cache.hold('s3://models/ad', never)).rejects.toMatchObject({
      worker: 'PermissionDenied',
      cause: 's3://models/ad: AccessDenied: AccessDenied',
    });
    const gone = { endpoint: 'http://127.0.0.1:1' };
    await expect(cacheWith({ buckets: gone }).cache.hold('s3://models/ad', never)).rejects.toMatchObject({
      worker: 'Unavailable',
      cause: expect.stringMatching(/^s3:\/\/models\/ad cannot be fetched: .*ECONNREFUSED/),
    });
  });

  it('leave nothing behind when they break off, change on the way or are not wanted any more', async () => {
    const { cache } = cacheWith();
    server.stuckAt = (response, content) => {
      response.write(content.subarray(0, 100));
      response.destroy();
    };
    await expect(cache.hold('s3://models/ad', never)).rejects.toMatchObject({ worker: 'Unavailable' });
    server.stuckAt = (response, content) => {
      put('ad', { 'adapter_model.safetensors': 'another' });
      response.end(content);
    };
    await expect(cache.hold('s3://models/ad', never)).rejects.toMatchObject({
      cause: expect.stringMatching(/has changed while it was/),
    });
    expect(parts()).toEqual([]);
    server.stuckAt = () => {};
    const leaving = new AbortController();
    const left = cache.hold('s3://models/ad', leaving.signal);
    left.catch(() => undefined); // looked at below
    await waitUntil(() => parts().length === 1);
    leaving.abort(new Error('the asker is gone'));
    await expect(left).rejects.toThrow('the asker is gone');
    await waitUntil(() => parts().length === 0);
    expect(readdirSync(root)).toEqual([]);
  });

  it('are given up when nothing comes any more', async () => {
    const { cache, clock } = cacheWith();
    server.stuckAt = (response, content) => void response.write(content.subarray(0, 3));
    const held = cache.hold('s3://models/ad', never);
    held.catch(() => undefined); // looked at below
    await waitUntil(() => reads().length > 0);
    await clock.advance(90_000);
    await expect(held).rejects.toMatchObject({ cause: 's3://models/ad cannot be fetched: its bucket is silent' });
    await waitUntil(() => parts().length === 0);
  });

  it('go when others need their room, unless they are loaded', async () => {
    const ids = ['a', 'b', 'c', 'd'];
    for (const id of ids) put(id, { 'adapter_config.json': `{"id":"${id}"}`, weights: Buffer.alloc(1000, id) });
    const { cache, clock, lines } = cacheWith({ bytesMax: 3100 });
    const hold = async (id: string): Promise<string> => {
      await clock.advance(1000);
      return cache.hold(`s3://models/${id}`, never);
    };
    const folders = { a: await hold('a'), b: await hold('b'), c: await hold('c') };
    writeFileSync(join(root, 'mine.txt'), 'not ours');
    await expect(hold('d')).rejects.toMatchObject({ worker: 'ResourceExhausted' });
    cache.release(folders.b);
    await hold('d');
    expect(existsSync(folders.b)).toBe(false);
    expect(readdirSync(root)).toHaveLength(4);
    for (const kept of [folders.a, folders.c, join(root, 'mine.txt')]) expect(existsSync(kept)).toBe(true);
    expect(lines.at(-2)).toMatchObject({ message: 'adapter removed from the cache', fields: { folder: folders.b } });
  });

  it.each([0, 3_600_000, -3_600_000])(
    'that a crashed process has left half fetched are removed once no process can be fetching them, by a clock %d ms off',
    async (offMs) => {
      const { cache } = cacheWith({ clock: new VirtualClock(Date.now() + offMs) });
      const [old, young] = ['old', 'young'].map((name) => join(root, `s3-${'0'.repeat(32)}.part-${name}`)) as [
        string,
        string,
      ];
      for (const path of [old, young]) mkdirSync(path, { recursive: true });
      const hourAgoSecs = Date.now() / 1000 - 3600;
      utimesSync(old, hourAgoSecs, hourAgoSecs);
      await cache.hold('s3://models/ad', never);
      expect(existsSync(old)).toBe(false);
      expect(existsSync(young)).toBe(true);
    },
  );
});
