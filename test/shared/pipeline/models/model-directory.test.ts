import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EndpointRecord, ModelCard, ModelRecord } from '../../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { LiveModelDirectory, nextPrefillState, workerSetsOf } from '../../../../shared/pipeline/index.ts';
import type { ModelDirectoryOptions } from '../../../../shared/pipeline/models/model-directory.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const clock = new VirtualClock();
let workers: MemoryDiscovery;
let discovery: MemoryDiscovery;
let directory: LiveModelDirectory;
let hub: MemoryHub;

beforeEach(() => {
  hub = new MemoryHub(clock);
  workers = new MemoryDiscovery({ hub, clock });
  discovery = new MemoryDiscovery({ hub, clock });
});

afterEach(async () => {
  directory.close();
  await Promise.all([workers.close(), discovery.close()]);
});

async function follow(options: Partial<ModelDirectoryOptions> = {}): Promise<LiveModelDirectory> {
  directory = new LiveModelDirectory({ discovery, clock, ...options });
  await directory.start();
  return directory;
}

/** Changes of one turn are taken in together at its end. */
async function settled(change: Promise<void>): Promise<void> {
  await change;
  await Promise.resolve();
}

function endpoint(id: string, namespace = 'ns', component = 'backend'): EndpointRecord {
  const address = { namespace, component, endpoint: 'generate', instance_id: id };
  return { type: 'Endpoint', ...address, transport: { memory: `${id}/generate` } };
}

function card(id: string, more: Partial<ModelCard> = {}, namespace = 'ns', component = 'backend'): ModelRecord {
  return {
    type: 'Model',
    namespace,
    component,
    endpoint: 'generate',
    instance_id: id,
    ...(more.lora === undefined ? {} : { model_suffix: more.lora.name }),
    card: {
      display_name: 'letters',
      slug: 'letters',
      files: { 'tokenizer.json': { path: '/m/tokenizer.json', checksum: 'sha256:00', size: 1 } },
      kv_cache_block_size: 16,
      model_type: ['Chat'],
      model_input: 'Tokens',
      worker_type: 'aggregated',
      needs: [],
      aliases: [],
      runtime_config: { context_length: 100 },
      ...more,
    },
  };
}

async function register(id: string, more: Partial<ModelCard> = {}, namespace = 'ns', component = 'backend') {
  await workers.put(endpoint(id, namespace, component));
  await workers.put(card(id, more, namespace, component));
  await Promise.resolve();
}

const workerIds = (name = 'letters'): readonly string[] | undefined =>
  directory.find(name)?.workers.map(({ id }) => id);
const names = (): readonly string[] => directory.list().map(({ name }) => name);

describe('the live instances', () => {
  it('are those in scope, in key order, read from the store once for any number of looks', async () => {
    await Promise.all(['b', 'a'].map((id) => workers.put(endpoint(id))));
    await workers.put(endpoint('c', 'elsewhere'));
    let reads = 0;
    const list = discovery.list.bind(discovery);
    discovery.list = (...query) => {
      reads++;
      return list(...query);
    };
    const models = await follow({ namespace: 'ns' });
    const before = reads;
    const first = models.instances();
    expect(first.map(({ instance_id }) => instance_id)).toEqual(['a', 'b']);
    for (let look = 0; look < 10; look++) expect(models.instances()).toBe(first);
    await settled(workers.put(endpoint('d')));
    expect(models.instances().map(({ instance_id }) => instance_id)).toEqual(['a', 'b', 'd']);
    await settled(workers.remove(endpoint('a')));
    expect(models.instances().map(({ instance_id }) => instance_id)).toEqual(['b', 'd']);
    expect(reads).toBe(before);
  });
});

