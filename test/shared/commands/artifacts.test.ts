import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ArtifactSource, bucketSource, ModelCache } from '../../../shared/artifacts/index.ts';
import { systemClock, systemRandom } from '../../../shared/clock/index.ts';
import { runArtifacts } from '../../../shared/commands/artifacts.ts';
import { readModelInfo } from '../../../shared/tokens/index.ts';
import { openHubBed } from '../../support/hub/hub-bed.ts';
import { sha256 } from '../../support/hub/hub-server.ts';
import { type S3Server, startS3Server } from '../../support/s3-server.ts';

const FOLDER = resolve('shared/artifacts/builtin-model');

describe('stator artifacts', () => {
  let server: S3Server;
  let env: Record<string, string>;
  beforeAll(async () => {
    server = await startS3Server();
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'key');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
    env = { STATOR_ARTIFACTS_BUCKET: 'models', AWS_ENDPOINT: server.url, AWS_ALLOW_HTTP: 'true' };
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await server.stop();
  });
  beforeEach(() => {
    server.objects.clear();
    server.objects.set('models/notes.txt', Buffer.from('of somebody else'));
    server.refusal = undefined;
  });

  it('puts what serving needs into the bucket, once, and lists it', async () => {
    const pushed = await runArtifacts(['push', FOLDER], env);
    expect(
      pushed
        .trim()
        .split('\n')
        .map((line) => line.split(/\s+/).at(-1)),
    ).toEqual(['config.json', 'tokenizer.json', 'tokenizer_config.json', 'generation_config.json']);
    const again = await runArtifacts(['push', FOLDER, '--json'], env);
    for (const line of again.trim().split('\n')) expect(JSON.parse(line)).toMatchObject({ isNew: false });
    const listed = (await runArtifacts(['list'], env)).trim().split('\n');
    expect(listed).toHaveLength(4);
    for (const line of listed) expect(line).toMatch(/^ *\d+ {2}sha256\/[0-9a-f]{64}$/);
  });

  it('puts the files of a model on the hub there, by its id', async () => {
    const bed = await openHubBed();
    const files = { 'config.json': Buffer.from('{}'), 'tokenizer.json': Buffer.from('{"model":{}}') };
    bed.hub.models.set('org/name', { files: { ...files, 'model.safetensors': Buffer.from('weights') } });
    const ofHub = { HF_ENDPOINT: bed.hub.url, HF_HOME: bed.home };
    await runArtifacts(['push', 'org/name'], { ...env, ...ofHub });
    const stored = Object.values(files).map((content) => `models/sha256/${sha256(content)}`);
    expect([...server.objects.keys()].filter((key) => key.includes('/sha256/')).sort()).toEqual(stored.sort());
    await expect(runArtifacts(['push', 'org/absent'], { ...env, ...ofHub })).rejects.toThrow('has no model org/absent');
    await bed.close();
  });

  it('puts them where a frontend finds them', async () => {
    await runArtifacts(['push', FOLDER], env);
    const root = mkdtempSync(join(tmpdir(), 'stator-pushed-'));
    const cache = new ModelCache({
      root,
      bytesMax: 1 << 30,
      clock: systemClock,
      random: systemRandom,
      onRead: () => {},
      onRemoved: () => {},
    });
    const { files } = await readModelInfo(FOLDER);
    const source: ArtifactSource = bucketSource('models', { endpoint: server.url });
    const names = await cache.withFolder({ modelName: 'm', files }, [source], async (folder) => readdirSync(folder));
    expect(names.sort()).toEqual(['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json']);
    rmSync(root, { recursive: true });
  });

  it('fetches the weights of a model, without a bucket of models', async () => {
    const weights = Buffer.from('weights'.repeat(1000));
    server.objects.set('weights/qwen/0f3c/model.safetensors', weights);
    server.objects.set('weights/qwen/0f3c/part/config.json', Buffer.from('{}'));
    const { STATOR_ARTIFACTS_BUCKET: _, ...withoutBucket } = env;
    const folder = join(mkdtempSync(join(tmpdir(), 'stator-fetched-')), 'weights');
    const fetch = () => runArtifacts(['fetch', 's3://weights/qwen/0f3c/', folder], withoutBucket);
    expect(await fetch()).toBe(`${folder} has 2 files with 7002 bytes, of which 7002 were fetched\n`);
    expect(readFileSync(join(folder, 'model.safetensors'))).toEqual(weights);
    expect(readdirSync(join(folder, 'part'))).toEqual(['config.json']);
    expect(await fetch()).toBe(`${folder} has 2 files with 7002 bytes, of which 0 were fetched\n`);
    const surroundings = { clock: systemClock, signal: AbortSignal.abort(new Error('stopped')), print: () => {} };
    const stopped = runArtifacts(['fetch', 's3://weights/qwen/0f3c/', `${folder}-2`], withoutBucket, surroundings);
    await expect(stopped).rejects.toThrow('stopped');
    server.refusal = 403;
    await expect(fetch()).rejects.toThrow('s3://weights/qwen/0f3c/ cannot be fetched: AccessDenied');
    rmSync(folder, { recursive: true });
  });

  it.each([
    [['push', FOLDER], { AWS_ENDPOINT: 'http://x' }, 'name a bucket with --bucket or STATOR_ARTIFACTS_BUCKET'],
    [['push'], {}, 'stator artifacts takes push MODEL, list, or fetch ADDRESS FOLDER'],
    [['pull', FOLDER], {}, 'stator artifacts takes push MODEL, list, or fetch ADDRESS FOLDER'],
    [['fetch', 's3://models/a/'], {}, 'stator artifacts fetch takes s3://BUCKET/FOLDER/ and a folder'],
    [['fetch', 's3://', '/tmp/weights'], {}, 's3://'],
    [['fetch', 's3://models/a/', '/tmp/weights', '--bucket', 'x'], {}, '--bucket is for push and list'],
    [['--json', 'fetch', 's3://models/a/', '/tmp/weights'], {}, '--json is for push and list'],
    [['push', FOLDER, '--buckets', 'x'], {}, "Unknown option '--buckets'"],
    [['push', '/nowhere'], {}, '/nowhere: no such folder'],
  ])('says what is wrong with %j', async (argv, more, message) => {
    const own = 'AWS_ENDPOINT' in more ? more : env;
    await expect(runArtifacts(argv as string[], own)).rejects.toThrow(message as string);
  });

  it('names the bucket that refuses, and plain HTTP that no setting permits', async () => {
    server.refusal = 403;
    await expect(runArtifacts(['push', FOLDER], env)).rejects.toThrow(/^bucket models: /);
    await expect(runArtifacts(['list'], { ...env, AWS_ALLOW_HTTP: 'false' })).rejects.toThrow(/AWS_ALLOW_HTTP=true/);
  });
});
