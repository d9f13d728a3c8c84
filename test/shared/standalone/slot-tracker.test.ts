import { describe, expect, it } from 'vitest';
import { Peers, ReplicaPools } from '../../../shared/standalone/replicas.ts';
import { createServiceApp } from '../../../shared/standalone/service.ts';
import { SlotTracker, slotRoutes } from '../../../shared/standalone/slot-tracker.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { serviceClient } from '../../support/router/service-client.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const MAX_ID = 2n ** 64n - 1n;
const NAMES = { model_name: 'm', routing_group: 'g' };
const WORKER = { ...NAMES, worker_id: 1, block_size: 16, dp_start: 0, dp_size: 2 };
const REQUEST = { ...NAMES, request_id: 'r', worker_id: 1, dp_rank: 0, sequence_hashes: [-1, 2n ** 63n - 1n] };

function openTracker({ clock = new VirtualClock(), replicas = undefined as ReplicaPools | undefined } = {}) {
  const tracker = new SlotTracker({ clock, replicas });
  const peers = new Peers([], replicas?.peerObserver);
  const routes = slotRoutes(tracker, peers);
  const client = serviceClient(createServiceApp({ routes, errorForm: 'json', clock, logger: silentLogger }));
  const load = async (worker: number | bigint = 1, rank = 0): Promise<readonly [number, number] | undefined> => {
    const rows = (await client.get('/loads')).json as readonly Record<string, number | bigint>[];
    const row = rows.find(({ worker_id: id, dp_rank: dpRank }) => id === worker && dpRank === rank);
    return row && [Number(row.active_prefill_tokens), Number(row.active_decode_blocks)];
  };
  return { tracker, client, clock, load };
}

