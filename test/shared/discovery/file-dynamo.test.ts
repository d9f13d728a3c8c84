import { mkdir, mkdtemp, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Discovery } from '../../../shared/discovery/index.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { createDiscovery } from '../../support/create-discovery.ts';
import { recordedFiles } from '../../support/dynamo-files.ts';
import { waitUntil } from '../../support/index.ts';

/** Files that two mock workers of Dynamo 1.6.1 kept in their folder, by path. */
const FILES = recordedFiles();
const cards = { bucket: 'v1/mdc', prefix: '' } as const;
const PAST = new Date(Date.now() - 60_000);

let rootPath: string;
let opened: Discovery[];
let problems: string[];

beforeEach(async () => {
  rootPath = await mkdtemp(join(tmpdir(), 'stator-discovery-'));
  [opened, problems] = [[], []];
});

afterEach(async () => {
  await Promise.all(opened.map((discovery) => discovery.close()));
  await rm(rootPath, { recursive: true });
});

async function open(dynamoTtlMs = 10_000): Promise<Discovery> {
  const onProblem = (problem: Error): void => void problems.push(problem.message);
  const discovery = await createDiscovery({ backend: 'file', rootPath, pollMs: 50, dynamoTtlMs, onProblem });
  opened.push(discovery);
  return discovery;
}

/** Writes a file as Dynamo does: under a temporary name, which then becomes its own. */
async function writeAsDynamo(path: string, text: string): Promise<void> {
  const folder = join(rootPath, dirname(path));
  await mkdir(folder, { recursive: true });
  const temporary = join(folder, '.tmp_0123456789abcdef');
  await writeFile(temporary, text);
  await rename(temporary, join(rootPath, path));
}

async function writeAll(): Promise<void> {
  for (const [path, text] of FILES) await writeAsDynamo(path, text);
}

const pathsIn = (bucket: string): string[] => [...FILES.keys()].filter((path) => path.startsWith(`${bucket}/`));

describe('a folder that Dynamo uses, too', () => {
  it('shows every record of Dynamo to readers that ask for them, and to no others', async () => {
    await writeAll();
    const discovery = await open();
    for (const bucket of ['v1/instances', 'v1/mdc', 'v1/event_channels', 'v1/event_sources'] as const) {
      expect(await discovery.list({ bucket, prefix: '' })).toEqual([]);
      const found = await discovery.list({ bucket, prefix: '', includesDynamo: true });
      expect(found, bucket).toHaveLength(pathsIn(bucket).length);
      expect(found.every(({ wire }) => wire === 'dynamo')).toBe(true);
    }
    expect(problems).toEqual([]);
  });

  it('tells workers of both products as they come and go', async () => {
    const discovery = await open();
    const witness = new Witness();
    await discovery.watch({ ...cards, includesDynamo: true }, witness);
    await discovery.put(modelAt('ns/backend/generate/a'));
    await writeAll();
    const [first = ''] = pathsIn('v1/mdc');
    await waitUntil(() => witness.present.size === 1 + pathsIn('v1/mdc').length);
    await rm(join(rootPath, first));
    await waitUntil(() => witness.present.size === pathsIn('v1/mdc').length);
    await discovery.remove(modelAt('ns/backend/generate/a'));
    await waitUntil(() => witness.present.size === pathsIn('v1/mdc').length - 1);
  });

  it("has none of Stator's own files among those that Dynamo reads", async () => {
    const discovery = await open();
    await discovery.put(endpointAt('ns/backend/generate/a'));
    await discovery.watch({ ...cards, includesDynamo: true }, new Witness());
    for (const bucket of await readdir(join(rootPath, 'v1'))) {
      expect(await readdir(join(rootPath, 'v1', bucket)), bucket).toEqual([]);
    }
  });

  it('no longer shows a worker of Dynamo that was killed, and leaves its files to Dynamo', async () => {
    await writeAll();
    const discovery = await open(600);
    const witness = new Witness();
    await discovery.watch({ ...cards, includesDynamo: true }, witness);
    const [killed = '', alive = ''] = pathsIn('v1/mdc');
    await waitUntil(async () => {
      await utimes(join(rootPath, alive), new Date(), new Date());
      return witness.present.size === 1;
    });
    expect(witness.keys).toEqual([decodeURIComponent(alive.slice('v1/mdc/'.length))]);
    expect((await readdir(join(rootPath, dirname(killed)))).sort()).toHaveLength(pathsIn('v1/mdc').length);
  });

  it('does not show files that were left behind before it looked for the first time', async () => {
    await writeAll();
    for (const path of FILES.keys()) await utimes(join(rootPath, path), PAST, PAST);
    expect(await (await open()).list({ ...cards, includesDynamo: true })).toEqual([]);
  });

  it('keeps the previous value of a half-written card, and takes the whole one when it comes', async () => {
    await writeAll();
    const discovery = await open();
    const witness = new Witness();
    await discovery.watch({ ...cards, includesDynamo: true }, witness);
    const [path = ''] = pathsIn('v1/mdc');
    const text = FILES.get(path) ?? '';
    const [before] = witness.present.values();
    await writeFile(join(rootPath, path), text.slice(0, 100)); // in place, as older releases do
    await waitUntil(() => problems.length === 1);
    expect([...witness.present.values()]).toContain(before);
    await writeFile(join(rootPath, path), text.replaceAll('"qwen3"', '"qwen4"'));
    await waitUntil(() => JSON.stringify([...witness.present.values()]).includes('"qwen4"'));
  });

  it('is an outage for a watch of both products when it vanishes, and the end of the outage when both are back', async () => {
    await writeAll();
    const discovery = await open();
    const witness = new Witness();
    await discovery.watch({ ...cards, includesDynamo: true }, witness);
    const shown = witness.present.size;
    await rename(join(rootPath, 'v1'), join(rootPath, 'away'));
    await waitUntil(() => witness.outages.length === 1);
    await discovery.put(modelAt('ns/backend/generate/a'));
    await waitUntil(() => witness.present.size === shown + 1); // changes of Stator's own part still come
    expect(witness.outages).toHaveLength(1);
    await rename(join(rootPath, 'away'), join(rootPath, 'v1'));
    await waitUntil(() => witness.outages.length === 2);
    expect(witness.present.size).toBe(shown + 1);
  });

  it('takes records for Dynamo in its form and its place, and removes them again', async () => {
    const discovery = await open();
    const id = '13b0a22438119705';
    const record = {
      ...endpointAt(`ns/backend/generate/${id}`),
      wire: 'dynamo',
      transport: { dynamo_tcp: 'h:1/x' },
    } as const;
    await discovery.put(record);
    const path = join(rootPath, 'v1/instances', `ns%2Fbackend%2Fgenerate%2F${id}`);
    expect(await readFile(path, 'utf8')).toContain('"instance_id":1418812159064905477,"transport":{"tcp":"h:1/x"}');
    const found = await discovery.list({ bucket: 'v1/instances', prefix: '', includesDynamo: true });
    expect(found).toEqual([record]);
    await discovery.close();
    expect(await readdir(dirname(path))).toEqual([]);
  });
});