describe('a model', () => {
  it('is served by the endpoint instances of its cards, whichever comes first', async () => {
    await workers.put(endpoint('a'));
    await workers.put(card('b'));
    await follow();
    expect(directory.find('letters')).toMatchObject({ workers: [], readiness: { isReady: false }, contextLength: 100 });
    await settled(workers.put(endpoint('b')));
    expect(directory.find('letters')?.readiness.isReady).toBe(true);
    await settled(workers.put(card('a')));
    expect(directory.find('letters')?.workers).toMatchObject([
      {
        id: 'a',
        transport: { memory: 'a/generate' },
        endpoint: 'ns.backend.generate',
        dataParallelSize: 1,
        taints: [],
      },
      { id: 'b' },
    ]);
  });

  it('tells of its workers what routing needs', async () => {
    await follow();
    const ranks = { data_parallel_start_rank: 2, data_parallel_size: 4 };
    const runtime_config = { ...ranks, taints: ['gpu=h200'], stable_routing_id: 'worker-3' };
    await workers.put({ ...endpoint('a'), device_type: 'cuda' });
    await settled(workers.put(card('a', { runtime_config, architectural_max_context_length: 7 })));
    expect(directory.find('letters')).toMatchObject({
      contextLength: 7,
      workers: [
        {
          dataParallelStartRank: 2,
          dataParallelSize: 4,
          deviceType: 'cuda',
          taints: ['gpu=h200'],
          stableId: 'worker-3',
        },
      ],
    });
  });

  it('is not ready without its last worker, and unknown without its last card', async () => {
    await register('a');
    await follow();
    await settled(workers.remove(endpoint('a')));
    expect(directory.find('letters')).toMatchObject({ workers: [], readiness: { isReady: false } });
    expect(names()).toEqual(['letters']);
    await settled(workers.remove(card('a')));
    expect(directory.find('letters')).toBeUndefined();
    expect(names()).toEqual([]);
  });

  it('is remembered after its last card where that is asked for, with its namespace', async () => {
    await register('a', {}, 'blue');
    await follow({ rememberedMs: 1000 });
    await settled(workers.close());
    expect(directory.find('letters')).toBeUndefined();
    expect(directory.known('letters')).toMatchObject({ workers: [], namespace: 'blue', readiness: { isReady: false } });
  });

  it('is remembered for the configured time and no longer, and is back with a worker', async () => {
    await register('a', { aliases: ['abc'] });
    await follow({ rememberedMs: 1000 });
    await settled(workers.close());
    workers = new MemoryDiscovery({ hub, clock });
    await clock.advance(999);
    expect(directory.listKnown().map(({ name }) => name)).toEqual(['letters', 'abc']);
    await register('b');
    expect(directory.known('letters')).toMatchObject({ workers: [{ id: 'b' }], readiness: { isReady: true } });
    await clock.advance(1);
    expect(directory.known('abc')).toBeUndefined();
    expect(directory.listKnown().map(({ name }) => name)).toEqual(['letters']);
  });

  it('is forgotten at once when it is an adapter that was taken out of a worker which stays', async () => {
    await register('a');
    const adapter = card('a', { display_name: 'tuned', lora: { name: 'tuned' } });
    await workers.put(adapter);
    await follow({ rememberedMs: 1000 });
    expect(directory.known('tuned')).toBeDefined();
    await settled(workers.remove(adapter));
    expect(directory.known('tuned')).toBeUndefined();
    await settled(workers.close());
    expect(directory.known('letters')).toBeDefined();
  });

  it('was created when the first worker known began to offer it, also after all workers have changed', async () => {
    const from = async (id: string, registered_at?: number): Promise<void> => {
      await workers.put(endpoint(id));
      await settled(workers.put({ ...card(id), ...(registered_at === undefined ? {} : { registered_at }) }));
    };
    const created = (): number | undefined => directory.known('letters')?.createdSecs;
    await from('b', 2000);
    await from('a', 1000);
    await follow({ rememberedMs: 1000 });
    expect(created()).toBe(1000);
    await settled(workers.close());
    workers = new MemoryDiscovery({ hub, clock });
    await from('c', 3000);
    expect(created()).toBe(1000);
    directory.close();
    await follow();
    expect(created()).toBe(3000); // all that a frontend can know that has just started
  });

  it('was created when it was first seen, where no worker says when', async () => {
    await register('a');
    await follow();
    const seenSecs = Math.floor(clock.wallMs() / 1000);
    await clock.advance(60_000);
    await register('b');
    expect(directory.find('letters')?.createdSecs).toBe(seenSecs);
  });

  it('is gone with the process that served it', async () => {
    await register('a');
    await follow();
    await settled(workers.close());
    expect(names()).toEqual([]);
  });

  it('waits for the workers that its own need', async () => {
    await follow();
    await register('e', { worker_type: 'prefill', needs: [['decode']] }, 'ns', 'prefill');
    expect(directory.find('letters')).toMatchObject({ workers: [], readiness: { isReady: false } });
    await register('d', { worker_type: 'decode', needs: [['prefill']] });
    expect(workerIds()).toEqual(['d']); // those that take requests
    await settled(workers.remove(endpoint('e', 'ns', 'prefill')));
    expect(workerIds()).toEqual([]);
  });

  it('is found in namespaces and components whose names are no plain words', async () => {
    await follow();
    await register('a', {}, 'a.b/c d', 'back.end');
    expect(workerIds()).toEqual(['a']);
  });
});

