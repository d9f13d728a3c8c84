import { describe, expect, it } from 'vitest';
import { StandaloneIndexer } from '../../../shared/standalone/indexer.ts';
import { createIndexerMetrics, indexerRoutes } from '../../../shared/standalone/indexer-service.ts';
import type { OpenListener } from '../../../shared/standalone/rank-listeners.ts';
import { Peers } from '../../../shared/standalone/replicas.ts';
import { createServiceApp } from '../../../shared/standalone/service.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import type { BlockChange } from '../../../shared/worker-events/index.ts';
import { type ServiceClient, serviceClient } from '../../support/router/service-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const BLOCK = 4;
const MAX_ID = 2n ** 64n - 1n;

/** An indexer whose listeners are played by the test, by endpoint. */
function openIndexer({ hasTestRoutes = false, blocksMax = undefined as number | undefined } = {}) {
  const said = new Map<string, (change: BlockChange) => void>();
  const openListener: OpenListener = async ({ endpoint }, onChange) => {
    if (endpoint.endsWith(':1')) throw new Error('no route to it');
    said.set(endpoint, onChange);
    return { close: async () => void said.delete(endpoint) };
  };
  const metrics = createIndexerMetrics();
  const indexer = new StandaloneIndexer({ openListener, metrics, logger: silentLogger, blocksMax });
  const app = createServiceApp({
    routes: indexerRoutes({ indexer, metrics, peers: new Peers(), hasTestRoutes }),
    errorForm: 'mixed',
    clock: new VirtualClock(),
    logger: silentLogger,
    onAnswered: metrics.answered,
  });
  return { indexer, client: serviceClient(app), said };
}

function registration(instance: number | bigint, more: object = {}): object {
  return {
    instance_id: instance,
    endpoint: `tcp://host:${5000 + (Number(instance) % 100)}`,
    model_name: 'm',
    block_size: BLOCK,
    ...more,
  };
}

function storedOf(tokens: readonly number[], tier: 'device' | 'host_pinned' = 'device'): BlockChange {
  const { local, sequence } = hashBlocks(Uint32Array.from(tokens), { blockSizeTokens: BLOCK });
  return { kind: 'stored', tier, parent: undefined, blockHashes: sequence, tokensHashes: local };
}

const range = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

async function query(client: ServiceClient, tokens: readonly number[]): Promise<unknown> {
  return (await client.post('/query', { model_name: 'm', token_ids: tokens })).json;
}

