import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Discovery, EndpointRecord } from '../../../../shared/discovery/index.ts';
import { LiveModelDirectory, type RoutableModel } from '../../../../shared/pipeline/index.ts';
import { endpointAt, modelAt } from '../../../contract/discovery/records.ts';
import { createDiscovery } from '../../../support/create-discovery.ts';
import { recordedFiles } from '../../../support/dynamo-files.ts';

/** The card that a mock worker of Dynamo 1.6.1 wrote. */
const [RECORDED = ''] = [...recordedFiles()].flatMap(([path, text]) => (path.startsWith('v1/mdc/') ? [text] : []));
const { card_json: CARD } = JSON.parse(RECORDED) as { readonly card_json: Readonly<Record<string, unknown>> };

let rootPath: string;
let discovery: Discovery;
let directory: LiveModelDirectory;
let problems: string[];
let refused: string[];

beforeEach(async () => {
  rootPath = await mkdtemp(join(tmpdir(), 'stator-models-'));
  [problems, refused] = [[], []];
  discovery = await createDiscovery({
    backend: 'file',
    rootPath,
    onProblem: ({ message }) => void problems.push(message),
  });
});

afterEach(async () => {
  directory.close();
  await discovery.close();
  await rm(rootPath, { recursive: true });
});

/** Writes what a worker of Dynamo writes: its endpoint, and a card for its base model or for each of its adapters. */
async function register(path: string, card: Readonly<Record<string, unknown>> = {}, suffix = ''): Promise<void> {
  const [namespace, component, endpoint, id = ''] = path.split('/');
  const at = `"namespace":"${namespace}","component":"${component}","endpoint":"${endpoint}","instance_id":${BigInt(`0x${id}`)}`;
  const transport = `{"tcp":"192.0.2.2:1/${id}/${namespace}/${component}/${endpoint}"}`;
  await write(
    `v1/instances/${path}`,
    `{"type":"Endpoint",${at},"transport":${transport},"request_plane_codec":"msgpack"}`,
  );
  const text = JSON.stringify({ ...CARD, ...card });
  await write(`v1/mdc/${path}${suffix}`, `{"type":"Model",${at},"card_json":${text}}`);
}

async function write(path: string, text: string): Promise<void> {
  const [bucket, key] = [path.slice(0, path.indexOf('/', 3)), path.slice(path.indexOf('/', 3) + 1)];
  const name = encodeURIComponent(key).replaceAll('-', '%2D').replaceAll('_', '%5F');
  await mkdir(dirname(join(rootPath, bucket, name)), { recursive: true });
  await writeFile(join(rootPath, bucket, name), text);
}

async function modelsNow(): Promise<ReadonlyMap<string, RoutableModel>> {
  const onRefusedWorker = (record: EndpointRecord): void => void refused.push(record.refused ?? '');
  directory = new LiveModelDirectory({ discovery, clock: systemClock, servesDynamo: true, onRefusedWorker });
  await directory.start();
  return new Map(directory.list().map((model) => [model.name, model]));
}