describe('a model that is renamed', () => {
  const others: string[] = [];
  const renamed = { modelName: 'ours', onNotRenamed: (model: string) => others.push(model) };
  beforeEach(() => {
    others.length = 0;
  });

  it('has that name alone, its own and its aliases gone', async () => {
    await register('a', { aliases: ['abc'] });
    await follow(renamed);
    expect(names()).toEqual(['ours']);
    expect(directory.find('ours')).toMatchObject({ name: 'ours', primaryName: 'ours', workers: [{ id: 'a' }] });
    expect([directory.find('letters'), directory.known('abc')]).toEqual([undefined, undefined]);
    expect(directory.shownNameOf('letters')).toBe('ours');
  });

  it('is the one that was offered first; adapters and further models keep their names, which is logged once', async () => {
    await follow(renamed);
    await register('a');
    await register('a', { display_name: 'letters-french', lora: { name: 'french' } });
    await clock.advance(5000);
    await register('b', { display_name: 'digits' });
    await register('c', { display_name: 'digits' });
    expect(names()).toEqual(['digits', 'letters-french', 'ours']);
    expect([workerIds('ours'), others]).toEqual([['a'], ['digits']]);
  });

  it('gives the name up to the next model when its last worker leaves', async () => {
    await follow(renamed);
    await register('a');
    await clock.advance(5000);
    await register('b', { display_name: 'digits' });
    await settled(workers.remove(card('a')));
    expect([names(), workerIds('ours')]).toEqual([['ours'], ['b']]);
  });

  it('keeps the name while it is remembered', async () => {
    await follow({ ...renamed, rememberedMs: 60_000 });
    await register('a');
    await register('b', { display_name: 'digits' });
    await settled(workers.remove(card('a')));
    await register('c', { display_name: 'digits' });
    expect([names(), directory.known('ours')?.card.display_name]).toEqual([['digits'], 'letters']);
    await register('d');
    expect(workerIds('ours')).toEqual(['d']);
  });

  it('keeps its own name if another model has the new one already', async () => {
    await register('a');
    await register('b', { display_name: 'ours' });
    await follow(renamed);
    expect([names(), workerIds('ours')]).toEqual([['letters', 'ours'], ['b']]);
  });
});

