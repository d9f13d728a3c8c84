import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { CompileCache } from '../../../shared/host/weights/compile-cache.ts';
import { syncWeights } from '../../../shared/host/weights/sync-weights.ts';
import { type S3Server, startS3Server } from '../../support/s3-server.ts';
import { waitUntil } from '../../support/wait-until.ts';

const { signal } = new AbortController();
const URI = 's3://models/qwen/0f3c/';

function sumOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

describe('weights', () => {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = process.env;
  let s3: S3Server;
  let folder: string;
  let fetched: number;
  let retries: string[];

  beforeEach(async () => {
    process.env.AWS_ACCESS_KEY_ID = 'local';
    process.env.AWS_SECRET_ACCESS_KEY = 'local';
    s3 = await startS3Server();
    folder = mkdtempSync(join(tmpdir(), 'weights-'));
    fetched = 0;
    retries = [];
  });

  afterEach(async () => {
    if (AWS_ACCESS_KEY_ID === undefined) delete process.env.AWS_ACCESS_KEY_ID;
    if (AWS_SECRET_ACCESS_KEY === undefined) delete process.env.AWS_SECRET_ACCESS_KEY;
    await s3.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  function sync(ended = signal) {
    return syncWeights(
      {
        uri: URI,
        place: { endpoint: s3.url },
        folder,
        clock: systemClock,
        onBytes: (count) => {
          fetched += count;
        },
        onRetry: (problem) => retries.push(problem),
      },
      ended,
    );
  }

  function put(name: string, content: Buffer): void {
    s3.objects.set(`models/qwen/0f3c/${name}`, content);
  }

  const shard = Buffer.alloc(300_000, 'weights');

  it('are copied with their folders, and only once', async () => {
    put('config.json', Buffer.from('{}'));
    put('parts/model-00001.safetensors', shard);
    expect(await sync()).toEqual({ bytes: 300_002, files: 2 });
    expect(readFileSync(join(folder, 'parts/model-00001.safetensors'))).toEqual(shard);
    expect(fetched).toBe(300_002);
    await sync();
    expect(fetched).toBe(300_002);
  });

  describe('of which a file is there with the right size', () => {
    const path = () => join(folder, 'model.safetensors');
    const changed = Buffer.alloc(300_000, 'changed');

    /** Puts an object that was uploaded on a day of November. */
    function upload(content: Buffer, day: number): void {
      put('model.safetensors', content);
      s3.changedAt.set('models/qwen/0f3c/model.safetensors', new Date(Date.UTC(2026, 10, day)));
    }

    it('are copied again if the object has another content since', async () => {
      upload(shard, 3);
      await sync();
      upload(changed, 5);
      await sync();
      expect(readFileSync(path()).equals(changed)).toBe(true);
      await sync();
      expect(fetched).toBe(600_000);
    });

    it('are copied again by the sum of SHA256SUMS, too', async () => {
      upload(shard, 3);
      put('SHA256SUMS', Buffer.from(`${sumOf(shard)}  model.safetensors\n`));
      await sync();
      upload(changed, 5);
      put('SHA256SUMS', Buffer.from(`${sumOf(changed)}  model.safetensors\n`));
      await sync();
      expect(readFileSync(path()).equals(changed)).toBe(true);
    });

    it.each([
      ['its ETag', undefined],
      ['SHA256SUMS', `${sumOf(shard)}  model.safetensors\n`],
    ])('are kept if a later upload has the same content by %s', async (_what, sums) => {
      if (sums !== undefined) put('SHA256SUMS', Buffer.from(sums));
      upload(shard, 3);
      await sync();
      fetched = 0;
      upload(shard, 5);
      await sync();
      expect(fetched).toBe(sums?.length ?? 0);
      expect(statSync(path()).mtime).toEqual(new Date(Date.UTC(2026, 10, 5)));
    });

    it('are kept unread if they are newer than the object', async () => {
      writeFileSync(path(), changed); // not what the object holds
      upload(shard, 3);
      await sync();
      expect(readFileSync(path()).equals(changed)).toBe(true);
    });
  });

  it('go on where a connection broke off, and keep their sum', async () => {
    put('model.safetensors', shard);
    put('SHA256SUMS', Buffer.from(`${sumOf(shard)}  ./model.safetensors\n`));
    s3.stuckAt = (response, content) => {
      if (content.length < 1000) return void response.end(content); // the sums
      s3.stuckAt = undefined;
      response.write(content.subarray(0, 100_000), () => response.destroy());
    };
    await sync();
    expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(shard);
    expect(retries).toHaveLength(1);
    expect(fetched).toBeLessThan(300_000 + 100_000 + 100); // what had arrived did not come again
  });

  /** Copies until a part of one file has come and the copy ends. */
  async function breakOff(): Promise<void> {
    const stopped = new AbortController();
    s3.stuckAt = (response, content) => response.write(content.subarray(0, 200_000));
    const copied = sync(stopped.signal);
    const parts = join(folder, 'parts');
    const isWritten = (name: string) => statSync(join(parts, name)).size === 200_000;
    await waitUntil(() => readdirSync(parts).some(isWritten), { what: 'a part of the file' });
    stopped.abort(new Error('stopped'));
    await expect(copied).rejects.toThrow('stopped');
    s3.stuckAt = undefined;
    fetched = 0;
  }

  it('go on with the part that an earlier agent has left', async () => {
    put('parts/model.safetensors', shard);
    await breakOff();
    await sync();
    expect(fetched).toBe(100_000);
    expect(readFileSync(join(folder, 'parts/model.safetensors'))).toEqual(shard);
    expect(readdirSync(join(folder, 'parts'))).toEqual(['model.safetensors']);
  });

  it('begin anew if the object has changed since a part of it was copied', async () => {
    put('parts/model.safetensors', shard);
    await breakOff();
    const changed = Buffer.alloc(300_000, 'changed');
    put('parts/model.safetensors', changed);
    await sync();
    expect(readFileSync(join(folder, 'parts/model.safetensors')).equals(changed)).toBe(true);
    expect(readdirSync(join(folder, 'parts'))).toEqual(['model.safetensors']);
  });

  it('are refused if their sum is another one', async () => {
    put('model.safetensors', shard);
    put('SHA256SUMS', Buffer.from(`${'0'.repeat(64)}  model.safetensors\n`));
    await expect(sync()).rejects.toThrow('model.safetensors cannot be fetched: its sum is not the one of SHA256SUMS');
    expect(readdirSync(folder)).toEqual(['SHA256SUMS']);
    put('SHA256SUMS', Buffer.from(`${sumOf(shard)}  model.safetensors\n`)); // as long as the wrong ones
    await sync();
    expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(shard);
  });

  it('say at once that the machine may not read them, and that there are none', async () => {
    put('model.safetensors', shard);
    s3.refusal = 403;
    await expect(sync()).rejects.toThrow('AccessDenied');
    s3.refusal = undefined;
    s3.objects.clear();
    s3.objects.set('models/other', shard);
    await expect(sync()).rejects.toThrow(`${URI} holds no objects`);
  });

  it('never leave their folder', async () => {
    put('../escape', shard);
    await expect(sync()).rejects.toThrow('s3://models/qwen/0f3c/../escape is not the path of a file');
  });

  describe('with compiled code', () => {
    function cacheAt(place: string, key: readonly unknown[] = ['image', 'g6e']): CompileCache {
      return new CompileCache({
        weightsUri: URI,
        key,
        place: { endpoint: s3.url },
        clock: systemClock,
        folder: join(folder, place),
      });
    }

    it('pass it from the first machine to the next', async () => {
      s3.objects.set('models/other', shard);
      const first = cacheAt('first');
      expect(await first.fetch(signal)).toBe('absent');
      expect(await first.store(signal)).toBe('empty');
      mkdirSync(join(folder, 'first/vllm/torch'), { recursive: true });
      writeFileSync(join(folder, 'first/vllm/torch/kernel.so'), shard);
      expect(await first.store(signal)).toBe('stored');
      expect(await first.store(signal)).toBe('kept');
      const next = cacheAt('next');
      expect(await next.fetch(signal)).toBe('fetched');
      expect(readFileSync(join(folder, 'next/vllm/torch/kernel.so'))).toEqual(shard);
      expect(await next.store(signal)).toBe('kept');
      expect(await next.fetch(signal)).toBe('present');
      const [key = ''] = [...s3.objects.keys()].filter((name) => name.includes('.compile/'));
      expect(key).toMatch(/^models\/qwen\/0f3c\.compile\/[0-9a-f]{32}\/[0-9a-f]{64}\.tar\.gz$/);
      expect(key).toContain(sumOf(s3.objects.get(key) ?? Buffer.alloc(0)));
    });

    it('refuse an archive whose sum is not its name, and take none of another kind of machine', async () => {
      const first = cacheAt('first');
      s3.objects.set('models/other', shard);
      await first.fetch(signal);
      writeFileSync(join(folder, 'first/kernel.so'), shard);
      await first.store(signal);
      expect(await cacheAt('other', ['image', 'p5']).fetch(signal)).toBe('absent');
      const [key = ''] = [...s3.objects.keys()].filter((name) => name.includes('.compile/'));
      s3.objects.set(key, Buffer.from('something else'));
      await expect(cacheAt('next').fetch(signal)).rejects.toThrow('its sum is not its name');
      expect(readdirSync(join(folder, 'next'))).toEqual([]);
    });
  });
});
