import { afterAll, describe, expect, it } from 'vitest';
import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { type Random, seededRandom, systemClock, systemRandom } from '../../../shared/clock/index.ts';
import { Lifetime, Semaphore } from '../../../shared/concurrency/index.ts';
import { FileDiscovery } from '../../../shared/discovery/file/file-discovery.ts';
import type { Discovery, ModelRecord } from '../../../shared/discovery/index.ts';
import {
  askOnce,
  createNatsEventPlane,
  createZmqEventPlane,
  type EventPlane,
  fixedBrokers,
  followEachTransport,
  NatsClient,
  type Transport,
} from '../../../shared/planes/index.ts';
import { DynamoPlane } from '../../../shared/planes/request/dynamo/plane.ts';
import { silentObserver } from '../../../shared/planes/request/observer.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { indexSink, RecoveryClient, WorkerFeeds, WorkerLoads } from '../../../shared/worker-events/index.ts';
import { applyTo, heldBy } from '../../shared/worker-events/scripted-rank.ts';
import { canMeet, hasDynamo, useDynamo, useMeeting } from '../../support/dynamo/index.ts';
import { createMemoryEventPlane } from '../../support/memory-event-plane.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { startZmqBroker, type ZmqBroker } from '../../support/zmq-broker.ts';

const clock = systemClock;
const RANKS = 2;
const BLOCK_TOKENS = 16;
/** Few blocks for each rank, so that prompts soon push each other out. */
const BLOCKS = 64;
const WAIT = { timeoutMs: 60_000, pollMs: 100 };

const onProblem = (problem: unknown): never => {
  throw problem;
};

/** Opens the plane on which a worker publishes, as its record names it. */
function planeFor(nats: string | undefined) {
  return ({ kind }: { readonly kind: string }): EventPlane =>
    kind === 'Nats' && nats !== undefined
      ? createNatsEventPlane({ clock, onProblem, client: new NatsClient({ clock, servers: [nats], name: 'test' }) })
      : createZmqEventPlane({ clock, host: '127.0.0.1', onProblem });
}

/** A router's picture of all workers of Dynamo that are in discovery. */
function openRouter(discovery: Discovery, plane: DynamoPlane, nats: string | undefined, broker: ZmqBroker | undefined) {
  const lifetime = new Lifetime();
  const ranks = new RankTable();
  const index: BlockIndex = new BlockIndex({ ranks });
  const counts = { skipped: 0, statuses: new Set<string>(), gaps: 0 };
  const loads = new WorkerLoads();
  let isLossy = false;
  const brokers = broker && fixedBrokers({ xsub: [broker.xsub], xpub: [broker.xpub] });
  const following = followEachTransport({
    own: brokers ? createZmqEventPlane({ clock, brokers, onProblem }) : createMemoryEventPlane({ clock }),
    ownKind: brokers ? 'ZmqBroker' : 'Memory',
    ...{ open: planeFor(nats), onProblem },
  });
  const eventPlane: EventPlane = {
    ...following,
    subscribe: (scope, topic, listener) =>
      following.subscribe(scope, topic, {
        ...listener,
        event: (envelope) => {
          if (!isLossy) listener.event(envelope);
        },
      }),
  };
  lifetime.use(eventPlane);
  const onSkip = (): void => {
    counts.skipped++;
  };
  const recovery = new RecoveryClient({ plane: asPlane(plane), clock, random: systemRandom, onSkip });
  const observer = {
    stale() {},
    dropped() {},
    skipped: onSkip,
    recovered: (kind: string) => {
      if (kind === 'gap') counts.gaps++;
    },
  };
  const deps = { eventPlane, discovery, recovery, slots: new Semaphore(16), clock, random: systemRandom, observer };
  const feeds = lifetime.use(new WorkerFeeds({ ...deps, logger: silentLogger }, { loads, followsKvEvents: true }));
  const sink = indexSink(index, ranks, (_, status) => counts.statuses.add(status));
  return {
    ...{ counts, feeds, loads, recovery },
    lose: (lossy: boolean): void => {
      isLossy = lossy;
    },
    follow(workers: readonly ModelRecord[]): void {
      const placed = workers.map(({ namespace, component, endpoint, instance_id: id }) => ({
        ...{ id, dataParallelStartRank: 0, dataParallelSize: RANKS, hasLocalIndexer: true },
        scope: { namespace, component, endpoint },
      }));
      for (const { id } of placed) for (let rank = 0; rank < RANKS; rank++) ranks.intern(id, rank);
      feeds.setWorkers('m', placed, sink);
    },
    blocks: (workerId: string, dpRank: number): number[] => heldBy(index, ranks.intern(workerId, dpRank)),
    close: () => lifetime.close(),
  };
}

