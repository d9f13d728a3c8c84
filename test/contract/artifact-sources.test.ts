import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Artifact, artifactKey, folderSource } from '../../shared/artifacts/fetching/sources.ts';
import { type ArtifactSource, bucketSource, hubPlace, hubSource, workerSource } from '../../shared/artifacts/index.ts';
import { createWorkerMetrics } from '../../shared/telemetry/index.ts';
import { silentLogger } from '../../shared/telemetry/log/logger.ts';
import { EndpointHealth } from '../../shared/worker/control/endpoint-health.ts';
import { metadataPath, startStatusServer } from '../../shared/worker/control/status-server.ts';
import { openHubBed } from '../support/hub/hub-bed.ts';
import { type S3Server, startS3Server } from '../support/s3-server.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const never = new AbortController().signal;
const ADDRESS = { namespace: 'ns', component: 'backend', endpoint: 'generate' };

/** Puts a file of that name and content where the source reads it; gives it as a card would name it. */
type Place = (name: string, content: Buffer) => Artifact;

interface Setting {
  readonly source: ArtifactSource;
  readonly place: Place;
  close(): Promise<void>;
}

const artifactOf = (name: string, content: Buffer): Artifact => ({
  name,
  checksum: `sha256:${createHash('sha256').update(content).digest('hex')}`,
  size: content.length,
});

let root: string;
let s3: S3Server;
beforeAll(async () => {
  s3 = await startS3Server();
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'key');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret');
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await s3.stop();
});
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'stator-source-'));
});
afterEach(() => rmSync(root, { recursive: true }));

const SETTINGS: Readonly<Record<string, () => Promise<Setting>>> = {
  folder: async () => ({
    source: folderSource(root),
    place: (name, content) => {
      writeFileSync(join(root, name), content);
      return artifactOf(name, content);
    },
    close: async () => {},
  }),
  worker: async () => {
    const clock = new VirtualClock();
    const files: Record<string, { path: string; checksum: string; size: number }> = {};
    const card = { slug: 'a model', files };
    const server = await startStatusServer({
      health: new EndpointHealth(clock, []),
      metrics: createWorkerMetrics({ ...ADDRESS, model: 'm', clock }),
      logger: silentLogger,
      model: () => ({ address: ADDRESS, card }),
      ports: { first: 0, last: 0 },
      host: '127.0.0.1',
    });
    return {
      source: workerSource(`127.0.0.1:${server.port}/${metadataPath(ADDRESS, card)}`),
      place: (name, content) => {
        const folder = join(root, `of ${name}`);
        mkdirSync(folder);
        writeFileSync(join(folder, name), content);
        const artifact = artifactOf(name, content);
        files[name] = { path: join(folder, name), checksum: artifact.checksum, size: artifact.size };
        return artifact;
      },
      close: () => server.close(),
    };
  },
  s3: async () => ({
    source: bucketSource('models', { endpoint: s3.url }),
    place: (name, content) => {
      const artifact = artifactOf(name, content);
      s3.objects.set(`models/${artifactKey(artifact)}`, content);
      return artifact;
    },
    close: async () => s3.objects.clear(),
  }),
  hub: async () => {
    const bed = await openHubBed();
    const files: Record<string, Buffer> = {};
    bed.hub.models.set('org/name', { files, large: ['a.json'] });
    const model = { id: 'org/name', revision: 'main' };
    return {
      source: hubSource(model, hubPlace(bed.settings(), {}), bed.clock),
      place: (name, content) => {
        files[name] = content;
        return artifactOf(name, content);
      },
      close: () => bed.close(),
    };
  },
};

describe.each(Object.keys(SETTINGS))('a source of artifacts: %s', (name) => {
  let setting: Setting;
  beforeEach(async () => {
    setting = await SETTINGS[name]!();
  });
  afterEach(() => setting.close());

  async function read(artifact: Artifact, signal = never): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of await setting.source.read(artifact, signal)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['a text', Buffer.from('{"model_type": "qwen"}')],
    ['five megabytes', Buffer.alloc(5 << 20, 'abcdefg')],
  ])('gives the bytes of a file of %s', async (_, content) => {
    const artifact = setting.place('a file.json', content);
    expect((await read(artifact)).equals(content)).toBe(true);
  });

  it('rejects for a file that it has not', async () => {
    setting.place('there.json', Buffer.from('{}'));
    await expect(read(artifactOf('absent.json', Buffer.from('x')))).rejects.toThrow(Error);
  });

  it('stops at its signal', async () => {
    const artifact = setting.place('a.json', Buffer.alloc(5 << 20));
    await expect(read(artifact, AbortSignal.abort(new Error('enough')))).rejects.toThrow();
  });
});