describe('standalone indexer', () => {
  it('answers a prompt with what each worker holds, in tokens, tiers adding up, ids exact', async () => {
    const { client, said } = openIndexer();
    await client.post('/register', registration(MAX_ID));
    await client.post('/register', registration(7, { dp_rank: 1 }));
    said.get('tcp://host:5016')?.(storedOf(range(8)));
    said.get('tcp://host:5016')?.(storedOf(range(12), 'host_pinned'));
    said.get('tcp://host:5007')?.(storedOf(range(4)));
    expect(await query(client, range(17))).toEqual({
      scores: { '18446744073709551615': { 0: 8 }, 7: { 1: 4 } },
      frequencies: [],
      instances: {
        '18446744073709551615': { longest_matched: 12, gpu: 8, dp: { 0: 8 }, cpu: 12, disk: 12 },
        7: { longest_matched: 4, gpu: 4, dp: { 1: 4 }, cpu: 4, disk: 4 },
      },
    });
    const local = hashBlocks(Uint32Array.from(range(16)), { blockSizeTokens: BLOCK }).local;
    const signed = range(4).map((at) =>
      BigInt.asIntN(64, (BigInt(local[2 * at + 1]!) << 32n) | BigInt(local[2 * at]!)),
    );
    const byHash = await client.post('/query_by_hash', { model_name: 'm', block_hashes: signed });
    expect(byHash.json).toEqual(await query(client, range(16)));
    expect(await query(client, [99, 98, 97, 96])).toEqual({ scores: {}, frequencies: [], instances: {} });
  });

  it('keeps models, groups, adapters and salts apart', async () => {
    const { client, said } = openIndexer();
    await client.post('/register', registration(1));
    await client.post('/register', registration(2, { routing_group: 'blue', tenant_id: 'ignored' }));
    said.get('tcp://host:5002')?.(storedOf(range(4)));
    const ask = async (more: object): Promise<unknown> =>
      ((await client.post('/query', { model_name: 'm', token_ids: range(4), ...more })).json as { scores: unknown })
        .scores;
    expect(await ask({})).toEqual({});
    expect(await ask({ routing_group: 'blue' })).toEqual({ 2: { 0: 4 } });
    expect(await ask({ routing_group: 'blue', lora_name: 'a' })).toEqual({});
    expect(await ask({ routing_group: 'blue', cache_salt: 's' })).toEqual({});
    expect((await client.post('/query', { model_name: 'other', token_ids: [] })).status).toBe(404);
  });

  it.each([
    ['a good one', registration(1), 201],
    ['an invalid endpoint', registration(1, { endpoint: 'localhost:5557' }), 400],
    ['an invalid port', registration(1, { endpoint: 'tcp://host:70000' }), 400],
    ['a wildcard', registration(1, { endpoint: 'tcp://*:5557' }), 400],
    ['an invalid replay endpoint', registration(1, { replay_endpoint: 'x' }), 400],
    ['a block size of 0', registration(1, { block_size: 0 }), 400],
    ['a missing field', { instance_id: 1, endpoint: 'tcp://h:1', model_name: 'm' }, 422],
    ['an id beyond 64 bits', registration(2n ** 64n), 422],
    ['a negative id', registration(-1), 422],
    ['a model that is a number', registration(1, { model_name: 5 }), 422],
    ['a list', [], 422],
    ['broken JSON', '{"instance_id":', 400],
  ])('answers the registration of %s', async (_, body, status) => {
    const { client } = openIndexer();
    const answer = await client.post('/register', body);
    expect(answer.status).toBe(status);
    if (status === 422) expect(answer.headers.get('content-type')).toMatch(/^text\/plain/);
    if (status === 201) expect(answer.json).toEqual({ status: 'ok' });
  });

  it('refuses the same rank twice and another block size, and forgets a tree with its last worker', async () => {
    const { client, said } = openIndexer();
    await client.post('/register', registration(1));
    await client.post('/register', registration(1, { dp_rank: 1, endpoint: 'tcp://host:6000' }));
    expect((await client.post('/register', registration(1))).status).toBe(409);
    expect((await client.post('/register', registration(2, { block_size: 8 }))).status).toBe(409);
    said.get('tcp://host:5001')?.(storedOf(range(4)));
    expect((await client.post('/unregister', { instance_id: 1, model_name: 'm', dp_rank: 0 })).status).toBe(200);
    expect(await query(client, range(4))).toMatchObject({ scores: {} });
    expect((await client.post('/unregister', { instance_id: 1, model_name: 'm', dp_rank: 0 })).status).toBe(404);
    expect((await client.post('/unregister', { instance_id: 1, model_name: 'm' })).status).toBe(200);
    expect((await client.post('/query', { model_name: 'm', token_ids: [] })).status).toBe(404);
    expect((await client.post('/register', registration(2, { block_size: 8 }))).status).toBe(201);
  });

  it('does not count what an earlier life of a worker held, nor what its old listener still says', async () => {
    const { client, said } = openIndexer();
    await client.post('/register', registration(1));
    await client.post('/register', registration(2));
    const old = said.get('tcp://host:5001');
    old?.(storedOf(range(8)));
    await client.post('/unregister', { instance_id: 1, model_name: 'm' });
    await client.post('/register', registration(1));
    old?.(storedOf(range(8)));
    expect(await query(client, range(8))).toMatchObject({ scores: {} });
    said.get('tcp://host:5001')?.(storedOf(range(4)));
    expect(await query(client, range(8))).toMatchObject({ scores: { 1: { 0: 4 } } });
  });

  it('lists workers with their endpoints and the state of each listener', async () => {
    const { client } = openIndexer();
    await client.post('/register', registration(5));
    await client.post('/register', registration(5, { dp_rank: 1, endpoint: 'tcp://host:1' }));
    expect((await client.get('/workers?model_name=m&routing_group=default')).json).toEqual([
      {
        instance_id: 5,
        source: 'zmq',
        status: 'active',
        model_name: 'm',
        routing_group: 'default',
        block_size: BLOCK,
        endpoints: { 0: 'tcp://host:5005', 1: 'tcp://host:1' },
        listeners: {
          0: { endpoint: 'tcp://host:5005', status: 'active' },
          1: { endpoint: 'tcp://host:1', status: 'failed' },
        },
      },
    ]);
    expect((await client.get('/workers?model_name=x')).json).toEqual([]);
  });

  it('dumps what builds an equal index up again in another indexer', async () => {
    const [one, two] = [openIndexer(), openIndexer()];
    await one.client.post('/register', registration(MAX_ID));
    await one.client.post('/register', registration(3, { routing_group: 'a:b' }));
    one.said.get('tcp://host:5016')?.(storedOf(range(8)));
    one.said.get('tcp://host:5016')?.(storedOf([...range(4), 9, 9, 9, 9]));
    one.said.get('tcp://host:5016')?.(storedOf(range(12), 'host_pinned'));
    const dump = (await one.client.get('/dump')).json;
    expect(dump).toMatchObject({ 'm:default': { block_size: BLOCK }, 'm:a:b': { block_size: BLOCK, events: [] } });
    two.indexer.restore(dump);
    expect(await query(two.client, range(12))).toEqual(await query(one.client, range(12)));
    expect((await two.client.get('/dump')).json).toMatchObject({ 'm:default': { block_size: BLOCK } });
    two.indexer.restore({
      bad: 1,
      'm:default': { block_size: 'x' },
      'n:g': { block_size: 4, events: [null, { worker_id: -1 }] },
    });
    expect((await openIndexer().client.get('/dump')).json).toEqual({});
  });

  it('pauses and resumes listeners only where the test routes are on', async () => {
    const { client, said } = openIndexer({ hasTestRoutes: true });
    await client.post('/register', registration(1));
    const before = said.get('tcp://host:5001');
    expect((await client.post('/test/pause_listener', { instance_id: 1 })).status).toBe(200);
    before?.(storedOf(range(4)));
    expect(await query(client, range(4))).toMatchObject({ scores: {} });
    expect((await client.post('/test/resume_listener', { instance_id: 1 })).status).toBe(200);
    await client.get('/workers');
    said.get('tcp://host:5001')?.(storedOf(range(4)));
    expect(await query(client, range(4))).toMatchObject({ scores: { 1: { 0: 4 } } });
    expect((await client.post('/test/pause_listener', { instance_id: 9 })).status).toBe(404);
    const { client: plain } = openIndexer();
    expect(await plain.post('/test/pause_listener', { instance_id: 1 })).toMatchObject({ status: 404, text: '' });
  });

  it('keeps to the forms of errors, limits and metrics', async () => {
    const { client } = openIndexer();
    expect(await client.get('/nope')).toMatchObject({ status: 404, text: '' });
    expect(await client.get('/query')).toMatchObject({ status: 405, text: '' });
    expect(await client.get('/health')).toMatchObject({ status: 200, text: '' });
    expect((await client.post('/query', 'x'.repeat(8 * 1024 * 1024 + 1))).status).toBe(413);
    expect((await client.post('/query', '{}', { 'content-type': 'text/plain' })).status).toBe(415);
    const hash = { model_name: 'm', block_hashes: [2n ** 63n] };
    expect((await client.post('/query_by_hash', hash)).status).toBe(422);
    expect((await client.post('/query_by_hash', { ...hash, block_hashes: [], cache_salt: 's' })).status).toBe(400);
    expect((await client.post('/reopen_logs', '')).status).toBe(200);
    expect((await client.post('/register_peer', { url: 'http://a' })).status).toBe(201);
    expect((await client.get('/peers')).json).toEqual(['http://a']);
    expect((await client.post('/deregister_peer', { url: 'http://a' })).status).toBe(200);
    expect((await client.post('/deregister_peer', { url: 'http://a' })).status).toBe(404);
    await client.post('/register', registration(1));
    const { text } = await client.get('/metrics');
    expect(text).toContain('dynamo_kvindexer_requests_total{endpoint="/query_by_hash",method="POST"} 2');
    expect(text).toContain('dynamo_kvindexer_errors_total{endpoint="/deregister_peer",status_class="4xx"} 1');
    expect(text).toContain('dynamo_kvindexer_models 1');
    expect(text).toContain('dynamo_kvindexer_workers 1');
    expect(text).toContain('dynamo_kvindexer_listeners{status="active"} 1');
  });

  it('stays within the bound of its index and says so', async () => {
    const { client, said } = openIndexer({ blocksMax: 64 });
    await client.post('/register', registration(1));
    for (let prompt = 0; prompt < 100; prompt++)
      said.get('tcp://host:5001')?.(storedOf(range(16).map((at) => prompt * 100 + at)));
    const { text } = await client.get('/metrics');
    expect(Number(/stator_router_index_blocks (\d+)/.exec(text)?.[1])).toBeLessThanOrEqual(64);
    expect(text).toMatch(/stator_router_index_evicted_blocks_total [1-9]/);
    expect(text).toMatch(/stator_router_index_bytes [1-9]/);
    expect(text).toMatch(/dynamo_kvrouter_kv_cache_events_applied\{event_type="stored",status="ok"\} 100\n/);
    said.get('tcp://host:5001')?.(storedOf(range(16).map((at) => 9900 + at))); // it is there
    const later = (await client.get('/metrics')).text;
    expect(later).toMatch(/dynamo_kvrouter_kv_cache_event_warnings\{warning_kind="duplicate_store"\} [1-9]/);
    expect(
      await query(
        client,
        range(16).map((at) => 9900 + at),
      ),
    ).toMatchObject({ scores: { 1: { 0: 16 } } });
  });
});
