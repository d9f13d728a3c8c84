import { beforeEach, describe, expect, it } from 'vitest';
import type { ModelRecord } from '../../../../shared/discovery/index.ts';
import { LiveModelDirectory } from '../../../../shared/pipeline/index.ts';
import type { ModelDirectoryOptions } from '../../../../shared/pipeline/models/model-directory.ts';
import { endpointAt, modelAt } from '../../../contract/discovery/records.ts';
import { FleetBed } from '../../discovery/fleet-bed.ts';

const NAME = 'Tiny/Model-1.0';
const AT = 'ns/backend/generate/a';

let bed: FleetBed;
beforeEach(() => {
  bed = new FleetBed();
});

/** A worker of each record has come and gone. */
async function leaveBehind(...records: readonly ModelRecord[]): Promise<void> {
  const worker = bed.open();
  for (const record of records) {
    await worker.discovery.put(endpointAt(`${record.namespace}/backend/generate/${record.instance_id}`));
    await worker.discovery.put(record);
  }
  await bed.pass(20_000);
  await worker.discovery.close();
}

async function openEdge(options: Partial<ModelDirectoryOptions> = {}): Promise<LiveModelDirectory> {
  const edge = bed.open();
  const directory = new LiveModelDirectory({ discovery: edge.discovery, clock: bed.clock, ...options });
  const starting = directory.start();
  await bed.pass(1000);
  await starting;
  await bed.pass(20_000);
  return directory;
}

function modelWith(card: Partial<ModelRecord['card']>, path = AT): ModelRecord {
  const record = modelAt(path);
  return { ...record, card: { ...record.card, ...card } };
}

describe('the catalogue', () => {
  it('lets an edge know a model of which it never saw a worker', async () => {
    await leaveBehind(modelWith({ aliases: ['tiny'] }));
    const directory = await openEdge();
    expect(directory.find(NAME)).toBeUndefined();
    expect(directory.list()).toEqual([]);
    for (const name of [NAME, 'tiny']) {
      expect(directory.known(name)).toMatchObject({
        name,
        namespace: 'ns',
        workers: [],
        readiness: { isReady: false },
      });
    }
    expect(directory.listKnown().map(({ name }) => name)).toEqual([NAME, 'tiny']);
    expect(directory.known('another')).toBeUndefined();
  });

  it('stands behind what is served and what is remembered', async () => {
    await leaveBehind(modelAt(AT));
    const directory = await openEdge();
    const worker = bed.open();
    await worker.discovery.put(endpointAt('ns/backend/generate/b'));
    await worker.discovery.put(modelAt('ns/backend/generate/b'));
    await bed.pass(3000);
    expect(directory.known(NAME)?.workers.map(({ id }) => id)).toEqual(['b']);
    expect(directory.listKnown()).toHaveLength(1);
  });

  it('holds no adapters, and no worker that only helps others', async () => {
    await leaveBehind(
      { ...modelWith({ display_name: 'adapter', lora: { name: 'adapter' } }), model_suffix: 'adapter' },
      modelWith({ display_name: 'prefill', worker_type: 'prefill' }, 'ns/backend/generate/b'),
      modelWith({ display_name: 'encode', worker_type: 'encode' }, 'ns/backend/generate/c'),
      modelWith({ display_name: 'decode', worker_type: 'decode' }, 'ns/backend/generate/d'),
    );
    const directory = await openEdge();
    expect(directory.listKnown().map(({ name }) => name)).toEqual(['decode']);
  });

  it('shows an edge the models of its namespaces alone', async () => {
    await leaveBehind(
      modelWith({ display_name: 'ours' }),
      modelWith({ display_name: 'theirs' }, 'other/backend/generate/b'),
    );
    const directory = await openEdge({ namespace: 'ns' });
    expect(directory.listKnown().map(({ name }) => name)).toEqual(['ours']);
  });

  it('says what its latest worker said', async () => {
    await leaveBehind(modelAt(AT));
    await leaveBehind(modelWith({ kv_cache_block_size: 64 }, 'ns/other/generate/b'));
    const directory = await openEdge();
    expect(directory.known(NAME)?.card.kv_cache_block_size).toBe(64);
  });

  it('forgets an entry on request, until a worker announces it again', async () => {
    await leaveBehind(modelAt(AT));
    const directory = await openEdge();
    const { discovery } = bed.open();
    expect((await discovery.catalogue.list()).map(({ card }) => card.display_name)).toEqual([NAME]);
    expect(await discovery.catalogue.forget('unknown')).toBe(false);
    expect(await discovery.catalogue.forget(NAME)).toBe(true);
    expect(await discovery.catalogue.list()).toEqual([]);
    await bed.pass(20_000);
    expect(directory.known(NAME)).toBeUndefined();
    await leaveBehind(modelAt(AT));
    expect(directory.known(NAME)).toBeDefined();
  });
});
