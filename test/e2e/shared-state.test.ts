import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRouterStateTable } from '../../shared/router/state/index.ts';
import {
  type DynamoDbServer,
  hasDynamoDb,
  hasNatsServer,
  type NatsServer,
  postJson,
  type StatorProcess,
  startDynamoDb,
  startNatsServer,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
const TABLE = 'router-state';
const WORKER = ['--block-size=16', '--speedup-ratio=50'];
const KV = ['--router-mode=kv', '--router-replica-sync'];
/** Dead workers leave discovery, and leases change hands, within this. */
const TIMES = { STATOR_LEASE_TTL_SECS: '2', STATOR_SNAPSHOT_INTERVAL_SECS: '1' };

interface Answer {
  readonly usage: { readonly prompt_tokens_details?: { readonly cached_tokens?: number } };
  readonly nvext: { readonly worker_id: { readonly decode_worker_id: number } };
}

/** One short answer to a long prompt about `topic`, and who gave it. */
async function ask(frontend: StatorProcess, topic: string): Promise<{ worker: number; cached: number }> {
  const content = `${topic}: ${'parts meet where their edges fit; '.repeat(40)}`;
  const response = await postJson(`${frontend.url}/v1/chat/completions`, {
    model: MODEL,
    max_tokens: 2,
    messages: [{ role: 'user', content }],
    nvext: { extra_fields: ['worker_id'] },
  });
  expect(response.status).toBe(200);
  const { usage, nvext } = (await response.json()) as Answer;
  return { worker: nvext.worker_id.decode_worker_id, cached: usage.prompt_tokens_details?.cached_tokens ?? 0 };
}

const blocksOf = (frontend: StatorProcess): Promise<number> =>
  frontend.metric('stator_router_index_blocks', `model="${MODEL}"`);

/** Waits until all indexes hold the same number of blocks, at least one; resolves with it. */
function untilEqual(...frontends: readonly StatorProcess[]): Promise<number> {
  return waitUntil(
    async () => {
      const [first = 0, ...others] = await Promise.all(frontends.map(blocksOf));
      return first > 0 && others.every((blocks) => blocks === first) && first;
    },
    { what: 'equal indexes' },
  ) as Promise<number>;
}

describe.skipIf(!hasNatsServer() || !hasDynamoDb())('frontends that share a table and NATS', () => {
  const env: Record<string, string> = { ...TIMES };
  const fleet = useFleet(env);
  let nats: NatsServer;
  let table: DynamoDbServer;
  let first: StatorProcess;

  beforeAll(async () => {
    [nats, table] = await Promise.all([startNatsServer(), startDynamoDb()]);
    await createRouterStateTable({ tableName: TABLE, endpoint: table.url });
    Object.assign(env, {
      DYN_EVENT_PLANE: 'nats',
      NATS_SERVER: nats.url,
      STATOR_STATE_TABLE: TABLE,
      STATOR_DYNAMODB_ENDPOINT: table.url,
      STATOR_NATS_STREAM_MAX_MB: '64',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
    });
    const started = await Promise.all([fleet.frontend(KV), fleet.worker(WORKER), fleet.worker(WORKER)]);
    first = started[0];
    await fleet.untilWorkers(first, 2);
  });

  afterAll(async () => {
    await Promise.all([nats?.stop(), table?.stop()]);
  });

  it('has one of them write snapshots of what the log tells', async () => {
    await ask(first, 'early');
    await waitUntil(async () => (await blocksOf(first)) > 0, { what: 'blocks from the log' });
    await waitUntil(async () => (await first.metric('stator_router_index_snapshots_total')) > 0, {
      what: 'a snapshot',
    });
    expect(await first.metric('stator_router_state_lease_held', 'component="backend"')).toBe(1);
  });

  it('hydrates a fresh one from the snapshot and the log, without a question to a worker', async () => {
    const known = await ask(first, 'known before');
    const written = await first.metric('stator_router_index_snapshots_total');
    await waitUntil(async () => (await first.metric('stator_router_index_snapshots_total')) > written, {
      what: 'a snapshot with that prompt',
    });
    const { worker } = await ask(first, 'after the snapshot');
    const second = await fleet.frontend(KV);
    await fleet.untilWorkers(second, 2);
    await untilEqual(first, second);
    expect(await second.metric('stator_router_index_hydrations_total', 'from="snapshot"')).toBe(1);
    expect(await second.metric('stator_router_kv_recoveries_total')).toBe(0);
    expect((await ask(second, 'known before')).worker).toBe(known.worker);
    expect(await ask(second, 'after the snapshot')).toMatchObject({ worker, cached: expect.any(Number) });
    second.signal('SIGTERM');
    await second.exited;
  });
});
