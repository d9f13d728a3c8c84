import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach } from 'vitest';
import { type SpawnedProcess, type SpawnOptions, spawnNode, spawnProgram } from './spawn-node.ts';
import { waitUntil } from './wait-until.ts';

/** The built program, or another build of it to test. */
const PROGRAM = process.env.STATOR_TEST_PROGRAM || fileURLToPath(new URL('../../dist/stator.js', import.meta.url));
const START_MS_MAX = 30_000;
const EXIT_MS_MAX = 25_000;

type Env = Readonly<Record<string, string | undefined>>;

/** The folder and the Node in which a process runs. */
interface Place {
  readonly cwd?: string;
  /**
   * @default the Node of the tests
   */
  readonly node?: string;
}

/** A `stator` process that serves. */
export interface StatorProcess extends SpawnedProcess {
  /** URL of its HTTP server: the OpenAI routes, or the status server of a worker. */
  readonly url: string;
  /** URL of a worker's controls; empty for other processes. */
  readonly controlUrl: string;
  /** A worker's instance id; empty for other processes. */
  readonly instanceId: string;
  /**
   * Sums the samples of a metric whose line contains all of `labels`, such as `status="success"`. Returns 0 without
   * samples.
   */
  metric(name: string, ...labels: readonly string[]): Promise<number>;
}

/** The `stator` processes of one suite, with folders of their own. */
export interface Fleet {
  /** Root of the file discovery that they share. */
  readonly fileKv: string;
  /** The temporary folder of `stator local`. */
  readonly temporary: string;
  /** Starts any command, and does not wait for it. */
  spawn(args: readonly string[], env?: Env, place?: Place): SpawnedProcess;
  /** Starts `stator local` on a free port. Resolves when it reports that it is up. */
  local(args?: readonly string[], env?: Env): Promise<StatorProcess>;
  /** Starts `stator frontend` on a free port. Resolves when it is healthy. */
  frontend(args?: readonly string[], env?: Env, place?: Place): Promise<StatorProcess>;
  /** Starts `stator worker`, a mock one unless `args` says otherwise. Resolves when it is ready. */
  worker(args?: readonly string[], env?: Env, place?: Place): Promise<StatorProcess>;
  /** Adds a worker that the suite started by itself. Resolves when it is ready. */
  adopt(child: SpawnedProcess): Promise<StatorProcess>;
  /** Waits until `frontend` would send requests for `model` to that many workers. */
  untilWorkers(frontend: StatorProcess, count: number, model?: string): Promise<void>;
}

/**
 * Returns the processes of the suite that calls it. They end after its last test. If a test fails, their output is
 * printed.
 *
 * @param env variables of all of them, in place of every `DYN_*`, `STATOR_*` and `AWS_*` variable of the test run
 */
export function useFleet(env: Env = {}): Fleet {
  const folder = mkdtempSync(join(tmpdir(), 'fleet-'));
  const fleet = new SpawnedFleet(folder, env);
  afterEach(({ task }) => {
    if (task.result?.state === 'fail') console.error(fleet.outputs());
  });
  afterAll(async () => {
    await fleet.kill();
    rmSync(folder, { recursive: true, force: true });
    if (fleet.outputs().includes('MaxListenersExceededWarning'))
      throw new Error(`too many listeners\n${fleet.outputs()}`);
  });
  return fleet;
}

/** Starts any command of the program, in the environment of the test run plus `options.env`. */
export function spawnStator(args: readonly string[], options: SpawnOptions = {}): SpawnedProcess {
  return spawnNode([PROGRAM, ...args], options);
}

/** Runs a command to its end. */
export async function runStator(
  args: readonly string[],
  env: Env = {},
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const child = spawnNode([PROGRAM, ...args], { env: { ...withoutOurs(), ...env } });
  const deadline = setTimeout(() => child.signal('SIGKILL'), EXIT_MS_MAX);
  const code = await child.exited;
  clearTimeout(deadline);
  return { code, stdout: child.stdout(), stderr: child.stderr() };
}

class SpawnedFleet implements Fleet {
  readonly fileKv: string;
  readonly temporary: string;
  readonly #state: string;
  readonly #env: Env;
  readonly #processes: { readonly name: string; readonly child: SpawnedProcess }[] = [];

  constructor(folder: string, env: Env) {
    this.fileKv = join(folder, 'kv');
    this.temporary = join(folder, 'tmp');
    mkdirSync(this.temporary);
    this.#state = join(folder, 'state');
    this.#env = env;
  }