describe('names', () => {
  it('are those of the cards and their aliases, sorted, each found by itself', async () => {
    await register('a', { aliases: ['characters', 'abc'] });
    await follow();
    expect(names()).toEqual(['abc', 'characters', 'letters']);
    expect(directory.find('abc')).toMatchObject({ name: 'abc', primaryName: 'letters', workers: [{ id: 'a' }] });
  });

  it('of models win over aliases of others', async () => {
    await register('a', { aliases: ['digits'] });
    await register('b', { display_name: 'digits' });
    await follow();
    expect(workerIds('digits')).toEqual(['b']);
    await settled(workers.remove(card('b', { display_name: 'digits' })));
    expect(directory.find('digits')).toMatchObject({ primaryName: 'letters', workers: [{ id: 'a' }] });
  });

  it('of adapters are served by the instance of their base model', async () => {
    const lora = { display_name: 'letters-french', lora: { name: 'french' } };
    await register('a');
    await register('b');
    await workers.put(card('b', lora));
    await follow();
    expect(names()).toEqual(['letters', 'letters-french']);
    expect([workerIds(), workerIds('letters-french')]).toEqual([['a', 'b'], ['b']]);
    expect(directory.find('letters-french')?.mdcSum).not.toBe(directory.find('letters')?.mdcSum);
    expect(directory.find('letters-french')?.pool.base).toEqual(directory.find('letters')?.pool);
    await settled(workers.remove(endpoint('b')));
    expect([workerIds(), workerIds('letters-french')]).toEqual([['a'], []]);
  });
});

describe('adapters of one name for two base models', () => {
  it('are two sets of workers, of which the first in key order serves', async () => {
    const lora = { display_name: 'french', lora: { name: 'french' } };
    await register('a');
    await register('b', { display_name: 'digits' });
    for (const id of ['a', 'b']) await workers.put(card(id, lora));
    await follow();
    expect(workerIds('french')).toEqual(['a']);
    expect(directory.find('french')?.pool.base).toEqual(directory.find('letters')?.pool);
    await settled(workers.remove(endpoint('a')));
    expect(workerIds('french')).toEqual(['b']);
    expect(directory.find('french')?.pool.base).toEqual(directory.find('digits')?.pool);
  });
});

describe('cards that differ', () => {
  const other = { files: { 'tokenizer.json': { path: '/m/tokenizer.json', checksum: 'sha256:11', size: 1 } } };

  it('are two sets of workers, of which the first in key order serves', async () => {
    await register('b', other);
    await follow();
    const sum = directory.find('letters')?.mdcSum;
    expect(workerIds()).toEqual(['b']);
    await register('a');
    await register('c');
    expect(workerIds()).toEqual(['a', 'c']);
    expect(directory.find('letters')?.mdcSum).not.toBe(sum);
    await settled(workers.remove(endpoint('a')));
    expect(workerIds()).toEqual(['b']);
  });

  it('in nothing that decides how prompts are made are one set', async () => {
    await register('a', { runtime_config: { total_kv_blocks: 1 }, user_data: { anything: true } });
    await register('b', { source_path: '/elsewhere' });
    await follow();
    expect(workerIds()).toEqual(['a', 'b']);
  });
});