describe('models of workers of Dynamo', () => {
  it('have their workers, with the address, codec and whole id of each', async () => {
    await register('dynamo/backend/generate/f16e6d90df20bd54');
    const model = (await modelsNow()).get('qwen3');
    expect(model).toMatchObject({ contextLength: 131_072, readiness: { isReady: true } });
    expect(model?.workers).toMatchObject([
      {
        id: 'f16e6d90df20bd54',
        transport: { dynamo_tcp: '192.0.2.2:1/f16e6d90df20bd54/dynamo/backend/generate', dynamo_codec: 'msgpack' },
        totalKvBlocks: 16_384,
        maxNumSeqs: 256,
      },
    ]);
  });

  it('are served when decode and prefill workers are both there, which find each other by their needs', async () => {
    await register('dynamo/backend/generate/a', { worker_type: 'decode', needs: [['prefill']] });
    const bootstrap = { disaggregated_endpoint: { bootstrap_host: null, bootstrap_port: 8998 } };
    const runtime_config = { ...(CARD.runtime_config as object), ...bootstrap };
    expect((await modelsNow()).get('qwen3')).toMatchObject({ workers: [], readiness: { isReady: false } });
    directory.close();
    const prefill = { worker_type: 'prefill', needs: [['decode']], model_type: 'Prefill', runtime_config };
    await register('dynamo/prefill/generate/b', prefill);
    expect((await modelsNow()).get('qwen3')).toMatchObject({
      workers: [{ id: 'a' }],
      prefill: { workers: [{ id: 'b', rendezvous: { host: '192.0.2.2', port: 8998 } }] },
    });
  });

  it('have pools of blocks that cover a token more, if their engines speculate', async () => {
    const runtime_config = { ...(CARD.runtime_config as object), enable_eagle: true };
    const decode = { worker_type: 'decode', needs: [['prefill']], runtime_config };
    await register('dynamo/backend/generate/a', decode);
    await register('dynamo/prefill/generate/b', { worker_type: 'prefill', model_type: 'Prefill' });
    await register('dynamo/backend/generate/c', { ...decode, runtime_config: CARD.runtime_config });
    const { pool, prefill, otherSets } = (await modelsNow()).get('qwen3') as RoutableModel;
    const sets = [pool, ...(otherSets ?? []).map((set) => set.pool)];
    expect(sets.map(({ isEagle }) => isEagle === true).sort()).toEqual([false, true]);
    expect(prefill?.pool.isEagle).toBe(false);
  });

  it('may be adapters beside their base model', async () => {
    await register('dynamo/backend/generate/a');
    const lora = { name: 'law', max_gpu_lora_count: null };
    await register('dynamo/backend/generate/a', { display_name: 'law', slug: 'law', lora }, '/law');
    const models = await modelsNow();
    expect([...models.keys()]).toEqual(['law', 'qwen3']);
    expect(models.get('law')).toMatchObject({ baseModel: 'qwen3', workers: [{ id: 'a' }], card: { lora } });
  });

  it('leave out workers whose files differ, while others of the name serve', async () => {
    await register('dynamo/backend/generate/a');
    const other = { path: '/m/tokenizer.json', checksum: `blake3:${'0'.repeat(64)}`, size: 5 };
    await register('dynamo/backend/generate/b', { tokenizer: { hf_tokenizer_json: other } });
    await register('dynamo/backend/generate/c', { source_path: '/elsewhere' });
    expect((await modelsNow()).get('qwen3')?.workers.map(({ id }) => id)).toEqual(['a', 'c']);
  });

  it('are not served by workers that name no role, which the log says', async () => {
    await register('dynamo/backend/generate/a', { worker_type: undefined });
    expect([...(await modelsNow()).keys()]).toEqual([]);
    expect(problems).toEqual([expect.stringContaining('Dynamo 1.2 or older')]);
  });

  it('are not served by workers of Dynamo 1.3, whose endpoints tell their release', async () => {
    for (const [path, text] of recordedFiles('1.3.1')) {
      await mkdir(dirname(join(rootPath, path)), { recursive: true });
      await writeFile(join(rootPath, path), text);
    }
    await register('dynamo/backend/generate/a', { display_name: 'newer' });
    expect([...(await modelsNow()).keys()]).toEqual(['newer']);
    expect(refused).toEqual([expect.stringContaining('Dynamo 1.3')]);
  });

  it('have workers of Stator beside them, if both have the same files', async () => {
    await register('dynamo/backend/generate/a');
    const { files, ...read } = ((await modelsNow()).get('qwen3') as RoutableModel).card;
    directory.close();
    const sums = Object.entries(files).map(([role, { checksum, ...file }]) => [
      role,
      { ...file, checksum: `sha256:${role}`, blake3: checksum },
    ]);
    const record = modelAt('ns/backend/generate/b');
    await discovery.put(endpointAt('ns/backend/generate/b'));
    await discovery.put({ ...record, card: { ...read, files: Object.fromEntries(sums) } });
    expect((await modelsNow()).get('qwen3')?.workers.map(({ id }) => id)).toEqual(['a', 'b']);
  });
});
