import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  askAbout,
  createTable,
  type DynamoDbServer,
  type Fleet,
  hasDynamoDb,
  hasNatsServer,
  type NatsServer,
  openChat,
  type PlacedAnswer,
  type StatorProcess,
  startDynamoDb,
  startNatsServer,
  untilHeld,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const MODEL = 'stator-mini';
const TABLE = 'router-state';
const WORKER = ['--block-size=16', '--speedup-ratio=10', '--decode-speedup-ratio=0.1'];
const KV = ['--router-mode=kv', '--router-replica-sync'];
/** Dead workers leave discovery, and leases change hands, within this. */
const TIMES = { STATOR_LEASE_TTL_SECS: '2', STATOR_SNAPSHOT_INTERVAL_SECS: '1' };

/** In a prompt. */
const SENTENCES = 160;

const ask = (frontend: StatorProcess, topic: string): Promise<PlacedAnswer> => askAbout(frontend, topic, SENTENCES);

const blocksOf = (frontend: StatorProcess): Promise<number> =>
  frontend.metric('stator_router_index_blocks', `model="${MODEL}"`);

/** Waits until all indexes hold the same number of blocks, at least one; resolves with it. */
function untilEqual(...frontends: readonly StatorProcess[]): Promise<number> {
  return waitUntil(
    async () => {
      const [first = 0, ...others] = await Promise.all(frontends.map(blocksOf));
      return first > 0 && others.every((blocks) => blocks === first) && first;
    },
    { what: 'equal indexes', timeoutMs: 20_000 },
  ) as Promise<number>;
}

let news = 0;

/**
 * Waits until `frontend` has written a snapshot that it began after this call: the second one from now on. None is written
 * without news, so there are some all the time.
 */
async function untilSnapshot(frontend: StatorProcess): Promise<void> {
  const count = (): Promise<number> => frontend.metric('stator_router_index_snapshots_total');
  const before = await count();
  await waitUntil(
    async () => {
      await ask(frontend, `news ${++news}`);
      return (await count()) >= before + 2;
    },
    { what: 'a snapshot', timeoutMs: 20_000, pollMs: 200 },
  );
}

const hydrations = (frontend: StatorProcess, ...labels: readonly string[]): Promise<number> =>
  frontend.metric('stator_router_index_hydrations_total', ...labels);

async function untilHydrated(frontend: StatorProcess): Promise<void> {
  await waitUntil(async () => (await hydrations(frontend)) > 0, { what: 'an index made anew', timeoutMs: 20_000 });
}

/** One more frontend that has its index from the log. One that has to wait 2 s for the log asks the workers: it shows nothing. */
async function startFromLog(fleet: Fleet): Promise<StatorProcess> {
  for (let attempt = 0; attempt < 5; attempt++) {
    const frontend = await fleet.frontend(KV);
    await fleet.untilWorkers(frontend, 2);
    await untilHydrated(frontend);
    if ((await frontend.metric('stator_router_state_problems_total', 'part="log"')) === 0) return frontend;
    await frontend.kill();
  }
  throw new Error('no frontend had the log within 2 s');
}

/** Streams that run for long, each with a prompt of its own. */
async function startStreams(frontend: StatorProcess, count: number): Promise<{ leave(): void }> {
  const streams = await Promise.all(
    Array.from({ length: count }, (_, at) =>
      openChat(frontend.url, {
        model: MODEL,
        messages: [{ role: 'user', content: `stream ${at} ${'goes on and on; '.repeat(60)}` }],
        max_tokens: 3000,
        ignore_eos: true,
      }),
    ),
  );
  await Promise.all(streams.map((stream) => stream.untilDeltas(1)));
  return {
    leave: () => {
      for (const stream of streams) {
        stream.leave();
        stream.answer.catch(() => {}); // it was left
      }
    },
  };
}

/** Blocks that the requests under way hold, as far as `frontend` knows. */
function loadSeenBy(frontend: StatorProcess): Promise<number> {
  return frontend.metric('dynamo_frontend_worker_active_decode_blocks');
}

const isRunnable = hasNatsServer() && hasDynamoDb();