describe('prefill and decode workers', () => {
  const prefill = { worker_type: 'prefill', model_type: ['Prefill'], needs: [['decode']] } as const;
  const decode = {
    worker_type: 'decode',
    needs: [['prefill']],
    runtime_config: { tool_call_parser: 'hermes' },
  } as const;
  const prefillIds = () => directory.find('letters')?.prefill?.workers.map(({ id }) => id);

  it('stand in pools of their own, whichever comes first', async () => {
    await register('e1', prefill, 'ns', 'prefill');
    await follow();
    expect(directory.find('letters')).toMatchObject({ readiness: { isReady: false }, workers: [] });
    await register('d', decode);
    expect(workerIds()).toEqual(['d']);
    expect(prefillIds()).toEqual(['e1']);
    const model = directory.find('letters');
    expect(model?.pool.role).toBe('decode');
    expect(model?.prefill?.pool).toMatchObject({ role: 'prefill', blockSizeTokens: 16 });
    expect(model?.prefill?.pool.key).not.toBe(model?.pool.key);
    expect(model && workerSetsOf(model).map(({ pool, workers: set }) => [pool.role, set[0]?.id])).toEqual([
      ['decode', 'd'],
      ['prefill', 'e1'],
    ]);
  });

  it('belong together only in one namespace and for one prompt format', async () => {
    await register('d', decode);
    await register('e1', prefill, 'ns', 'prefill');
    await register('e2', prefill, 'other', 'prefill');
    await register('e3', { ...prefill, kv_cache_block_size: 32 }, 'ns', 'prefill');
    const files = { 'tokenizer.json': { path: '/m/tokenizer.json', checksum: 'sha256:11', size: 1 } };
    await register('e4', { ...prefill, files }, 'ns', 'prefill');
    await follow();
    expect(prefillIds()).toEqual(['e1']);
  });

  it('leave decode workers behind that can end what was begun', async () => {
    await register('d', decode);
    await register('e1', prefill, 'ns', 'prefill');
    await follow();
    expect(directory.find('letters')).toMatchObject({ workers: [{ id: 'd' }], standing: [] });
    await settled(workers.remove(endpoint('e1', 'ns', 'prefill')));
    expect(directory.find('letters')).toMatchObject({
      readiness: { isReady: false },
      workers: [],
      standing: [{ id: 'd' }],
    });
  });

  it('leave decode workers to serve alone where they may', async () => {
    await register('d', decode);
    await follow({ decodesAlone: true });
    expect(workerIds()).toEqual(['d']);
    expect(directory.find('letters')?.prefill).toBeUndefined();
  });

  it('say where their engines meet: by their own word, or at the address of the worker', async () => {
    const at = (bootstrap_host?: string) => ({
      ...prefill,
      runtime_config: { disaggregated_endpoint: { bootstrap_port: 8998, ...(bootstrap_host && { bootstrap_host }) } },
    });
    await register('d', decode);
    await register('e5', at('10.0.0.9'), 'ns', 'prefill');
    await workers.put({
      ...endpoint('e6', 'ns', 'prefill'),
      transport: { tcp: '[fd00::1]:9000/e6/ns/prefill/generate' },
    });
    await workers.put(card('e6', at(), 'ns', 'prefill'));
    await follow();
    expect(directory.find('letters')?.prefill?.workers.map(({ rendezvous }) => rendezvous)).toEqual([
      { host: '10.0.0.9', port: 8998 },
      { host: 'fd00::1', port: 8998 },
    ]);
  });

  it('are not mixed with aggregated ones: the first in order decide', async () => {
    await register('a');
    await register('d', decode);
    await register('e1', prefill, 'ns', 'prefill');
    await follow();
    expect(workerIds()).toEqual(['a']);
    expect(prefillIds()).toBeUndefined();
  });

  it.each([
    ['pending', false, 'pending'],
    ['pending', true, 'active'],
    ['active', true, 'active'],
    ['active', false, 'unavailable'],
    ['unavailable', false, 'unavailable'],
    ['unavailable', true, 'active'],
  ] as const)('make what was %s, with some there: %s, %s', (before, hasWorkers, after) => {
    expect(nextPrefillState(before, hasWorkers)).toBe(after);
  });
});

describe('the scope', () => {
  const namespaces = { a: 'prod', b: 'prod2', c: 'test' };

  it.each<[string, Partial<ModelDirectoryOptions>, readonly string[]]>([
    ['is everything by default', {}, ['a', 'b', 'c']],
    ['is one namespace', { namespace: 'prod' }, ['a']],
    ['is the namespaces of a prefix', { namespacePrefix: 'prod' }, ['a', 'b']],
    ['is that of the prefix when both are given', { namespace: 'test', namespacePrefix: 'prod2' }, ['b']],
  ])('%s', async (_name, options, expected) => {
    for (const [id, namespace] of Object.entries(namespaces)) await register(id, {}, namespace);
    const added: string[] = [];
    await follow({ ...options, onWorkerAdded: (id) => added.push(id) });
    expect([workerIds(), added]).toEqual([expected, expected]);
  });

  it('holds for workers that speak the request plane of another product, too', async () => {
    for (const [id, namespace] of Object.entries(namespaces))
      await workers.put({ ...card(id, {}, namespace), wire: 'dynamo' });
    const foreign: string[] = [];
    await follow({ namespace: 'prod', onForeignWorker: (record) => foreign.push(record.instance_id) });
    expect([names(), foreign]).toEqual([[], ['a']]);
  });

  it('holds for workers of Dynamo, if they are served', async () => {
    for (const [id, namespace] of Object.entries(namespaces))
      await workers.put({ ...card(id, {}, namespace), wire: 'dynamo' });
    const foreign: string[] = [];
    await follow({ namespace: 'prod', servesDynamo: true, onForeignWorker: ({ instance_id: id }) => foreign.push(id) });
    expect([names(), foreign]).toEqual([['letters'], []]);
  });
});

