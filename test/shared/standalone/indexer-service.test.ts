import { afterEach, describe, expect, it } from 'vitest';
import { SYSTEM, systemClock } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { startIndexer } from '../../../shared/standalone/indexer-service.ts';
import { serveService } from '../../../shared/standalone/service.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../support/index.ts';
import { type ServiceClient, serviceClient } from '../../support/router/service-client.ts';
import { FakePublisher } from '../engines/kv-stream/fake-publisher.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openIndexer(peers: readonly string[] = []): Promise<ServiceClient & { readonly url: string }> {
  const flags = ['--service-port=0', ...(peers.length === 0 ? [] : [`--service-peers=${peers.join()}`])];
  const { settings } = resolveConfig('router', flags, { DYN_KV_INDEXER_TEST_ENDPOINTS: '1' });
  const service = await startIndexer(settings, SYSTEM, silentLogger);
  const server = await serveService(service, settings, systemClock);
  cleanups.push(service.close, () => server.close(1000));
  return { ...serviceClient(server.url), url: server.url };
}

async function openEngine(): Promise<FakePublisher> {
  const engine = await new FakePublisher().open();
  cleanups.push(() => engine.close());
  return engine;
}

const stored = (hashes: readonly (number | bigint)[], parent: number | bigint | null, tokens: readonly number[]) => ({
  type: 'BlockStored',
  block_hashes: hashes,
  parent_block_hash: parent,
  token_ids: tokens,
  block_size: 4,
  lora_id: null,
  medium: 'GPU',
});

async function scores(client: ServiceClient, tokens: readonly number[]): Promise<unknown> {
  const { json } = await client.post('/query', { model_name: 'm', token_ids: tokens });
  return (json as { readonly scores: unknown }).scores;
}

async function untilScores(client: ServiceClient, tokens: readonly number[], wanted: object): Promise<void> {
  await waitUntil(async () => JSON.stringify(await scores(client, tokens)) === JSON.stringify(wanted), {
    what: `scores ${JSON.stringify(wanted)}`,
  });
}

const TOKENS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

describe('standalone indexer on real sockets', () => {
  it('follows an engine: what it said before, live, what was lost on the way, removals', async () => {
    const [client, engine] = [await openIndexer(), await openEngine()];
    await engine.publish([stored([2n ** 64n - 1n], null, [1, 2, 3, 4])], { lost: true });
    const body = { instance_id: 2n ** 63n, model_name: 'm', block_size: 4, endpoint: engine.endpoint };
    expect((await client.post('/register', { ...body, replay_endpoint: engine.replayEndpoint })).status).toBe(201);
    await untilScores(client, TOKENS, { '9223372036854775808': { 0: 4 } });
    await engine.publish([stored([2], 2n ** 64n - 1n, [5, 6, 7, 8])], { lost: true });
    await engine.publish([stored([3], 2, [9, 10, 11, 12])]);
    await untilScores(client, TOKENS, { '9223372036854775808': { 0: 12 } });
    await engine.publish([{ type: 'BlockRemoved', block_hashes: [3], medium: 'GPU' }]);
    await untilScores(client, TOKENS, { '9223372036854775808': { 0: 8 } });
  });

  it('catches up after a pause', async () => {
    const [client, engine] = [await openIndexer(), await openEngine()];
    const { endpoint, replayEndpoint } = engine;
    await client.post('/register', {
      instance_id: 1,
      model_name: 'm',
      block_size: 4,
      endpoint,
      replay_endpoint: replayEndpoint,
    });
    await engine.publish([stored([1], null, [1, 2, 3, 4])]);
    await untilScores(client, TOKENS, { 1: { 0: 4 } });
    await client.post('/test/pause_listener', { instance_id: 1 });
    await engine.publish([stored([2], 1, [5, 6, 7, 8])]);
    expect(await scores(client, TOKENS)).toEqual({ 1: { 0: 4 } });
    await client.post('/test/resume_listener', { instance_id: 1 });
    await untilScores(client, TOKENS, { 1: { 0: 8 } });
  });

  it('begins with the dump of the first peer that answers', async () => {
    const [first, engine] = [await openIndexer(), await openEngine()];
    const { endpoint, replayEndpoint } = engine;
    await first.post('/register', {
      instance_id: 2n ** 64n - 1n,
      model_name: 'm',
      block_size: 4,
      endpoint,
      replay_endpoint: replayEndpoint,
    });
    await engine.publish([stored([1, 2], null, [1, 2, 3, 4, 5, 6, 7, 8])]);
    await untilScores(first, TOKENS, { '18446744073709551615': { 0: 8 } });
    const second = await openIndexer(['http://127.0.0.1:1', first.url]);
    expect(await scores(second, TOKENS)).toEqual({ '18446744073709551615': { 0: 8 } });
  });
});
