import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { composeFrontend, LAMBDA_HOLD, serveFrontend } from '../../../../shared/frontends/index.ts';
import { RunningApp } from '../../../../shared/frontends/lambda/running-app.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startWorkerProcess, type WorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { CountingClock, failEachStep, failStart, type Start } from '../../../support/failed-starts.ts';
import { freePort, hasNatsServer, type NatsServer, startNatsServer } from '../../../support/index.ts';

// A start that fails must leave nothing open: a function tries again in the same process, and a program that embeds a frontend
// goes on.

const folder = mkdtempSync(join(tmpdir(), 'stator-failed-start-'));
const KEYS_FILE = join(folder, 'keys.json');
const POLICIES_FILE = join(folder, 'policies.yaml');
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
const FILES = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), ...LOOPBACK };
/** Every part that a frontend can have beside its routing. */
const ALL_PARTS = {
  STATOR_HOLD_TIMEOUT: '60',
  STATOR_KEYS_FILE: KEYS_FILE,
  STATOR_EMF: 'true',
  STATOR_EMF_SERVICE: 'edge',
  DYN_HTTP_SVC_CONFIG_METRICS_POLL_INTERVAL_SECS: '1',
  DYN_REQUEST_TRACE: 'file',
  DYN_REQUEST_TRACE_FILE_PATH: join(folder, 'records.jsonl'),
};
const RESIDENT = [
  '--router-mode=kv',
  '--router-role=resident',
  '--router-replica-sync',
  '--router-min-initial-workers=9',
];
let worker: WorkerProcess;

beforeAll(async () => {
  writeFileSync(KEYS_FILE, '[]');
  writeFileSync(POLICIES_FILE, 'classes: nothing');
  const flags = ['--engine=mocker', '--speedup-ratio=100', '--model-name=m'];
  worker = await startWorkerProcess(
    resolveConfig('worker', flags, FILES),
    SYSTEM,
    silentLogger,
    AbortSignal.timeout(20_000),
  );
});
afterAll(async () => {
  await worker.drain();
  rmSync(folder, { recursive: true, force: true });
});

type Env = Readonly<Record<string, string>>;

/** The start of a frontend with these settings. */
function frontendOf(flags: readonly string[], env: Env): Start {
  const { settings } = resolveConfig('frontend', flags, env);
  return async (deps) => (await composeFrontend(settings, deps)).close;
}

/** The start of a function with these settings. */
function functionOf(env: Env): Start {
  const { settings } = resolveConfig('function', [], { ...FILES, STATOR_AUTH: 'off', ...env });
  const host = { discovery: { isLasting: false }, followsEvents: false, holdBounds: LAMBDA_HOLD };
  return async (deps) => (await composeFrontend(settings, { ...deps, ...host })).close;
}

/** A port that something else listens on. */
async function takenPort(): Promise<{ readonly port: number; readonly server: Server }> {
  const server = createServer();
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { port, server };
}

