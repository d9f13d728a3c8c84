import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { seededRandom } from '../../../shared/clock/index.ts';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnNode } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { PROGRAM, START_MS_MAX } from './frontend-watch.ts';
import { GrpcListener } from './grpc-listener.ts';
import { HostileValues } from './hostile-values.ts';
import { HttpListener } from './http-listener.ts';
import type { Listener } from './listener.ts';
import { WebSocketListener } from './websocket-listener.ts';

const DEFECT = /^.*(TypeError|RangeError|ReferenceError|[Uu]nhandled|[Uu]ncaught|request failed).*$/m;
const SETTLED_MS_MAX = 20_000;
/** Connections of a process beyond those at its start: its own pools. */
const OPEN_FILES_MORE_MAX = 8;
const CHAT = '{"model":"stator-mini","max_tokens":1,"messages":[{"role":"user","content":"@@"}]}';

/** The processes of a fleet that listen for HTTP, and cases to play against each listener. */
export interface ListenerFleet {
  readonly names: readonly string[];
  /**
   * Plays the case of one seed against one of the listeners.
   * @throws Error that says what was wrong
   */
  play(seed: number): Promise<void>;
  /**
   * Waits until the processes hold nothing of clients that have left.
   * @throws Error if one has ended, or has a defect or a leak
   */
  look(): Promise<{ readonly rssBytes: number }>;
  /** Does the same as `look`, with clients that say nothing and stay. */
  lookAtSilent(): Promise<void>;
  close(): Promise<void>;
}

