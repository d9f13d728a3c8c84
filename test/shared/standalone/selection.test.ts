import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { KvRouterConfig, SessionAffinityOptions } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import type { OpenListener } from '../../../shared/standalone/rank-listeners.ts';
import { Peers } from '../../../shared/standalone/replicas.ts';
import { selectionRoutes } from '../../../shared/standalone/selection-service.ts';
import { SelectionService } from '../../../shared/standalone/selections.ts';
import { createServiceApp } from '../../../shared/standalone/service.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import type { BlockChange } from '../../../shared/worker-events/index.ts';
import { serviceClient } from '../../support/router/service-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const BLOCK = 4;
const MAX_ID = 2n ** 64n - 1n;

function openService(config: Partial<KvRouterConfig> = {}, sessionAffinity?: SessionAffinityOptions) {
  const clock = new VirtualClock();
  const said = new Map<string, (change: BlockChange) => void>();
  const openListener: OpenListener = async ({ endpoint }, onChange) => {
    said.set(endpoint, onChange);
    return { close: async () => {} };
  };
  const service = new SelectionService({
    config: kvRouterConfig({ queueThreshold: undefined, ...config }),
    sessionAffinity,
    openListener,
    clock,
    random: seededRandom(1),
    logger: silentLogger,
  });
  const routes = selectionRoutes({ service, peers: new Peers(), nowMs: () => clock.nowMs() });
  const client = serviceClient(createServiceApp({ routes, errorForm: 'json', clock, logger: silentLogger }));
  const stored = (worker: number | bigint, tokens: readonly number[]): void => {
    const { local, sequence } = hashBlocks(Uint32Array.from(tokens), { blockSizeTokens: BLOCK });
    said.get(kvEndpoint(worker))?.({
      kind: 'stored',
      tier: 'device',
      parent: undefined,
      blockHashes: sequence,
      tokensHashes: local,
    });
  };
  return { service, client, clock, stored };
}

const kvEndpoint = (id: number | bigint): string => `tcp://host:${5000 + (Number(id) % 100)}`;
const range = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

function record(id: number | bigint, more: object = {}): object {
  return { worker_id: id, endpoint: `http://w${id}`, block_size: BLOCK, kv_events_endpoint: kvEndpoint(id), ...more };
}

describe('workers of the selection service', () => {
  it('become schedulable once nothing is missing, and ready with them the service', async () => {
    const { client } = openService();
    expect((await client.get('/ready')).status).toBe(503);
    const first = await client.post('/workers', { worker_id: MAX_ID, dp_size: 2 });
    expect(first).toMatchObject({ status: 201, json: { worker_id: MAX_ID, lifecycle: 'incomplete' } });
    expect((first.json as { not_schedulable_reasons: unknown }).not_schedulable_reasons).toHaveLength(4);
    const patch = { worker_id: MAX_ID, endpoint: 'e', block_size: 4, kv_events_endpoint: 'tcp://h:1' };
    expect((await client.send('PATCH', '/workers', patch)).json).toMatchObject({ lifecycle: 'incomplete' });
    const whole = await client.send('PATCH', `/workers/${MAX_ID}`, {
      kv_events_endpoints: { 0: 'tcp://h:1', 1: 'tcp://h:2' },
    });
    expect(whole).toMatchObject({ status: 200, json: { lifecycle: 'schedulable', not_schedulable_reasons: [] } });
    expect((await client.get('/ready')).status).toBe(200);
    expect((await client.post('/workers', { worker_id: MAX_ID })).json).toMatchObject({
      lifecycle: 'incomplete',
      endpoint: null,
    });
    expect((await client.get('/ready')).status).toBe(503);
  });

  it('need to say what they batch where requests may wait', async () => {
    const { client } = openService({ queueThreshold: 1 });
    expect((await client.post('/workers', record(1))).json).toMatchObject({ lifecycle: 'incomplete' });
    const whole = await client.post('/workers', record(1, { max_num_batched_tokens: 100 }));
    expect(whole.json).toMatchObject({ lifecycle: 'schedulable' });
  });

  it('leave with their record, once', async () => {
    const { client } = openService();
    await client.post('/workers', record(1));
    const gone = await client.send('DELETE', '/workers/1');
    expect(gone).toMatchObject({ status: 200, json: { worker_id: 1, lifecycle: 'unschedulable' } });
    expect((await client.send('DELETE', '/workers/1')).status).toBe(404);
    expect((await client.send('DELETE', '/workers', { worker_id: 1 })).status).toBe(404);
    expect((await client.send('PATCH', '/workers/1', {})).status).toBe(404);
    expect((await client.get('/workers')).json).toEqual([]);
  });

  it('with another block size than the others are unschedulable, and draining ones get nothing new', async () => {
    const { client } = openService();
    await client.post('/workers', record(1));
    expect((await client.post('/workers', record(2, { block_size: 8 }))).json).toMatchObject({
      lifecycle: 'unschedulable',
    });
    expect((await client.send('PATCH', '/workers/1', { draining: true })).json).toMatchObject({
      lifecycle: 'draining',
    });
    expect((await client.post('/select', { token_ids: range(8) })).status).toBe(503);
    await client.send('PATCH', '/workers/1', { draining: false });
    expect((await client.post('/select', { token_ids: range(8) })).json).toMatchObject({ worker_id: 1 });
  });
});

