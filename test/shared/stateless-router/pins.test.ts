import { describe, expect, it } from 'vitest';
import type { BlockIndex } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { RoutingHints } from '../../../shared/protocol/index.ts';
import type { PoolRole, RoutableWorker, RouteRequest, Router, SimpleRouterMode } from '../../../shared/router/index.ts';
import { Inhibition, KvRouter, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { StatelessRouter } from '../../../shared/stateless-router/index.ts';
import { choose } from '../../support/router/choose.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const SIMPLE: readonly SimpleRouterMode[] = [
  'round-robin',
  'random',
  'power-of-two',
  'least-loaded',
  'device-aware-weighted',
  'direct',
];
const WORKERS: readonly RoutableWorker[] = ['a1', 'a2'].map((id) => ({
  id,
  dataParallelStartRank: 0,
  dataParallelSize: 2,
  deviceType: undefined,
  taints: [],
}));

function routers(): readonly (readonly [name: string, router: () => Router])[] {
  const clock = new VirtualClock();
  const inhibition = new Inhibition(clock, 5000);
  const random = seededRandom(3);
  const index = (): BlockIndex | undefined => undefined;
  return [
    ...SIMPLE.map((mode) => [mode, () => new SimpleRouter({ mode, random, inhibition })] as const),
    ['kv', () => new KvRouter({ config: kvRouterConfig(), clock, random, indexFor: index })],
    ['kv, by hashing', () => new StatelessRouter({ clock, loads: () => new Map(), inhibition })],
  ];
}

function asked(role: PoolRole, routing: RoutingHints): RouteRequest {
  const pool = { key: 'm', role, blockSizeTokens: 16 };
  return { id: 'r', pool, routing, override: undefined, tokenIds: new Uint32Array(64), excluded: new Set() };
}

/** Role of the pool, what the request says, the field that is at fault, what the message names. */
const FAULTS: readonly (readonly [PoolRole, RoutingHints, string, string])[] = [
  ['aggregated', { backend_instance_id: 'ff' }, 'nvext.backend_instance_id', 'no worker 255 (ff)'],
  ['aggregated', { decode_worker_id: 'ff' }, 'nvext.decode_worker_id', 'no worker 255 (ff)'],
  ['decode', { decode_worker_id: 'ff' }, 'nvext.decode_worker_id', 'no worker 255 (ff)'],
  ['decode', { backend_instance_id: 'ff' }, 'nvext.backend_instance_id', 'no worker 255 (ff)'],
  ['prefill', { prefill_worker_id: 'ff' }, 'nvext.prefill_worker_id', 'no worker 255 (ff)'],
  ['aggregated', { backend_instance_id: 'a1', dp_rank: 2 }, 'nvext.dp_rank', 'has ranks 0 to 1, not 2'],
  ['decode', { decode_worker_id: 'a1', dp_rank: 7 }, 'nvext.dp_rank', 'has ranks 0 to 1, not 7'],
  ['prefill', { prefill_worker_id: 'a1', prefill_dp_rank: 2 }, 'nvext.prefill_dp_rank', 'has ranks 0 to 1, not 2'],
  [
    'aggregated',
    { backend_instance_id: 'a1', allowed_worker_ids: ['a2'] },
    'nvext.backend_instance_id',
    'not one of those that may take it',
  ],
];

describe.each(routers())('a worker that a request names, in the mode %s,', (_, open) => {
  it.each(FAULTS)(
    'is refused if no worker can have that id, by the field that names it: %s, %j',
    async (role, routing, param, says) => {
      await expect(choose(open(), asked(role, routing), WORKERS)).rejects.toMatchObject({
        code: 'invalid_value',
        status: 400,
        param,
        message: expect.stringContaining(says),
      });
    },
  );

  it('takes it if it is there', async () => {
    const held = await choose(open(), asked('aggregated', { backend_instance_id: 'a2', dp_rank: 1 }), WORKERS);
    expect(held).toMatchObject({ worker: { id: 'a2' }, dpRank: 1 });
  });

  it('is awaited if it has failed the request before, or while no worker serves', async () => {
    const routing = { backend_instance_id: 'a1' };
    const failed = { ...asked('aggregated', routing), excluded: new Set(['a1']) };
    await expect(choose(open(), failed, WORKERS)).rejects.toMatchObject({ code: 'service_unavailable', status: 503 });
    await expect(choose(open(), asked('aggregated', routing), [])).rejects.toMatchObject({ status: 503 });
  });
});

describe.each(routers())('a worker with what a request requires, in the mode %s,', (_, open) => {
  it.each([
    ['a taint', { routing_constraints: { required_taints: ['mars'] } }],
    ['an id', { allowed_worker_ids: ['ff'] }],
  ] as const)('may still come if no worker has it: %s', async (_, routing) => {
    await expect(choose(open(), asked('aggregated', routing), WORKERS)).rejects.toMatchObject({
      code: 'service_unavailable',
      status: 503,
      failure: { kind: 'NoEndpoints' },
    });
  });
});