/** Starts the built program (`dist/`) as a frontend, a worker, a router's service, a planner and a gRPC server. */
export async function startListenerFleet(): Promise<ListenerFleet> {
  const folder = await mkdtemp(join(tmpdir(), 'stator-fuzz-listeners-'));
  const [page, api, planned, grpc, grpcMetrics] = await Promise.all(Array.from({ length: 5 }, freePort));
  const env = {
    ...{ DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), TMPDIR: folder, XDG_STATE_HOME: folder },
    ...{ DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' },
    ...{ DYN_SYSTEM_PORT: '0', STATOR_CONTROL_PORT: '0' },
    // Clients that write bytes answer no pings. Short times let the server notice that within a fuzz run.
    ...{ STATOR_GRPC_KEEPALIVE_TIME_MS: '1000', STATOR_GRPC_KEEPALIVE_TIMEOUT_MS: '1000' },
  };
  const keysFlag = `--keys-file=${join(folder, 'keys.json')}`;
  const start = (...args: readonly string[]): SpawnedProcess => spawnNode([PROGRAM, ...args], { env });
  const made = start('keys', 'create', '--name=fuzz', keysFlag, '--json');
  await made.exited;
  const { key } = JSON.parse(made.stdout()) as { readonly key: string };
  const config = JSON.stringify({ live_dashboard_port: page, control_api_port: api });
  const processes = {
    worker: start('worker', '--engine=mocker'),
    frontend: start('frontend', '--http-host=127.0.0.1', '--http-port=0', '--enable-anthropic-api'),
    router: start('router', '--service=selection', '--service-host=127.0.0.1', '--service-port=0'),
    planner: start(
      'planner',
      '--planner-connector=virtual',
      `--planner-config=${config}`,
      `--planner-dir=${join(folder, 'planner')}`,
      `--planner-metrics-port=${planned}`,
    ),
    grpc: start(
      'grpc',
      '--http-host=127.0.0.1',
      `--http-port=${grpc}`,
      `--grpc-metrics-port=${grpcMetrics}`,
      '--auth=on',
      keysFlag,
    ),
  };
  const said = async (child: SpawnedProcess, pattern: RegExp): Promise<string> =>
    (await child.waitForOutput(pattern, START_MS_MAX))[1] ?? '';
  const local = (port: number | string | undefined): string => `http://127.0.0.1:${port}`;
  const statusPort = await said(processes.worker, /status server is up port=(\d+)/);
  const controlPort = await said(processes.worker, /control server is up port=(\d+)/);
  const frontend = await said(processes.frontend, / serving url=(\S+)/);
  const router = await said(processes.router, / serving .*url=(\S+)/);
  await Promise.all([said(processes.planner, /( planning )/), said(processes.grpc, /( serving )/)]);
  await waitUntil(async () => (await (await fetch(`${frontend}/v1/models`)).text()).includes('stator-mini'), {
    timeoutMs: START_MS_MAX,
    what: 'the model',
  });
  const post = (path: string, body: string, method = 'POST') => ({ post: { method, path, body } });
  const listeners: readonly Listener[] = await Promise.all([
    new WebSocketListener(frontend),
    new GrpcListener(Number(grpc), key),
    HttpListener.of('chat', frontend, { get: '/live', ...post('/v1/chat/completions', CHAT) }),
    HttpListener.of('responses', frontend, {
      get: '/v1/models',
      ...post('/v1/responses', '{"model":"stator-mini","max_output_tokens":1,"input":"@@"}'),
    }),
    HttpListener.of('messages', frontend, { get: '/health', ...post('/v1/messages', CHAT) }),
    HttpListener.of('tokens', frontend, {
      get: '/openapi.json',
      ...post('/tokenize', '{"model":"stator-mini","prompt":"@@"}'),
    }),
    HttpListener.of('status of a worker', local(statusPort), { get: '/live' }),
    HttpListener.of('controls of a worker', local(controlPort), {
      get: '/v1/loras',
      ...post('/engine/control/none', '{"a":"@@"}'),
    }),
    HttpListener.of('service of a router', router, {
      get: '/health',
      ...post('/select', '{"model_name":"@@","token_ids":[1]}'),
    }),
    HttpListener.of('page of a planner', local(page), {
      get: '/console/api',
      ...post('/console/api/what-if', '{"max_gpu_budget":1,"group":"@@"}'),
    }),
    HttpListener.of('bounds of a planner', local(api), {
      get: '/v1/min-endpoints',
      ...post('/v1/min-endpoints', '{"@@":1}', 'PATCH'),
    }),
    HttpListener.of('metrics of a planner', local(planned), { get: '/metrics' }),
    HttpListener.of('metrics of a gRPC server', local(grpcMetrics), { get: '/live' }),
  ]);
  const watched = await Promise.all(
    Object.entries(processes).map(async ([name, child]) => new WatchedProcess(name, child, await openFiles(child))),
  );
  const look = async (): Promise<{ readonly rssBytes: number }> => {
    await Promise.all(listeners.map((listener) => listener.ask()));
    const rss = await Promise.all(watched.map((each) => each.look()));
    await waitUntil(async () => (await heldBytes(frontend)) === 0, { timeoutMs: SETTLED_MS_MAX, what: 'no body held' });
    return { rssBytes: Math.max(...rss) };
  };
  return {
    names: listeners.map(({ name }) => name),
    play: (seed) => {
      const values = new HostileValues(seededRandom(seed));
      const listener = values.chance(0.2) ? listeners[values.random.below(2)]! : values.one(listeners);
      return listener.play(values);
    },
    look,
    lookAtSilent: async () => {
      await Promise.all(listeners.map((listener) => listener.untilSilentAreGone()));
      await look();
      await waitUntil(async () => (await heldBytes(local(grpcMetrics), key)) === 0, {
        timeoutMs: SETTLED_MS_MAX,
        what: 'no message held',
      });
      await Promise.all(watched.map((each) => each.untilClosed()));
    },
    close: async () => {
      await Promise.all(Object.values(processes).map((child) => child.kill()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function heldBytes(url: string, key = ''): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } })).text();
  return Number(/^stator_frontend_body_bytes (\S+)$/m.exec(text)?.[1]);
}

async function openFiles({ pid }: SpawnedProcess): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

/** A process of the fleet, observed from outside. */
class WatchedProcess {
  readonly #name: string;
  readonly #child: SpawnedProcess;
  readonly #openFiles: number;

  constructor(name: string, child: SpawnedProcess, openFilesAtStart: number) {
    this.#name = name;
    this.#child = child;
    this.#openFiles = openFilesAtStart;
  }

  /**
   * Returns its memory.
   * @throws Error if it has ended, or reports a defect
   */
  async look(): Promise<number> {
    const output = this.#child.stdout() + this.#child.stderr();
    const status = await readFile(`/proc/${this.#child.pid}/status`, 'utf8').catch(() => '');
    const rss = /VmRSS:\s+(\d+)/.exec(status)?.[1];
    if (rss === undefined) throw new Error(`the ${this.#name} is gone: ${output.slice(-3000)}`);
    const defect = DEFECT.exec(output);
    if (defect !== null) throw new Error(`the ${this.#name} says: ${defect[0].slice(0, 2000)}`);
    return Number(rss) * 1024;
  }

  /** Waits until it has no more connections than at its start. */
  async untilClosed(): Promise<void> {
    await waitUntil(async () => (await openFiles(this.#child)) <= this.#openFiles + OPEN_FILES_MORE_MAX, {
      timeoutMs: SETTLED_MS_MAX,
      what: `the ${this.#name} to close its connections`,
    });
  }
}