/** The plane of a process that only calls. */
function asPlane(plane: DynamoPlane): ConstructorParameters<typeof RecoveryClient>[0]['plane'] {
  return {
    name: 'dynamo',
    call: (transport, request, sink) => plane.call(transport, request, sink),
    close: () => plane.close(),
    serve: () => Promise.reject(new Error('it only calls')),
    sibling: () => undefined,
  };
}

function openDynamoPlane(nats: string | undefined): DynamoPlane {
  return new DynamoPlane({
    ...{ clock, observer: silentObserver },
    home: { host: '127.0.0.1', port: 0, handshakeTimeoutMs: 3000, messageBytesMax: 32 << 20 },
    requests: {
      ...{ connectTimeoutMs: 5000, requestTimeoutMs: 5000, poolSizeMax: 4 },
      ...{ requestsPerConnectionMax: 1024, idleAfterMs: 60_000 },
    },
    openNats: () => new NatsClient({ clock, servers: nats === undefined ? [] : [nats], name: 'test' }),
    natsTimeoutMs: 5000,
  });
}

/** Asks a worker to generate a few tokens for a prompt that begins like some others. */
async function generate(plane: DynamoPlane, transport: Transport, random: Random): Promise<void> {
  const group = Math.floor(random.next() * 5);
  const shared = Array.from({ length: 6 * BLOCK_TOKENS }, (_, at) => group * 20 + (at % 19) + 1);
  const own = Array.from({ length: 2 * BLOCK_TOKENS }, () => 1 + Math.floor(random.next() * 200));
  const body = {
    ...{ model: 'stator-mini', token_ids: [...shared, ...own], eos_token_ids: [], annotations: [] },
    ...{ stop_conditions: { max_tokens: 4 }, sampling_options: {}, output_options: {} },
  };
  const question = { id: systemRandom.uuid(), headers: {}, body, isVerbatim: true };
  const answer = await askOnce(asPlane(plane), transport, question, { clock, timeoutMs: 30_000 });
  if (answer.kind === 'failed') throw answer.error;
}

const MEETINGS = (
  [
    ['over ZeroMQ', 'tcp', false],
    ['over a ZeroMQ broker', 'tcp', true],
    ['over NATS', 'nats', false],
  ] as const
).filter(([, plane]) => hasDynamo() && canMeet('file', plane));

