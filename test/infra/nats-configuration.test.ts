import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NATS_PORTS, renderNatsStart } from '../../infra/nats-configuration.ts';
import { freePort, hasNatsServer, waitUntil } from '../support/index.ts';

/** One begins with a digit, which the server would take for a number. */
const PASSWORDS = {
  NATS_WORKER_PASSWORD: '1e9workerPassword',
  NATS_ROUTER_PASSWORD: 'routerPassword',
  NATS_ROUTE_PASSWORD: '7routePassword',
};

let folder: string;
const servers: ChildProcess[] = [];
const connections: NatsConnection[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stator-nats-'));
});
afterEach(async () => {
  await Promise.all(connections.splice(0).map((connection) => connection.close()));
  for (const server of servers.splice(0)) server.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

type Ports = Record<keyof typeof NATS_PORTS, number>;

async function ports(): Promise<Ports> {
  const entries = Object.keys(NATS_PORTS).map(async (name) => [name, await freePort()] as const);
  return Object.fromEntries(await Promise.all(entries)) as Ports;
}

/** Runs what the container runs. */
function start(
  name: string,
  own: Ports,
  cluster?: readonly string[],
  secrets: Readonly<Record<string, string>> = PASSWORDS,
): void {
  const data = join(folder, name);
  mkdirSync(data, { recursive: true });
  const script = renderNatsStart({
    name,
    storageGb: 1,
    folder: data,
    ports: own,
    hasWebSocket: true,
    ...(cluster === undefined ? {} : { cluster }),
  });
  const PATH = `${dirname(process.env.STATOR_TEST_NATS_BIN ?? '')}:${process.env.PATH}`;
  servers.push(spawn('/bin/sh', ['-c', script], { env: { PATH, ...secrets }, stdio: 'ignore' }));
}

async function connectAs(user: 'worker' | 'router', { clients }: Ports, pass?: string): Promise<NatsConnection> {
  const password = pass ?? PASSWORDS[user === 'worker' ? 'NATS_WORKER_PASSWORD' : 'NATS_ROUTER_PASSWORD'];
  const connection = await connect({
    servers: `127.0.0.1:${clients}`,
    user,
    pass: password,
    waitOnFirstConnect: pass === undefined,
    reconnectTimeWait: 100,
  });
  connections.push(connection);
  return connection;
}

describe.runIf(hasNatsServer())('the NATS servers of a deployment', () => {
  it('know a worker and a router by their passwords, and let each do its part alone', async () => {
    const own = await ports();
    start('nats', own);
    const router = await jetstreamManager(await connectAs('router', own));
    const worker = await jetstreamManager(await connectAs('worker', own), { checkAPI: false, timeout: 500 });
    await worker.streams.add({ name: 'log', subjects: ['namespace.dynamo.kv-events'] });
    await router.streams.purge('log');
    await expect(worker.streams.purge('log')).rejects.toThrow(/permissions|timeout/i);
    await expect(worker.streams.delete('log')).rejects.toThrow(/permissions|timeout/i);
    await expect(connectAs('router', own, 'wrong')).rejects.toThrow(/authorization/i);
  });

  it('accept the user before a rotation, too, and no user without a password', async () => {
    const own = await ports();
    start('nats', own, undefined, {
      ...PASSWORDS,
      NATS_WORKER_USERNAME: '2b',
      NATS_WORKER_PASSWORD: '3e9next',
      NATS_WORKER_PREVIOUS_USERNAME: 'worker',
      NATS_WORKER_PREVIOUS_PASSWORD: PASSWORDS.NATS_WORKER_PASSWORD,
      NATS_ROUTER_PREVIOUS_PASSWORD: 'none',
    });
    const as = (user: string, pass: string, waits = false) =>
      connect({ servers: `127.0.0.1:${own.clients}`, user, pass, waitOnFirstConnect: waits, reconnectTimeWait: 100 });
    for (const [user, pass] of [
      ['2b', '3e9next'],
      ['worker', PASSWORDS.NATS_WORKER_PASSWORD],
      ['router', PASSWORDS.NATS_ROUTER_PASSWORD],
    ] as const) {
      const connection = await as(user, pass, true);
      connections.push(connection);
      const manager = await jetstreamManager(connection, { checkAPI: false, timeout: 500 });
      if (user !== 'router') await expect(manager.streams.purge('log')).rejects.toThrow(/permissions|timeout/i);
    }
    for (const pass of ['none', '', '""', 'router-before']) {
      await expect(as('router-before', pass)).rejects.toThrow(/authorization/i);
    }
    await expect(as('worker', '3e9next')).rejects.toThrow(/authorization/i);
  });

  it('keep three copies, and make up for the loss of one of them with its disk', async () => {
    const all = await Promise.all([ports(), ports(), ports()]);
    const hosts = all.map(({ cluster }) => `127.0.0.1:${cluster}`);
    for (const [at, own] of all.entries()) start(`nats-${at}`, own, hosts);
    const connection = await connectAs('router', all[0]!);
    const manager = await jetstreamManager(connection, { checkAPI: false });
    const stream = { name: 'log', subjects: ['namespace.dynamo.kv-events'], num_replicas: 3 };
    await waitUntil(async () => (await manager.streams.add(stream).catch(() => undefined)) !== undefined, {
      timeoutMs: 20_000,
    });
    const js = manager.jetstream();
    /** Once, however often it is sent: while a leader is elected nobody says that it has come. */
    const publish = (at: number) => {
      const send = () => js.publish('namespace.dynamo.kv-events', `${at}`, { msgID: `${at}`, timeout: 1000 });
      return waitUntil(async () => (await send().catch(() => undefined)) !== undefined, { timeoutMs: 20_000 });
    };
    for (let at = 0; at < 20; at++) await publish(at);
    servers[2]?.kill('SIGKILL');
    rmSync(join(folder, 'nats-2'), { recursive: true, force: true });
    for (let at = 20; at < 40; at++) await publish(at);
    start('nats-2', all[2]!, hosts);
    await waitUntil(
      async () => {
        const { cluster, state } = await manager.streams.info('log');
        return state.messages === 40 && cluster?.replicas?.every(({ current }) => current) === true;
      },
      { timeoutMs: 30_000 },
    );
  }, 60_000);
});