  spawn(args: readonly string[], env: Env = {}, { node = process.execPath, cwd }: Place = {}): SpawnedProcess {
    const child = spawnProgram(node, [PROGRAM, ...args], {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...withoutOurs(), TMPDIR: this.temporary, XDG_STATE_HOME: this.#state, ...this.#env, ...env },
    });
    this.#processes.push({ name: args.join(' '), child });
    return child;
  }

  async local(args: readonly string[] = [], env: Env = {}): Promise<StatorProcess> {
    const child = this.spawn(['local', '--http-port=0', ...args], env);
    const [, url = ''] = await child.waitForOutput(/endpoint: (\S+)\/v1\n[\s\S]*Ctrl-C/, START_MS_MAX);
    return serving(child, url);
  }

  async frontend(args: readonly string[] = [], env: Env = {}, place: Place = {}): Promise<StatorProcess> {
    const own = ['--http-host=127.0.0.1', '--http-port=0'];
    const child = this.spawn(['frontend', ...own, ...args], { ...this.#shared(), ...env }, place);
    const [, url = ''] = await child.waitForOutput(/serving url=(\S+)/, START_MS_MAX);
    await untilOk(`${url}/health`);
    return serving(child, url);
  }

  async worker(args: readonly string[] = [], env: Env = {}, place: Place = {}): Promise<StatorProcess> {
    const engine = args.some((argument) => argument.startsWith('--engine=')) ? [] : ['--engine=mocker'];
    const loopback = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' };
    const ports = { DYN_SYSTEM_PORT: '0', STATOR_CONTROL_PORT: '0' };
    const own = { ...this.#shared(), ...loopback, ...ports, ...env };
    const child = this.spawn(['worker', ...engine, ...args], own, place);
    return this.#untilReady(child);
  }

  adopt(child: SpawnedProcess): Promise<StatorProcess> {
    this.#processes.push({ name: 'worker of a suite', child });
    return this.#untilReady(child);
  }

  async #untilReady(child: SpawnedProcess): Promise<StatorProcess> {
    const [, id = ''] = await child.waitForOutput(/worker is ready instance_id=(\w+)/, START_MS_MAX);
    const urlOf = (server: string): string => {
      const [, port] = new RegExp(`${server} server is up port=(\\d+)`).exec(child.stdout() + child.stderr()) ?? [];
      return port === undefined ? '' : `http://127.0.0.1:${port}`;
    };
    const url = urlOf('status');
    if (url !== '') await untilOk(`${url}/health`);
    return serving(child, url, id, urlOf('control'));
  }

  async untilWorkers(frontend: StatorProcess, count: number, model = 'stator-mini'): Promise<void> {
    await waitUntil(async () => (await countWorkers(frontend.url, model)) === count, {
      timeoutMs: START_MS_MAX,
      what: `${count} workers of ${model}`,
    });
  }

  outputs(): string {
    return this.#processes
      .map(({ name, child }) => `--- stator ${name}\n${child.stdout()}${child.stderr()}`)
      .join('\n');
  }

  async kill(): Promise<void> {
    await Promise.all(this.#processes.map(({ child }) => child.kill()));
  }

  #shared(): Env {
    return { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: this.fileKv };
  }
}

function serving(child: SpawnedProcess, url: string, instanceId = '', controlUrl = ''): StatorProcess {
  const metric = async (name: string, ...labels: readonly string[]): Promise<number> => {
    const text = await (await fetch(`${url}/metrics`)).text();
    const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
    const wanted = lines.filter((line) => labels.every((label) => line.includes(label)));
    return wanted.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  };
  return { ...child, url, controlUrl, instanceId, metric };
}

async function untilOk(url: string): Promise<void> {
  await waitUntil(async () => (await fetch(url)).ok, { timeoutMs: START_MS_MAX, what: `200 from ${url}` });
}

async function countWorkers(url: string, model: string): Promise<number> {
  const response = await fetch(`${url}/v1/models/${model}/ready`);
  if (response.status === 404) return 0;
  const { namespaces } = (await response.json()) as {
    readonly namespaces: Record<string, { readonly worker_types: Record<string, { readonly workers: number }> }>;
  };
  const types = Object.values(namespaces).flatMap((namespace) => Object.values(namespace.worker_types));
  return types.reduce((sum, { workers }) => sum + workers, 0);
}

/** Removes variables that would configure a `stator` process, colour its output, or make it warn of unknown names. */
function withoutOurs(): Env {
  const names = Object.keys(process.env).filter((name) => /^((DYN|STATOR|AWS)_|FORCE_COLOR$)/.test(name));
  return Object.fromEntries(names.map((name) => [name, undefined]));
}