describe.each(MEETINGS)('events of workers of Dynamo %s', (_, requestPlane, isBrokered) => {
  const meeting = useMeeting('file', requestPlane);
  const dynamo = useDynamo(meeting);
  const lifetime = new Lifetime();
  afterAll(() => lifetime.close());

  it('keep the index equal to the dumps of the workers, from before the first and through gaps', async () => {
    const workers = 2;
    const cache = ['--num-gpu-blocks-override', `${BLOCKS}`, '--block-size', `${BLOCK_TOKENS}`];
    const speed = ['--speedup-ratio', '1000000', '--data-parallel-size', `${RANKS}`];
    const broker = isBrokered ? await startZmqBroker() : undefined;
    lifetime.defer(() => broker?.stop());
    const env = broker && { DYN_ZMQ_BROKER_URL: `xsub=${broker.xsub},xpub=${broker.xpub}` };
    await dynamo.mocker({ workers, args: [...cache, ...speed], ...(env && { env }) });
    const { NATS_SERVER: nats } = meeting;
    const discovery = lifetime.use(new FileDiscovery({ rootPath: meeting.DYN_FILE_KV!, clock }));
    const plane = lifetime.use(openDynamoPlane(nats));
    const found = async () => {
      const cards = await discovery.list({ bucket: 'v1/mdc', prefix: '', includesDynamo: true });
      const query = { bucket: 'v1/instances', prefix: 'dynamo/backend/generate', includesDynamo: true } as const;
      const instances = await discovery.list(query);
      const models = cards.filter((record) => record.type === 'Model');
      return { models, endpoints: instances.filter((record) => record.type === 'Endpoint') };
    };
    const areAllFound = async () => {
      const { models, endpoints } = await found();
      return models.length === workers && endpoints.length === workers;
    };
    await waitUntil(areAllFound, { ...WAIT, what: 'the records of all workers' });
    const { models, endpoints } = await found();
    const random = seededRandom(4);
    const play = async (count: number): Promise<void> => {
      for (let at = 0; at < count; at++) await generate(plane, endpoints[at % workers]!.transport, random);
    };
    await play(10);
    const router = lifetime.use(openRouter(discovery, plane, nats, broker));
    router.follow(models);
    const differing = () => differences(router, discovery, models);
    await waitUntil(async () => router.feeds.isSettled && (await differing()) === 0, WAIT);
    await play(60);
    await waitUntil(async () => (await differing()) === 0, WAIT);
    for (const lost of [1, 30]) {
      const { gaps } = router.counts;
      router.lose(true);
      await play(lost * workers);
      await waitUntil(async () => (await differing()) > 0, WAIT);
      router.lose(false);
      await waitUntil(async () => {
        await play(workers); // the next event shows the gap
        return (await differing()) === 0;
      }, WAIT);
      expect(router.counts.gaps).toBeGreaterThan(gaps);
    }
    expect([router.counts.skipped, [...router.counts.statuses]]).toEqual([0, ['ok']]);
    for (const { instance_id: id } of models) {
      // Workers of Dynamo 1.5 report only the load of their last rank.
      expect(router.loads.of(id, RANKS - 1)?.usedKvBlocks).toBeLessThanOrEqual(BLOCKS);
      for (let rank = 0; rank < RANKS; rank++) {
        expect(router.loads.of(id, rank)?.usedKvBlocks ?? 0).toBeLessThanOrEqual(BLOCKS);
      }
    }
  }, 240_000);
});

/** Returns the number of ranks of which the router knows other blocks than their worker reports now. */
async function differences(
  { recovery, blocks }: ReturnType<typeof openRouter>,
  discovery: Discovery,
  models: readonly ModelRecord[],
): Promise<number> {
  const sources = await discovery.list({ bucket: 'v1/event_sources', prefix: '', includesDynamo: true });
  let count = 0;
  for (const source of sources) {
    if (source.type !== 'EventSource' || source.worker_id === undefined || source.recovery_target === undefined)
      continue;
    const rank = { workerId: source.worker_id, dpRank: source.dp_rank ?? 0 };
    expect(models.map(({ instance_id }) => instance_id)).toContain(rank.workerId);
    const { signal } = new AbortController();
    const answer = await recovery.queryDynamo(source.recovery_target.transport, rank, undefined, signal);
    if (answer.kind !== 'dump') throw new Error(`a dump was asked for, not ${answer.kind}`);
    const ranks = new RankTable();
    const index: BlockIndex = new BlockIndex({ ranks });
    const number = ranks.intern(rank.workerId, rank.dpRank);
    for (const { change } of answer.events) applyTo(index, number, change);
    if (JSON.stringify(heldBy(index, number)) !== JSON.stringify(blocks(rank.workerId, rank.dpRank))) count++;
  }
  expect(sources).toHaveLength(models.length * RANKS);
  return count;
}
