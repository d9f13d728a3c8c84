import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NATS_PORTS, renderNatsHealth, renderNatsStart } from '../../infra/nats-configuration.ts';
import {
  askAbout,
  freePort,
  hasNatsServer,
  type SpawnedProcess,
  type StatorProcess,
  spawnProgram,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const PASSWORDS = { worker: 'worker-password', router: 'router-password', route: 'route-password' } as const;
const WORKER = ['--block-size=16', '--speedup-ratio=10'];
const KV = ['--router-mode=kv'];
/** Time in which routers have all again, once the servers are back with empty disks. */
const REFILL_MS_MAX = 30_000;
/** Requests of one part of a load, and sentences of a prompt: about 40 blocks. */
const REQUESTS = 24;
const SENTENCES = 40;

type Ports = Record<keyof typeof NATS_PORTS, number>;

interface Server {
  readonly name: string;
  readonly ports: Ports;
  readonly folder: string;
  process: SpawnedProcess | undefined;
}

const env: Record<string, string> = {
  DYN_EVENT_PLANE: 'nats',
  STATOR_NATS_STREAM_REPLICAS: '3',
  STATOR_NATS_STREAM_MAX_MB: '64',
};
const fleet = useFleet(env);
const folder = mkdtempSync(join(tmpdir(), 'stator-nats-cluster-'));
const servers: Server[] = [];
const asRouter = { NATS_AUTH_USERNAME: 'router', NATS_AUTH_PASSWORD: PASSWORDS.router };
const asWorker = { NATS_AUTH_USERNAME: 'worker', NATS_AUTH_PASSWORD: PASSWORDS.worker };

/** What the container of a server runs. */
async function start(server: Server): Promise<void> {
  mkdirSync(server.folder, { recursive: true });
  const cluster = servers.map(({ ports }) => `127.0.0.1:${ports.cluster}`);
  const script = renderNatsStart({ ...server, storageGb: 1, hasWebSocket: true, cluster });
  const PATH = `${dirname(process.env.STATOR_TEST_NATS_BIN ?? '')}:${process.env.PATH}`;
  const passwords = Object.entries(PASSWORDS).map(([role, password]) => [
    `NATS_${role.toUpperCase()}_PASSWORD`,
    password,
  ]);
  server.process = spawnProgram('/bin/sh', ['-c', script], { env: { PATH, ...Object.fromEntries(passwords) } });
  await server.process.waitForOutput(/Server is ready/);
}

/**
 * How ECS asks a container, and how long it believes one that says no: checks that fail within `startPeriodMs` do not count, and after
 * it `retries` in a row end the task. Times are a fifth of the deployment's.
 */
const HEALTH = { intervalMs: 2000, startPeriodMs: 12_000, retries: 3 };

/** Resolves as soon as the container of a server counts as healthy. @throws Error when ECS would end its task */
async function untilHealthy({ ports }: Server): Promise<void> {
  const command = renderNatsHealth({ cluster: servers.map(({ name }) => name), ports });
  let intervals = 0;
  await waitUntil(
    async () => {
      if (intervals++ === 0) return false; // the first check comes after an interval
      return new Promise((resolve) => execFile('/bin/sh', ['-c', command], (failed) => resolve(failed === null)));
    },
    {
      what: 'a healthy container',
      pollMs: HEALTH.intervalMs,
      timeoutMs: HEALTH.startPeriodMs + HEALTH.retries * HEALTH.intervalMs,
    },
  );
}

/** A server and its disk, gone at once. */
async function lose(server: Server): Promise<void> {
  await server.process?.kill();
  rmSync(server.folder, { recursive: true, force: true });
}

/** The streams as one server tells of them: how often each is kept, who leads it, and what is in it. */
async function streamsAt({ ports }: Server) {
  const connection = await connect({ servers: `127.0.0.1:${ports.clients}`, user: 'router', pass: PASSWORDS.router });
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

describe.runIf(hasNatsServer())('routers and workers over three NATS servers', { timeout: 120_000 }, () => {
  let router: StatorProcess;
  let perLoad: number;

  beforeAll(async () => {
    for (const name of ['nats-0', 'nats-1', 'nats-2']) {
      const entries = await Promise.all(Object.keys(NATS_PORTS).map(async (port) => [port, await freePort()] as const));
      const ports = Object.fromEntries(entries) as Ports;
      servers.push({ name, ports, folder: join(folder, name), process: undefined });
    }
    // As a deployment starts them: each service once the one before is healthy.
    for (const server of servers) {
      await start(server);
      await untilHealthy(server);
    }
    env.NATS_SERVER = servers.map(({ ports }) => `nats://127.0.0.1:${ports.clients}`).join(',');
    [router] = await Promise.all([
      fleet.frontend(KV, asRouter),
      fleet.worker(WORKER, asWorker),
      fleet.worker(WORKER, asWorker),
    ]);
    await fleet.untilWorkers(router, 2);
    await load(router, 'before');
    perLoad = await untilStill(router);
  });

  afterAll(async () => {
    await Promise.all(servers.map(lose));
    rmSync(folder, { recursive: true, force: true });
  });

  it('serve every request while a server is lost with its disk, and keep every event on the other two', async () => {
    const before = await streamsAt(servers[1]!);
    expect(before.length).toBeGreaterThan(0);
    const running = load(router, 'during');
    await lose(servers[0]!);
    await running;
    const kept = await streamsAt(servers[1]!);
    expect(kept.map(({ name }) => name)).toEqual(before.map(({ name }) => name));
    for (const [at, { copies, leader, messages }] of kept.entries()) {
      expect({ copies, leader }).toEqual({ copies: 3, leader: expect.stringMatching(/nats-[12]/) });
      expect(messages).toBeGreaterThanOrEqual(before[at]!.messages);
    }
    await load(router, 'while');
    await start(servers[0]!);
    await load(router, 'after!');
    await waitUntil(async () => (await blocksOf(router)) > perLoad * 3, { what: 'four loads', timeoutMs: 20_000 });
  });

  it('serve every request while each server is replaced with an empty disk, one after the other', async () => {
    const before = await untilStill(router);
    for (const [at, server] of servers.entries()) {
      const running = load(router, `release ${at}`);
      await lose(server);
      await start(server);
      await untilHealthy(server);
      await running;
      for (const { copies, leader } of await streamsAt(server)) {
        expect({ copies, leader }).toEqual({ copies: 3, leader: expect.stringMatching(/nats-[012]/) });
      }
    }
    await waitUntil(async () => (await blocksOf(router)) > before + perLoad * 2, {
      what: 'three loads more',
      timeoutMs: 20_000,
    });
  });

  it('lost no event, as the workers themselves say, and have all again soon after every server lost its disk', async () => {
    const before = await untilStill(router); // out of events; a new router can have it from the workers alone
    await Promise.all(servers.map(lose));
    await Promise.all(servers.map(start));
    const fresh = await fleet.frontend(KV, asRouter);
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
