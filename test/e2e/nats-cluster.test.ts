import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NATS_PORTS } from '../../infra/nats-configuration.ts';
import { deployedTemplates } from '../infra/templates.ts';
import {
  EcsCluster,
  imageHere,
  type Machine,
  onlyServicesOf,
  type Templates,
  withHealthCheck,
  withRelease,
} from '../support/aws/ecs/index.ts';
import { Secrets } from '../support/aws/secrets.ts';
import { askAbout, hasNatsServer, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const WORKER = ['--block-size=16', '--speedup-ratio=10'];
const KV = ['--router-mode=kv'];
/** Time in which routers have all again, once the servers are back with empty disks. */
const REFILL_MS_MAX = 30_000;
/** Requests of one part of a load, and sentences of a prompt: about 40 blocks. */
const REQUESTS = 24;
const SENTENCES = 40;
/** What a server of three alone can never say: that it holds what the others hold. */
const HEALTHZ_ALONE = 'wget -q -O - http://127.0.0.1:8222/healthz > /dev/null || exit 1';

const env: Record<string, string> = { DYN_EVENT_PLANE: 'nats', STATOR_NATS_STREAM_MAX_MB: '64' };
const fleet = useFleet(env);
const folder = mkdtempSync(join(tmpdir(), 'stator-nats-cluster-'));
const machine: Machine = { folder, imageOf: imageHere, secretOf: (from) => secrets.textOf(from) };
const cluster = new EcsCluster({ machine });
let templates: Templates;
let secrets: Secrets;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Who connects as `role`: as containers of the deployment are told. */
function credentials(role: string): Record<string, string> {
  const server = cluster.serviceOf('nats').plan.task.containers.find(({ name }) => name === 'nats');
  const given = (what: string): string => {
    const from = server?.secrets[`NATS_${role.toUpperCase()}_${what}`];
    if (from === undefined) throw new Error(`the servers are given no ${what} of ${role}`);
    return machine.secretOf(from);
  };
  return { NATS_AUTH_USERNAME: given('USERNAME'), NATS_AUTH_PASSWORD: given('PASSWORD') };
}

/** Host names of the servers, as the template has them. */
const hosts = (): readonly string[] => cluster.services.flatMap(({ plan }) => plan.hostNames);
const portsOf = (port: number): Promise<number[]> => Promise.all(hosts().map((host) => cluster.portOf(host, port)));

/** A release of the servers, one after the other, each with an empty disk. */
function replaceServers(): Promise<void> {
  templates = withRelease(templates, 'nats', 'next');
  return cluster.deploy(templates);
}

/** The streams as one server tells of them: how often each is kept, who leads it, and what is in it. */
async function streamsAt(host: string) {
  const { NATS_AUTH_USERNAME: user, NATS_AUTH_PASSWORD: pass } = credentials('router');
  const port = await cluster.portOf(host, NATS_PORTS.clients);
  const connection = await connect({ servers: `127.0.0.1:${port}`, user: user!, pass: pass! });
  try {
    const streams = await waitUntil(
      async () => {
        // Nobody answers while those that are left elect who does.
        const manager = await jetstreamManager(connection).catch(() => undefined);
        const listed =
          (await manager?.streams
            .list()
            .next()
            .catch(() => undefined)) ?? [];
        return listed.length > 0 && listed.every(({ cluster }) => cluster?.leader) && listed;
      },
      { what: 'streams that are led', timeoutMs: 30_000 },
    );
    return streams
      .map(({ config, cluster, state }) => ({
        name: config.name,
        copies: config.num_replicas,
        leader: cluster?.leader,
        messages: state.messages,
      }))
      .sort((one, other) => one.name.localeCompare(other.name));
  } finally {
    await connection.close();
  }
}

const blocksOf = (router: StatorProcess): Promise<number> => router.metric('stator_router_index_blocks');

/** Asks about as many topics that nobody has asked about; resolves when all are answered. */
async function load(router: StatorProcess, about: string): Promise<void> {
  const topics = Array.from({ length: REQUESTS }, (_, at) => `${about} ${at}`);
  const next = async (): Promise<void> => {
    for (let topic = topics.pop(); topic !== undefined; topic = topics.pop()) await askAbout(router, topic, SENTENCES);
  };
  await Promise.all([next(), next()]);
}

/** The number of blocks that the index comes to rest at. */
async function untilStill(router: StatorProcess): Promise<number> {
  let before = -1;
  return waitUntil(
    async () => {
      const now = await blocksOf(router);
      const isStill = now === before && now > 0;
      before = now;
      return isStill && now;
    },
    { what: 'an index at rest', timeoutMs: 20_000, pollMs: 500 },
  ) as Promise<number>;
}

describe.runIf(hasNatsServer())('routers and workers over three NATS servers', { timeout: 180_000 }, () => {
  let router: StatorProcess;
  let perLoad: number;

  beforeAll(async () => {
    const all = deployedTemplates();
    secrets = new Secrets(Object.values(all));
    templates = onlyServicesOf(all, 'nats');
    await cluster.deploy(templates);
    env.NATS_SERVER = (await portsOf(NATS_PORTS.clients)).map((port) => `nats://127.0.0.1:${port}`).join(',');
    env.STATOR_NATS_STREAM_REPLICAS = String(hosts().length);
    [router] = await Promise.all([
      fleet.frontend(KV, credentials('router')),
      fleet.worker(WORKER, credentials('worker')),
      fleet.worker(WORKER, credentials('worker')),
    ]);
    await fleet.untilWorkers(router, 2);
    await load(router, 'before');
    perLoad = await untilStill(router);
  }, 120_000);

  afterAll(() => cluster.close());

  it('start one after the other, each once the one before is healthy', () => {
    const order = cluster.services.map(({ plan }) => plan.id);
    expect(order).toHaveLength(3);
    const made = cluster.events.filter((event) => / is (made|steady)$/.test(event));
    expect(made).toEqual(order.flatMap((id) => [`${id} is made`, `${id} is steady`]));
  });

  it('serve every request while a server is lost with its disk, and keep every event on the other two', async () => {
    const [first, second] = hosts() as [string, string];
    const service = cluster.services[0]!;
    const before = await streamsAt(second);
    expect(before.length).toBeGreaterThan(0);
    const running = load(router, 'during');
    const [zone] = service.plan.zones;
    cluster.loseZone(zone!);
    await cluster.giveUpZone(zone!);
    await running;
    const kept = await streamsAt(second);
    expect(kept.map(({ name }) => name)).toEqual(before.map(({ name }) => name));
    for (const [at, { copies, leader, messages }] of kept.entries()) {
      expect(copies).toBe(hosts().length);
      expect(leader).not.toBe(first.split('.')[0]);
      expect(messages).toBeGreaterThanOrEqual(before[at]!.messages);
    }
    expect(service.tasks).toEqual([]); // its disk and its place are in that zone
    await load(router, 'while');
    cluster.returnZone(zone!);
    await load(router, 'after!');
    await waitUntil(async () => (await blocksOf(router)) > perLoad * 3, { what: 'four loads', timeoutMs: 20_000 });
    await cluster.untilSteady();
  });

  it('serve every request while each server is replaced with an empty disk, one after the other', async () => {
    const before = await untilStill(router);
    let isOver = false;
    const replaced = replaceServers().finally(() => {
      isOver = true;
    });
    for (let loads = 0; loads < 3 || !isOver; loads++) await load(router, `release ${loads % 3}`);
    await replaced;
    for (const { copies, leader } of await streamsAt(hosts()[0]!)) {
      expect({ copies, leader }).toEqual({ copies: 3, leader: expect.stringMatching(/nats-[012]/) });
    }
    await waitUntil(async () => (await blocksOf(router)) > before + perLoad * 2, {
      what: 'three loads more',
      timeoutMs: 20_000,
    });
  });

  it('lost no event, as the workers themselves say, and have all again soon after every server lost its disk', async () => {
    const before = await untilStill(router); // out of events; a new router can have it from the workers alone
    await Promise.all(cluster.services.flatMap(({ tasks }) => tasks.map((task) => task.kill())));
    await cluster.untilSteady();
    const fresh = await fleet.frontend(KV, credentials('router'));
    const untilEqual = (isMore: (blocks: number) => boolean): Promise<unknown> =>
      waitUntil(
        async () => {
          const [ofFresh, ofRouter] = await Promise.all([blocksOf(fresh), blocksOf(router)]);
          return ofFresh === ofRouter && isMore(ofFresh);
        },
        { what: `both indexes equal, of ${before} blocks`, timeoutMs: REFILL_MS_MAX },
      );
    await untilEqual((blocks) => blocks >= before);
    await load(router, 'afterwards');
    await untilEqual((blocks) => blocks > before);
  });
});

describe.runIf(hasNatsServer())('three NATS servers whose health check is wrong', () => {
  it('never come up: the first one waits for those that wait for it, and the deployment is taken back', async () => {
    secrets ??= new Secrets(Object.values(deployedTemplates()));
    const other = new EcsCluster({ machine, timeScale: 0.05, patienceScale: 0.05 });
    const wrong = withHealthCheck(onlyServicesOf(deployedTemplates(), 'nats'), 'nats', HEALTHZ_ALONE);
    await expect(other.deploy(wrong)).rejects.toThrow(/container nats is unhealthy: its check failed 3 times in a row/);
    expect(other.events.filter((event) => event.endsWith(' is made'))).toHaveLength(1);
    expect(other.services).toEqual([]);
    await other.close();
  });
});