describe('slot tracker', () => {
  it.each([
    ['a worker', WORKER, 201],
    ['the largest id', { ...WORKER, worker_id: MAX_ID }, 201],
    ['a block size of 0', { ...WORKER, block_size: 0 }, 400],
    ['no ranks', { ...WORKER, dp_size: 0 }, 400],
    ['ranks beyond 32 bits', { ...WORKER, dp_start: 2 ** 32 - 1, dp_size: 2 }, 400],
    ['more ranks than fit', { ...WORKER, dp_size: 2 ** 32 - 1 }, 503],
    ['no block size', { ...NAMES, worker_id: 1 }, 422],
    ['an id beyond 64 bits', { ...WORKER, worker_id: 2n ** 64n }, 422],
    ['broken JSON', '{', 400],
  ])('answers the registration of %s', async (_, body, status) => {
    const { client } = openTracker();
    const answer = await client.post('/register', body);
    expect(answer.status).toBe(status);
    expect(answer.json).toEqual(status === 201 ? { status: 'ok' } : { error: expect.any(String) });
  });

  it('counts a request from its booking to its end, shared blocks once', async () => {
    const { client, load } = openTracker();
    await client.post('/register', WORKER);
    expect((await client.post('/add', { ...REQUEST, new_isl_tokens: 100 })).status).toBe(201);
    expect((await client.post('/add', { ...REQUEST, request_id: 's', sequence_hashes: [-1, 7, 8] })).status).toBe(201);
    expect(await load()).toEqual([100, 4]);
    expect(await load(1, 1)).toEqual([0, 0]);
    expect((await client.post('/prefill_complete', { ...NAMES, request_id: 'r' })).status).toBe(200);
    expect((await client.post('/prefill_complete', { ...NAMES, request_id: 'r' })).status).toBe(200);
    expect(await load()).toEqual([0, 4]);
    expect((await client.post('/free', { ...NAMES, request_id: 'r' })).status).toBe(200);
    expect((await client.post('/free', { ...NAMES, request_id: 'r' })).status).toBe(200);
    expect(await load()).toEqual([0, 3]);
  });

  it('says what each load would be with a request', async () => {
    const { client } = openTracker();
    await client.post('/register', WORKER);
    await client.post('/add', { ...REQUEST, new_isl_tokens: 10 });
    const asked = { ...NAMES, sequence_hashes: [-1, 5, 6], new_isl_tokens: 48 };
    const row = {
      worker_id: 1,
      dp_rank: 0,
      potential_prefill_tokens: 58,
      potential_decode_blocks: 4,
      active_requests: 1,
    };
    expect((await client.post('/potential_loads', asked)).json).toEqual([
      row,
      { ...row, dp_rank: 1, potential_prefill_tokens: 48, potential_decode_blocks: 3, active_requests: 0 },
    ]);
  });

  it('refuses what is unknown, there already or out of range, each with its status', async () => {
    const { client } = openTracker();
    await client.post('/register', { ...WORKER, worker_id: MAX_ID });
    const known = { ...REQUEST, worker_id: MAX_ID };
    await client.post('/add', known);
    const cases: readonly (readonly [string, object, number])[] = [
      ['/register', { ...WORKER, worker_id: MAX_ID }, 409],
      ['/register', { ...WORKER, block_size: 32 }, 409],
      ['/add', known, 409],
      ['/add', { ...known, request_id: 'x', worker_id: 5 }, 404],
      ['/add', { ...known, request_id: 'x', dp_rank: 2 }, 404],
      ['/add', { ...known, request_id: 'x', sequence_hashes: [2n ** 63n] }, 422],
      ['/add', { ...known, request_id: 'x', new_isl_tokens: -1 }, 422],
      ['/prefill_complete', { ...NAMES, request_id: 'x' }, 404],
      ['/unregister', { ...NAMES, worker_id: 5 }, 404],
    ];
    for (const [path, body, status] of cases) {
      const answer = await client.post(path, body);
      expect([path, answer.status, answer.json]).toEqual([path, status, { error: expect.any(String) }]);
    }
    for (const path of ['/add', '/prefill_complete', '/free', '/potential_loads', '/unregister']) {
      const elsewhere = { ...known, model_name: 'other' };
      expect([path, (await client.post(path, elsewhere)).status]).toEqual([path, 404]);
    }
    expect(await client.get('/nope')).toMatchObject({ status: 404, json: { error: expect.any(String) } });
    expect(await client.get('/add')).toMatchObject({ status: 405, json: { error: expect.any(String) } });
    expect((await client.get('/metrics')).status).toBe(404);
    expect((await client.get('/health')).status).toBe(200);
  });

  it('forgets the requests of a worker that leaves, also when its id comes back', async () => {
    const { client, load } = openTracker();
    await client.post('/register', WORKER);
    await client.post('/register', { ...WORKER, worker_id: 2 });
    await client.post('/add', { ...REQUEST, new_isl_tokens: 9 });
    expect((await client.post('/unregister', { ...NAMES, worker_id: 1 })).status).toBe(200);
    expect(await load()).toBeUndefined();
    await client.post('/register', WORKER);
    expect(await load()).toEqual([0, 0]);
    expect((await client.post('/add', REQUEST)).status).toBe(201);
    expect((await client.get('/workers')).json).toEqual([{ ...WORKER, worker_id: 2 }, WORKER]);
  });

  it('frees requests that were never freed, once they are 300 s old', async () => {
    const { client, clock, load, tracker } = openTracker();
    await client.post('/register', WORKER);
    await client.post('/add', REQUEST);
    await clock.advance(299_999);
    tracker.expire();
    expect(await load()).toEqual([0, 2]);
    await clock.advance(1);
    tracker.expire();
    expect(await load()).toEqual([0, 0]);
  });

  it('holds 10,000 workers', async () => {
    const { client, load } = openTracker();
    for (let id = 0; id < 10_000; id++) await client.post('/register', { ...WORKER, worker_id: id, dp_size: 1 });
    await client.post('/add', { ...REQUEST, worker_id: 9_999 });
    expect(await load(9_999)).toEqual([0, 2]);
  }, 30_000);

  it('shows the same loads in connected replicas', async () => {
    const clock = new VirtualClock();
    const heard: ReplicaPools[] = [];
    const link = (own: number) => ({
      publish: (message: unknown) => {
        for (const replica of heard.filter((_, at) => at !== own)) replica.receive(message);
      },
      connect: () => {},
      disconnect: () => {},
    });
    const [one, two] = [0, 1].map((at) => {
      heard.push(new ReplicaPools(link(at), `${at + 1}`, clock));
      return openTracker({ clock, replicas: heard[at] });
    }) as [ReturnType<typeof openTracker>, ReturnType<typeof openTracker>];
    for (const { client } of [one, two]) await client.post('/register', WORKER);
    await one.client.post('/register', { ...WORKER, worker_id: 2 });
    await one.client.post('/add', { ...REQUEST, new_isl_tokens: 30 });
    await one.client.post('/add', { ...REQUEST, request_id: 'unknown worker there', worker_id: 2 });
    await clock.advance(1);
    expect(await two.load()).toEqual([30, 2]);
    await two.client.post('/prefill_complete', { ...NAMES, request_id: 'r' });
    await clock.advance(1);
    expect(await one.load()).toEqual([0, 2]);
    await two.client.post('/free', { ...NAMES, request_id: 'r' });
    await clock.advance(1);
    expect(await one.load()).toEqual([0, 0]);
    for (const message of [null, 5, { model_name: 'm' }, { ...NAMES, events: [{}] }]) heard[0]?.receive(message);
    expect((await one.client.post('/replica_sync/register_peer', { endpoint: 'nowhere' })).status).toBe(400);
    expect((await one.client.post('/replica_sync/register_peer', { endpoint: 'tcp://a:1' })).status).toBe(201);
    expect((await one.client.get('/replica_sync/peers')).json).toEqual(['tcp://a:1']);
    expect((await one.client.post('/replica_sync/deregister_peer', { endpoint: 'tcp://a:1' })).status).toBe(200);
    expect((await one.client.post('/replica_sync/deregister_peer', { endpoint: 'tcp://a:1' })).status).toBe(404);
  });
});