it('leaves out models whose cards are refused, and says why for as long as their workers are there', async () => {
  await register('a');
  await register('c');
  await register('b', { display_name: 'other' });
  await follow({ refusalOf: ({ display_name: name }) => (name === 'letters' ? 'it is refused' : undefined) });
  expect(directory.list().map(({ name }) => name)).toEqual(['other']);
  expect(directory.refused()).toEqual([{ model: 'letters', reason: 'it is refused' }]);
  await settled(workers.put(card('d', { display_name: 'other' })));
  expect(directory.refused()).toHaveLength(1);
  for (const id of ['a', 'c']) await settled(workers.remove(card(id)));
  expect(directory.refused()).toEqual([]);
});

it('lists at most 256 refused models', async () => {
  for (let at = 0; at < 300; at++) await workers.put(card(at.toString(16), { display_name: `model ${at}` }));
  await follow({ refusalOf: () => 'it is refused' });
  expect(directory.refused()).toHaveLength(256);
  expect(directory.list()).toEqual([]);
});

describe('changes', () => {
  it('of one turn are reported once, those of another again', async () => {
    let told = 0;
    directory = new LiveModelDirectory({ discovery, clock });
    directory.follow(() => told++);
    await directory.start();
    expect(told).toBe(1);
    await Promise.all([workers.put(endpoint('a')), workers.put(card('a')), workers.put(card('b'))]);
    await Promise.resolve();
    expect(told).toBe(2);
    await settled(workers.put(endpoint('b')));
    expect(told).toBe(3);
    directory.close();
    await settled(workers.put(card('c')));
    expect(told).toBe(3);
  });

  it('that one follower cannot take reach the others, are reported, and are applied again after 5 s', async () => {
    const failures: unknown[] = [];
    const models = await follow({ onChangeFailed: (error) => failures.push(error) });
    const told: number[] = [];
    let fails = true;
    models.follow(() => {
      if (fails) throw new Error('no room for models');
      told.push(models.list().length);
    });
    models.follow(() => void told.push(models.list().length));
    await settled(workers.put(card('a')));
    expect(told).toEqual([1]);
    expect(failures).toEqual([expect.objectContaining({ message: 'no room for models' })]);
    fails = false;
    await clock.advance(5000);
    expect(told).toEqual([1, 1, 1]);
    expect(failures).toHaveLength(1);
  });

  it('are neither applied nor tried again after the end', async () => {
    const models = await follow();
    let told = 0;
    models.follow(() => {
      told++;
      throw new Error('no room for models');
    });
    const change = workers.put(card('a'));
    models.close();
    await settled(change);
    await clock.advance(20_000);
    expect(told).toBe(0);
  });

  it('can be waited for', async () => {
    await follow();
    const hasTwo = directory.until((models) => models[0]?.workers.length === 2, new AbortController().signal);
    const order: string[] = [];
    const told = hasTwo.then(() => order.push('two workers'));
    await register('a');
    await clock.advance(0);
    order.push('one registered');
    await register('b');
    await told;
    expect(order).toEqual(['one registered', 'two workers']);
    await directory.until((models) => models.length === 1, new AbortController().signal); // holds already
  });

  it('are waited for no longer than the signal says', async () => {
    await follow();
    const patience = new AbortController();
    let looks = 0;
    const waiting = directory.until(() => ++looks < 0, patience.signal);
    patience.abort(new Error('no patience'));
    await expect(waiting).rejects.toThrow('no patience');
    await expect(directory.until(() => true, patience.signal)).rejects.toThrow('no patience');
    await register('a');
    expect(looks).toBe(1);
  });
});