describe.runIf(isRunnable)('frontends that share a table and NATS', () => {
  const env: Record<string, string> = { ...TIMES };
  const fleet = useFleet(env);
  let nats: NatsServer;
  let table: DynamoDbServer;
  let first: StatorProcess;

  beforeAll(async () => {
    [nats, table] = await Promise.all([startNatsServer(), startDynamoDb()]);
    await createTable({ tableName: TABLE, endpoint: table.url });
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
    await waitUntil(async () => (await first.metric('stator_router_state_lease_held', 'component="backend"')) === 1, {
      what: 'the lease of the only one that may write',
    });
  });

  it('hydrates a fresh one from the snapshot and the log, without a question to a worker', async () => {
    const known = await ask(first, 'known before');
    await untilSnapshot(first);
    const { worker } = await ask(first, 'after the snapshot');
    const second = await startFromLog(fleet);
    await untilEqual(first, second);
    expect(await hydrations(second, 'from="snapshot"')).toBe(1);
    expect(await second.metric('stator_router_kv_recoveries_total')).toBe(0);
    expect((await ask(second, 'known before')).worker).toBe(known.worker);
    expect(await ask(second, 'after the snapshot')).toMatchObject({ worker, cached: expect.any(Number) });
    second.signal('SIGTERM');
    await second.exited;
  });

  it('builds its index again without the snapshot if a flag resets it', async () => {
    const known = await ask(first, 'from before the reset');
    const reset = await fleet.frontend([...KV, '--router-reset-states']);
    await fleet.untilWorkers(reset, 2);
    await untilHydrated(reset);
    await untilEqual(first, reset);
    await reset.waitForOutput(/the stored snapshot of the block index is dropped/);
    expect(await hydrations(reset, 'from="snapshot"')).toBe(0);
    expect(await hydrations(reset)).toBe(1);
    expect((await ask(reset, 'from before the reset')).worker).toBe(known.worker);
    reset.signal('SIGTERM');
    await reset.exited;
  });

  describe('with two of them', () => {
    let second: StatorProcess;

    beforeAll(async () => {
      second = await fleet.frontend(KV);
      await fleet.untilWorkers(second, 2);
      await untilEqual(first, second);
    });

    it('lets each know at once what the other sends, and when it is over', async () => {
      const streams = await startStreams(first, 4);
      await waitUntil(async () => (await loadSeenBy(second)) > 0, { what: 'the load of the first at the second' });
      streams.leave();
      await waitUntil(async () => (await loadSeenBy(second)) === 0 && (await loadSeenBy(first)) === 0, {
        what: 'no load at either',
      });
    });

    it('forgets what a router that dies had under way', async () => {
      const third = await fleet.frontend(KV);
      await fleet.untilWorkers(third, 2);
      await waitUntil(
        async () => {
          const streams = await startStreams(third, 2);
          const isSeen = (await loadSeenBy(second)) > 0; // once the second has heard of it
          if (!isSeen) streams.leave();
          return isSeen;
        },
        { what: 'the load of the third at the second' },
      );
      third.signal('SIGKILL');
      await waitUntil(async () => (await loadSeenBy(second)) === 0, { what: 'no load', timeoutMs: 15_000 });
    });

    it('serves on while NATS is away, learns of load from the workers, and catches up', async () => {
      await nats.kill();
      const streams = await startStreams(first, 4);
      await waitUntil(async () => (await second.metric('stator_router_unattributed_requests')) > 0, {
        what: 'load that only the workers tell of',
      });
      const during = await Promise.all([1, 2, 3, 4].map((at) => ask(at % 2 ? first : second, `without NATS ${at}`)));
      expect(during).toHaveLength(4);
      streams.leave();
      await nats.restart();
      await waitUntil(async () => (await second.metric('stator_router_unattributed_requests')) === 0, {
        what: 'no load of others',
        timeoutMs: 15_000,
      });
      await ask(first, 'NATS is back');
      await untilEqual(first, second);
      await waitUntil(async () => (await ask(second, 'NATS is back')).cached > 0, { what: 'a prompt cached' });
    });

    it('hands the writing over when the writer is killed', async () => {
      const isWriter = (frontend: StatorProcess): Promise<number> =>
        frontend.metric('stator_router_state_lease_held', 'component="backend"');
      // One of the two; on a busy machine the lease may change hands by itself.
      const [writer, other] = await waitUntil(
        async () => {
          const [ofFirst, ofSecond] = await Promise.all([isWriter(first), isWriter(second)]);
          if (ofFirst + ofSecond !== 1) return undefined;
          return ofFirst === 1 ? ([first, second] as const) : ([second, first] as const);
        },
        { what: 'one writer', timeoutMs: 15_000 },
      );
      writer.signal('SIGKILL');
      await waitUntil(async () => (await isWriter(other)) === 1, { what: 'another writer', timeoutMs: 15_000 });
      await untilSnapshot(other);
      const fresh = await startFromLog(fleet);
      await untilEqual(other, fresh);
      expect(await hydrations(fresh, 'from="snapshot"')).toBe(1);
    });

    it('routes on what it knew while the table is unreachable, and says so', async () => {
      const frontend = await fleet.frontend(KV);
      await fleet.untilWorkers(frontend, 2);
      const { worker } = await ask(frontend, 'kept in mind');
      expect(await untilHeld(frontend, 'kept in mind', SENTENCES)).toEqual([worker]);
      await table.stop();
      await waitUntil(async () => (await frontend.metric('stator_router_state_away', 'part="table"')) === 1, {
        what: 'the table known to be away',
      });
      expect((await ask(frontend, 'kept in mind')).worker).toBe(worker);
      await frontend.waitForOutput(/routing on what was last known part=table/);
      expect(await frontend.metric('stator_router_state_problems_total', 'part="table"')).toBeGreaterThan(0);
    });
  });
});