describe('a frontend whose start fails', () => {
  it('leaves nothing open, whichever step fails, as a resident router with everything that a frontend can have', async () => {
    const env = { ...FILES, ...ALL_PARTS, STATOR_ROUTER_GRPC_PORT: String(await freePort()) };
    const { steps, left } = await failEachStep(frontendOf(RESIDENT, env));
    const parts = [
      'requests',
      'discovery',
      'models',
      'events',
      'router',
      'pipeline',
      'responses',
      'access',
      'http',
      'records',
    ];
    expect([...new Set(steps)].toSorted()).toEqual(parts.toSorted());
    expect(left).toEqual([]);
  });

  it.runIf(hasNatsServer())('leaves nothing open, whichever step fails, with a shared state and NATS', async () => {
    const nats: NatsServer = await startNatsServer();
    try {
      const env = { ...FILES, ...ALL_PARTS, DYN_EVENT_PLANE: 'nats', NATS_SERVER: nats.url };
      const { steps, left } = await failEachStep(frontendOf(RESIDENT, env));
      expect(steps).toEqual(expect.arrayContaining(['events', 'router', 'records']));
      expect(left).toEqual([]);
    } finally {
      await nats.stop();
    }
  });

  it('leaves nothing open, whichever step fails, with routing by load', async () => {
    const { steps, left } = await failEachStep(frontendOf(['--router-mode=least-loaded'], FILES));
    expect(steps).toContain('responses');
    expect(left).toEqual([]);
  });

  it.each([
    ['the queue classes of the router', ['--router-mode=kv', `--router-policy-config=${POLICIES_FILE}`], {}],
    [
      'the rule of disaggregation',
      ['--router-mode=kv', '--router-conditional-disagg', '--router-conditional-disagg-config={"nothing":1}'],
      {},
    ],
    ['the sinks of request records', RESIDENT, { ...ALL_PARTS, DYN_REQUEST_TRACE: 'nowhere' }],
  ])('leaves nothing open when its settings are refused by %s', async (_step, flags, env) => {
    const { error, ...left } = await failStart(frontendOf(flags, { ...FILES, ...env }));
    expect(error).not.toBe('none');
    expect(left).toEqual({ timers: 0, descriptors: 0 });
  });

  it.each(['DYN_TCP_RPC_PORT', 'STATOR_ROUTER_GRPC_PORT'])(
    'leaves nothing open when its port as a resident router is taken (%s)',
    async (name) => {
      const { port, server } = await takenPort();
      try {
        const { error, ...left } = await failStart(frontendOf(RESIDENT, { ...FILES, ...ALL_PARTS, [name]: `${port}` }));
        expect(error).toContain(`${port}`);
        expect(left).toEqual({ timers: 0, descriptors: 0 });
      } finally {
        server.close();
      }
    },
  );

  it('leaves nothing open when its HTTP port is taken, gRPC listens already', async () => {
    const { port, server } = await takenPort();
    const flags = ['--http-host=127.0.0.1', `--http-port=${port}`, `--grpc-port=${await freePort()}`];
    const { settings } = resolveConfig('frontend', flags, { ...FILES, ...ALL_PARTS });
    const start: Start = async (deps) => {
      const frontend = await composeFrontend(settings, deps);
      return (await serveFrontend(frontend, settings, deps.logger)).drain;
    };
    try {
      await failStart(start); // loads code, for good
      const { error, ...left } = await failStart(start);
      expect(error).toContain(`port ${port} is in use`);
      expect(left).toEqual({ timers: 0, descriptors: 0 });
    } finally {
      server.close();
    }
  });
});

describe('a function whose start fails', () => {
  const asking = { DYN_ROUTER_MODE: 'kv', STATOR_ROUTER_URL: 'tcp://localhost:1', STATOR_HOLD_TIMEOUT: '60' };

  it.each([
    ['resident routers at a URL', asking],
    ['resident routers in discovery', { DYN_ROUTER_MODE: 'kv', STATOR_ROUTER_ROLE: 'choose' }],
    ['no resident router', { DYN_ROUTER_MODE: 'kv', STATOR_ROUTER_ROLE: 'stateless' }],
  ])('leaves nothing open, whichever step fails, with %s', async (_name, env) => {
    const { steps, left } = await failEachStep(functionOf(env));
    expect(steps).toContain('router');
    expect(left).toEqual([]);
  });

  it('leaves nothing open when the table of the fleet is away', async () => {
    const table = {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: 't',
      STATOR_DYNAMODB_ENDPOINT: 'http://127.0.0.1:1',
    };
    const { error, ...left } = await failStart(functionOf({ ...asking, ...table }));
    expect(error).not.toBe('none');
    expect(left).toEqual({ timers: 0, descriptors: 0 });
  });

  it('leaves nothing of the tries before the one that succeeds', async () => {
    const clock = new CountingClock();
    const start = functionOf(asking);
    const refusing = {
      ...silentLogger,
      for: (part: string) => {
        if (part === 'access') throw new Error('the table of keys is away');
        return silentLogger;
      },
    };
    const armed: number[] = [];
    const tries: Promise<unknown>[] = [];
    const startApp = async () => {
      const trying = start({ ...SYSTEM, clock, logger: tries.length < 3 ? refusing : silentLogger });
      tries.push(trying);
      const close = await trying.finally(() => armed.push(clock.armed));
      return { serve: () => {}, close: async () => void (await close()) };
    };
    const apps = new RunningApp(startApp, clock, () => {});
    for (let at = 0; at < 3; at++) await expect(apps.get()).rejects.toThrow('The frontend could not start');
    const app = await apps.get();
    expect(armed).toEqual([0, 0, 0, expect.any(Number)]);
    await app.close?.();
    expect(clock.armed).toBe(0);
  });
});