describe('selection', () => {
  it('goes where the prompt is cached, and says what it found', async () => {
    const { client, stored } = openService();
    for (const id of [1, MAX_ID]) await client.post('/workers', record(id));
    stored(MAX_ID, range(8));
    const answer = await client.post('/select', { token_ids: range(13) });
    expect(answer).toMatchObject({ status: 200 });
    expect(answer.json).toEqual({
      model_name: 'default',
      routing_group: 'default',
      worker_id: MAX_ID,
      dp_rank: 0,
      endpoint: `http://w${MAX_ID}`,
      block_size: BLOCK,
      overlap: { longest_matched: 8, gpu: 8, dp: { 0: 8 }, cpu: 8, disk: 8 },
      effective_prefill_tokens: 5,
      potential_decode_blocks: 7,
    });
    expect((await client.get('/loads')).json).toMatchObject([{ active_requests: 0 }, { active_requests: 0 }]);
    const { local, sequence } = hashBlocks(Uint32Array.from(range(13)), { blockSizeTokens: BLOCK });
    const trio = { block_hashes: signed(local), sequence_hashes: signed(sequence), isl_tokens: 13 };
    expect((await client.post('/select', trio)).json).toEqual(answer.json);
    const scores = (await client.post('/overlap_scores', trio)).json;
    expect(scores).toMatchObject({
      num_blocks: 3,
      workers: [{ device_blocks: 0 }, { worker_id: MAX_ID, device_blocks: 2 }],
    });
    expect((await client.get('/dump')).json).toMatchObject({
      'default:default': { block_size: BLOCK, events: [{ worker_id: MAX_ID }] },
    });
  });

  it('books, counts output, ends, each reservation once', async () => {
    const { client } = openService({ trackOutputBlocks: true });
    await client.post('/workers', record(1));
    const booked = await client.post('/select_and_reserve', { selection_id: 'a', token_ids: range(16) });
    expect(booked.json).toMatchObject({ selection_id: 'a', isl_tokens: 16, track_prefill_tokens: true });
    expect((booked.json as { sequence_hashes: unknown[] }).sequence_hashes).toHaveLength(4);
    expect((await client.post('/select_and_reserve', { selection_id: 'a', token_ids: [] })).status).toBe(409);
    const load = async (): Promise<unknown> => {
      const [row] = (await client.get('/loads')).json as Record<string, unknown>[];
      return [row?.active_prefill_tokens, row?.active_decode_blocks];
    };
    expect(await load()).toEqual([16, 4]);
    expect((await client.send('POST', '/reservations/a/prefill_complete')).status).toBe(200);
    expect((await client.post('/reservations/a/output_block', {})).status).toBe(200);
    expect(await load()).toEqual([0, 5]);
    expect((await client.post('/reservations/a/output_block', { decay_fraction: 0.5 })).status).toBe(200);
    expect(await load()).toEqual([0, 3]);
    for (const fraction of [-0.1, 1.1]) {
      expect((await client.post('/reservations/a/output_block', { decay_fraction: fraction })).status).toBe(400);
    }
    expect((await client.send('DELETE', '/reservations/a')).status).toBe(200);
    for (const [method, path] of [
      ['DELETE', ''],
      ['POST', '/prefill_complete'],
      ['POST', '/output_block'],
    ] as const) {
      expect((await client.send(method, `/reservations/a${path}`)).status).toBe(404);
    }
    expect(await load()).toEqual([0, 0]);
    const random = await client.post('/select_and_reserve', { token_ids: range(4) });
    expect((random.json as { selection_id: string }).selection_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('remembers a choice by its id for 120 s, to be booked once', async () => {
    const { client, clock } = openService();
    await client.post('/workers', record(1));
    for (const id of ['a', 'b', 'c']) await client.post('/select', { selection_id: id, token_ids: range(8) });
    expect((await client.post('/reservations', { selection_id: 'a' })).status).toBe(201);
    expect((await client.post('/reservations', { selection_id: 'a' })).status).toBe(404);
    expect((await client.post('/reservations', { selection_id: 'never' })).status).toBe(404);
    await client.send('DELETE', '/workers/1');
    expect((await client.post('/reservations', { selection_id: 'b' })).status).toBe(404);
    await client.post('/workers', record(1));
    await clock.advance(120_000);
    expect((await client.post('/reservations', { selection_id: 'c' })).status).toBe(404);
  });

  it('books what the caller chose itself', async () => {
    const { client, stored } = openService();
    await client.post('/workers', record(1));
    stored(1, range(4));
    const body = { selection_id: 'x', worker_id: 1, token_ids: range(10) };
    expect(await client.post('/reservations', body)).toMatchObject({
      status: 201,
      json: { selection_id: 'x', worker_id: 1 },
    });
    expect((await client.get('/loads')).json).toMatchObject([{ active_prefill_tokens: 6, active_decode_blocks: 2 }]);
    expect((await client.post('/reservations', body)).status).toBe(409);
    expect((await client.post('/reservations', { ...body, selection_id: 'y', worker_id: 9 })).status).toBe(404);
    expect((await client.post('/reservations', { ...body, selection_id: 'y', dp_rank: 3 })).status).toBe(404);
  });

  it('waits its turn, unless it only asks for advice', async () => {
    const { client, service } = openService({ queueThreshold: 1 });
    await client.post('/workers', record(1, { max_num_batched_tokens: 8 }));
    await client.post('/select_and_reserve', { selection_id: 'a', token_ids: range(16) });
    const waiting = client.post('/select', { token_ids: range(4) });
    const advice = await client.post('/select', { token_ids: range(4), advisory: true });
    expect(advice.json).toMatchObject({ worker_id: 1, worker_load: { active_prefill_tokens: 16, active_requests: 1 } });
    expect([...service.pools][0]?.scheduler.pendingRequests).toBe(1);
    await client.send('DELETE', '/reservations/a');
    expect(await waiting).toMatchObject({ status: 200, json: { worker_id: 1 } });
  });

  it('refuses each in its own way', async () => {
    const { client } = openService();
    expect((await client.post('/select', { token_ids: [] })).status).toBe(503);
    await client.post('/workers', record(1, { taints: ['a'] }));
    const cases: readonly (readonly [object, number])[] = [
      [{ pinned_worker: { worker_id: 1 }, allowed_worker_ids: [2] }, 400],
      [{ pinned_worker: { worker_id: 7 } }, 503],
      [{ allowed_worker_ids: [2] }, 503],
      [{ routing_constraints: { required_taints: ['b'] } }, 503],
      [{ router_config_override: { router_temperature: -1 } }, 400],
      [{ router_config_override: { router_temperature: 'hot' } }, 422],
      [{ model_name: 'other' }, 503],
      [{ token_ids: [2 ** 32] }, 422],
      [{ token_ids: undefined, block_hashes: [], sequence_hashes: [] }, 422],
      [{ token_ids: undefined, block_hashes: [1], sequence_hashes: [], isl_tokens: 4 }, 400],
      [{ token_ids: undefined, block_hashes: [2n ** 63n], sequence_hashes: [1], isl_tokens: 4 }, 422],
      [{ pinned_worker: { worker_id: 1, dp_rank: 0 }, routing_constraints: { preferred_taints: { a: 0.5 } } }, 200],
    ];
    for (const [more, status] of cases) {
      const answer = await client.post('/select', { token_ids: range(4), ...more });
      expect([more, answer.status]).toEqual([more, status]);
      if (status !== 200) expect(answer.json).toEqual({ error: expect.any(String) });
    }
    expect((await client.post('/workers', { worker_id: 1, dp_size: 0 })).status).toBe(400);
    expect((await client.post('/workers', record(1, { kv_events_endpoint: 'x' }))).status).toBe(400);
    expect((await client.post('/workers', {})).status).toBe(422);
    expect((await client.get('/workers/-1')).status).toBe(400);
    expect((await client.get('/nope')).json).toEqual({ error: expect.any(String) });
    expect((await client.get('/select')).status).toBe(405);
    expect((await client.get('/metrics')).status).toBe(404);
  });

  it('leaves the queue when the client does', async () => {
    const { service, clock } = openService({ queueThreshold: 1 });
    const routes = selectionRoutes({ service, peers: new Peers(), nowMs: () => clock.nowMs() });
    const app = createServiceApp({ routes, errorForm: 'json', clock, logger: silentLogger });
    const client = serviceClient(app);
    await client.post('/workers', record(1, { max_num_batched_tokens: 8 }));
    await client.post('/select_and_reserve', { selection_id: 'a', token_ids: range(16) });
    const leaving = new AbortController();
    const body = JSON.stringify({ token_ids: range(4) });
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', body, headers, signal: leaving.signal };
    const answered = Promise.resolve(app.fetch(new Request('http://localhost/select', init)));
    await client.get('/health');
    leaving.abort();
    await answered;
    expect([...service.pools][0]?.scheduler.pendingRequests).toBe(0);
  });
});

function signed(pairs: Uint32Array): bigint[] {
  return Array.from({ length: pairs.length / 2 }, (_, at) =>
    BigInt.asIntN(64, (BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!)),
  );
}

describe('sessions of the selection service', () => {
  const TTL_MS = 10_000;

  /** A service with two workers, of which the second has the prompt cached. */
  async function open(mode: 'hard' | 'soft') {
    const opened = openService({}, { ttlMs: TTL_MS, mode });
    for (const id of [1, 2]) await opened.client.post('/workers', record(id));
    opened.stored(2, range(8 * BLOCK));
    const ask = async (path: string, more: object): Promise<{ worker: number; id: string; status: number }> => {
      const { json, status } = await opened.client.post(path, { token_ids: range(8 * BLOCK), ...more });
      const { worker_id: worker, selection_id: id } = json as { worker_id: number; selection_id: string };
      return { worker, id, status };
    };
    return { ...opened, ask };
  }

  it.each(['hard', 'soft'] as const)('stay with the worker that took their first request (%s)', async (mode) => {
    const { ask } = await open(mode);
    const first = await ask('/select_and_reserve', { session_id: 's', pinned_worker: { worker_id: 1 } });
    expect(first.worker).toBe(1);
    expect((await ask('/select', { session_context: { session_id: 's' } })).worker).toBe(1);
    expect((await ask('/select', { session_id: 'another' })).worker).toBe(2);
    expect((await ask('/select', {})).worker).toBe(2);
  });

  it('are bound by what is booked, not by what is only chosen', async () => {
    const { ask, client } = await open('hard');
    const chosen = { session_id: 's', selection_id: 'c', pinned_worker: { worker_id: 1 } };
    await ask('/select', chosen);
    expect((await ask('/select', { session_id: 's' })).worker).toBe(2);
    expect((await client.post('/reservations', { selection_id: 'c' })).status).toBe(201);
    expect((await ask('/select', { session_id: 's' })).worker).toBe(1);
  });

  it('are idle from the end of their last request on, and then forgotten', async () => {
    const { ask, client, clock } = await open('hard');
    const { id } = await ask('/select_and_reserve', { session_id: 's', pinned_worker: { worker_id: 1 } });
    await clock.advance(2 * TTL_MS);
    expect((await ask('/select', { session_id: 's' })).worker).toBe(1); // it is still under way
    await client.send('DELETE', `/reservations/${id}`);
    await clock.advance(TTL_MS);
    expect((await ask('/select', { session_id: 's' })).worker).toBe(1);
    await clock.advance(1);
    expect((await ask('/select', { session_id: 's' })).worker).toBe(2);
  });

  it.each([
    ['is gone', (client: Client) => client.send('DELETE', '/workers/1')],
    ['drains', (client: Client) => client.send('PATCH', '/workers', { worker_id: 1, draining: true })],
  ])('go elsewhere when their worker %s, and do not come back', async (_, leave) => {
    const { ask, client } = await open('hard');
    await ask('/select_and_reserve', { session_id: 's', pinned_worker: { worker_id: 1 } });
    await leave(client);
    expect((await ask('/select', { session_id: 's' })).worker).toBe(2);
    await client.post('/workers', record(1));
    expect((await ask('/select', { session_id: 's' })).worker).toBe(2);
  });

  it('mean nothing where no life is set for them', async () => {
    const { client, stored } = openService();
    for (const id of [1, 2]) await client.post('/workers', record(id));
    stored(2, range(8 * BLOCK));
    const body = { token_ids: range(8 * BLOCK), session_id: 's' };
    await client.post('/select_and_reserve', { ...body, pinned_worker: { worker_id: 1 } });
    expect((await client.post('/select', body)).json).toMatchObject({ worker_id: 2 });
  });
});

type Client = ReturnType<typeof serviceClient>;
