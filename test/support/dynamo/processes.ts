import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach } from 'vitest';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';

/** Folder of the model that mock workers serve by default: Stator's built-in model, whose few files load quickly. */
export const DYNAMO_MODEL_FOLDER = fileURLToPath(new URL('../../../shared/artifacts/builtin-model/', import.meta.url));
/** Name under which mock workers serve it by default. */
export const DYNAMO_MODEL = 'stator-mini';

const START_MS_MAX = 60_000;
const LOOPBACK = '127.0.0.1';

type Env = Readonly<Record<string, string | undefined>>;

/** A process of Dynamo's. */
export interface DynamoProcess extends SpawnedProcess {
  /**
   * URL of its HTTP server: the routes of a frontend, or `/health` and `/metrics` of a worker. Empty for several
   * workers in one process, of which only one could have the port.
   */
  readonly url: string;
}

export interface MockWorkerOptions {
  /** Workers in this one process; each has an instance id of its own. @default 1 */
  readonly workers?: number;
  /** @default the built-in model */
  readonly modelFolder?: string;
  /** @default stator-mini */
  readonly modelName?: string;
  /** Further flags of `dynamo.mocker`. */
  readonly args?: readonly string[];
  readonly env?: Env;
}

/** Dynamo's processes of one suite, with state of their own. */
export interface Dynamo {
  /** Starts mock workers. Resolves when they are registered. */
  mocker(options?: MockWorkerOptions): Promise<DynamoProcess>;
  /** Starts a frontend on a free port. Resolves when it answers; its models may come later. */
  frontend(args?: readonly string[], env?: Env): Promise<DynamoProcess>;
}

/** Whether the set-up installed Dynamo. */
export function hasDynamo(): boolean {
  return Boolean(process.env.STATOR_TEST_DYNAMO_PYTHON);
}

/**
 * Returns Dynamo's processes of the suite that calls it. They end after its last test. If a test fails, their output is
 * printed.
 *
 * @param env variables of all of them: `useMeeting` makes those of a place where they find each other
 */
export function useDynamo(env: Env): Dynamo {
  const folder = mkdtempSync(join(tmpdir(), 'dynamo-'));
  const dynamo = new SpawnedDynamo(folder, env);
  afterEach(({ task }) => {
    if (task.result?.state === 'fail') console.error(dynamo.outputs());
  });
  afterAll(async () => {
    await dynamo.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  return dynamo;
}

class SpawnedDynamo implements Dynamo {
  readonly #home: string;
  readonly #temporary: string;
  readonly #env: Env;
  readonly #processes: { readonly name: string; readonly child: SpawnedProcess }[] = [];

  constructor(folder: string, env: Env) {
    this.#home = join(folder, 'home'); // Dynamo keeps the files of models below ~/.cache
    this.#temporary = join(folder, 'tmp');
    mkdirSync(this.#home);
    mkdirSync(this.#temporary);
    this.#env = env;
  }

  async mocker(options: MockWorkerOptions = {}): Promise<DynamoProcess> {
    const { workers = 1, modelFolder = DYNAMO_MODEL_FOLDER, modelName = DYNAMO_MODEL, args = [], env = {} } = options;
    const port = workers === 1 ? await freePort() : undefined;
    const own = ['--model-path', modelFolder, '--model-name', modelName, '--num-workers', String(workers)];
    const child = this.#spawn('dynamo.mocker', [...own, ...args], {
      ...(port === undefined ? {} : { DYN_SYSTEM_HOST: '127.0.0.1', DYN_SYSTEM_PORT: String(port) }),
      ...env,
    });
    const url = port === undefined ? '' : `http://127.0.0.1:${port}`;
    await child.waitForOutput(/mocker worker\(s\) created and running/, START_MS_MAX);
    return { ...child, url };
  }

  async frontend(args: readonly string[] = [], env: Env = {}): Promise<DynamoProcess> {
    const port = await freePort();
    const child = this.#spawn('dynamo.frontend', ['--http-host', '127.0.0.1', '--http-port', `${port}`, ...args], env);
    const url = `http://127.0.0.1:${port}`;
    await untilAnswers(child, url);
    return { ...child, url };
  }

  outputs(): string {
    return this.#processes.map(({ name, child }) => `--- ${name}\n${child.stdout()}${child.stderr()}`).join('\n');
  }

  async kill(): Promise<void> {
    await Promise.all(this.#processes.map(({ child }) => child.kill()));
  }

  #spawn(module: string, args: readonly string[], env: Env): SpawnedProcess {
    const python = process.env.STATOR_TEST_DYNAMO_PYTHON;
    if (!python) throw new Error('STATOR_TEST_DYNAMO_PYTHON is not set: run through vitest, whose set-up installs it');
    const child = spawnProgram(python, ['-m', module, ...args], {
      env: {
        ...withoutOthers(),
        HOME: this.#home,
        TMPDIR: this.#temporary,
        HF_HUB_OFFLINE: '1',
        DYN_LOG: 'info',
        DYN_SDK_DISABLE_ANSI_LOGGING: '1',
        DYN_RUNTIME_NUM_WORKER_THREADS: '2', // as many suites run beside each other
        ...this.#env,
        DYN_TCP_RESPONSE_STREAM_HOST: loopbackInterface(),
        ...env,
      },
    });
    this.#processes.push({ name: `${module} ${args.join(' ')}`, child });
    return child;
  }
}

async function untilAnswers(child: SpawnedProcess, url: string): Promise<void> {
  const answers = async (): Promise<boolean> => (await fetch(`${url}/health`)).ok;
  await waitUntil(answers, { timeoutMs: START_MS_MAX, what: `an answer of ${url}` }).catch((error: Error) => {
    throw new Error(`${error.message}\n${child.stdout()}${child.stderr()}`, { cause: error });
  });
}

/** Returns the name of the interface that has 127.0.0.1: frontends of Dynamo before 1.6 take no address. */
function loopbackInterface(): string {
  const found = Object.entries(networkInterfaces()).find(([, all]) => all?.some(({ address }) => address === LOOPBACK));
  if (found === undefined) throw new Error(`no interface has ${LOOPBACK}`);
  return found[0];
}

/** Removes variables of the test run that would configure a process of Dynamo's. */
function withoutOthers(): Env {
  const names = Object.keys(process.env).filter((name) => /^((DYN|STATOR|AWS|ETCD|NATS|HF|OTEL)_)/.test(name));
  return Object.fromEntries(names.map((name) => [name, undefined]));
}
