import { mkdir, mkdtemp, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../shared/clock/index.ts';
import { createDiscovery, type Discovery } from '../../../shared/discovery/index.ts';
import { endpointAt, Witness } from '../../contract/discovery/records.ts';
import { FreezableClock, waitUntil } from '../../support/index.ts';

const instances = { bucket: 'v1/instances', prefix: '' } as const;
const fileName = (id: string): string => `ns%2Fbackend%2Fgenerate%2F${id}`;

let folder: string;
let rootPath: string;
let bucketPath: string;
let opened: Discovery[];
let problems: string[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-discovery-'));
  rootPath = join(folder, 'root');
  bucketPath = join(rootPath, 'v1', 'instances');
  opened = [];
  problems = [];
});

afterEach(async () => {
  await Promise.all(opened.map((discovery) => discovery.close()));
  await rm(folder, { recursive: true });
});

async function open(ttlMs = 500, pollMs = 50, clock: Clock = systemClock): Promise<Discovery> {
  const onProblem = (problem: Error) => void problems.push(problem.message);
  const discovery = await createDiscovery({ backend: 'file', rootPath, ttlMs, pollMs, clock, onProblem });
  opened.push(discovery);
  return discovery;
}

describe('layout', () => {
  it('has one file a key, named by the whole encoded key, and leaves no temporary file', async () => {
    const discovery = await open();
    await discovery.put(endpointAt('dynamo/backend/generate/bfa8c2c963503f05'));
    await discovery.put(endpointAt('dynamo/backend/generate/bfa8c2c963503f05', 'other:1'));
    expect(await readdir(bucketPath)).toEqual(['dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05']);
    const text = await readFile(join(bucketPath, 'dynamo%2Fbackend%2Fgenerate%2Fbfa8c2c963503f05'), 'utf8');
    expect(JSON.parse(text)).toMatchObject({ type: 'Endpoint', instance_id: 'bfa8c2c963503f05' });
  });

  it('is empty again after close', async () => {
    const discovery = await open();
    await discovery.put(endpointAt('ns/backend/generate/a'));
    await discovery.close();
    expect(await readdir(bucketPath)).toEqual([]);
  });
});

describe('damaged files', () => {
  it('keeps the previous value of a half-written file, and takes the whole one when it comes', async () => {
    const [writer, reader] = [await open(10_000), await open(10_000)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    const path = join(bucketPath, fileName('a'));
    const whole = JSON.stringify(endpointAt('ns/backend/generate/a', 'moved:1'));
    await writeFile(path, whole.slice(0, 40)); // in place, as a foreign writer might
    await waitUntil(() => problems.length === 1);
    expect(problems).toEqual(['unreadable discovery entries in v1/instances: ns/backend/generate/a']);
    expect([...witness.present.values()]).toEqual([endpointAt('ns/backend/generate/a')]);
    await writeFile(path, whole);
    await waitUntil(() => witness.events.length === 2);
    expect([...witness.present.values()]).toEqual([endpointAt('ns/backend/generate/a', 'moved:1')]);
  });

  it('ignores new files that are no records, temporary files and foreign names', async () => {
    const discovery = await open(10_000);
    const witness = new Witness();
    await mkdir(bucketPath, { recursive: true });
    await writeFile(join(bucketPath, fileName('a')), '{"type":');
    await writeFile(join(bucketPath, '.tmp_0123456789abcdef'), JSON.stringify(endpointAt('ns/backend/generate/b')));
    await writeFile(join(bucketPath, '%zz'), 'not an encoding');
    await mkdir(join(bucketPath, 'folder'));
    await discovery.watch(instances, witness);
    await discovery.put(endpointAt('ns/backend/generate/c'));
    await waitUntil(() => witness.present.size === 1);
    expect(await discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/c')]);
  });
});

describe('expiry', () => {
  it('deletes the files that a dead process left, whoever looks first', async () => {
    const reader = await open(10_000);
    await mkdir(bucketPath, { recursive: true });
    const path = join(bucketPath, fileName('a'));
    await writeFile(path, JSON.stringify(endpointAt('ns/backend/generate/a')));
    expect(await reader.list(instances)).toHaveLength(1);
    const longAgoS = Date.now() / 1000 - 11;
    await utimes(path, longAgoS, longAgoS);
    expect(await reader.list(instances)).toEqual([]);
    expect(await readdir(bucketPath)).toEqual([]);
  });

  it('writes a file again that was deleted although its process lives', async () => {
    const clock = new FreezableClock(); // of a writer that does not renew before the reader has looked
    const [writer, reader] = [await open(500, 50, clock), await open(10_000)];
    const witness = new Witness();
    clock.freeze();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rm(join(bucketPath, fileName('a')));
    await waitUntil(() => witness.present.size === 0);
    clock.thaw();
    await waitUntil(() => witness.events.length === 3);
    expect(witness.events.map((event) => event.kind)).toEqual(['added', 'removed', 'added']);
  });
});

describe('a vanished root folder', () => {
  it('is an outage for a watcher, which keeps what it knows until the folder is back', async () => {
    const [writer, reader] = [await open(60_000), await open(60_000)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rename(rootPath, `${rootPath}.away`);
    await waitUntil(() => witness.outages.length === 1);
    expect(witness.outages[0]).toMatch(/failing: cannot read .*instances: ENOENT/);
    expect(witness.present.size).toBe(1);
    await rename(`${rootPath}.away`, rootPath);
    await waitUntil(() => witness.outages.length === 2);
    expect(witness.events).toHaveLength(1);
    await writer.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.present.size === 2);
  });

  it('is made again by the processes that have records in it', async () => {
    const [writer, reader] = [await open(), await open()];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rm(rootPath, { recursive: true, maxRetries: 5 }); // the writer may be writing
    await waitUntil(async () => (await readdir(bucketPath)).length === 1);
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/a');
  });

  it('that was replaced between two looks is still followed by notice', async () => {
    const [writer, reader] = [await open(60_000, 200), await open(60_000, 200)];
    const witness = new Witness();
    await writer.put(endpointAt('ns/backend/generate/a'));
    await reader.watch(instances, witness);
    await rm(rootPath, { recursive: true, maxRetries: 5 }); // the writer may be writing
    await mkdir(bucketPath, { recursive: true });
    await waitUntil(() => witness.present.size === 0);
    await writer.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/b');
  });
});

it('says in one line which folder cannot be used', async () => {
  await writeFile(rootPath, 'a file is in the way');
  const discovery = await open();
  const message = /^cannot write the discovery folder .*root: .* Check DYN_FILE_KV$/;
  await expect(discovery.put(endpointAt('ns/c/e/1'))).rejects.toThrow(message);
  await expect(discovery.watch(instances, new Witness())).rejects.toMatchObject({ code: 'unavailable' });
});
