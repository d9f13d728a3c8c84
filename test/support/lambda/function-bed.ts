import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { bundleFunction, type FunctionBundle } from '../../../infra/bundle.ts';
import { createTestTable, type TestTable } from '../../contract/discovery/test-table.ts';
import {
  type DynamoDbServer,
  hasDynamoDb,
  type SpawnedProcess,
  spawnStator,
  startDynamoDb,
  waitUntil,
} from '../index.ts';
import { hasLambdaRuntime, type LambdaRuntime, startLambdaRuntime } from '../lambda-runtime.ts';

/** The model of the bed's worker. */
export const MODEL = 'builtin';

const LOOPBACK = {
  DYN_EVENT_PLANE: 'zmq',
  DYN_EVENT_PLANE_HOST: '127.0.0.1',
  DYN_TCP_RPC_HOST: '127.0.0.1',
  DYN_SYSTEM_HOST: '127.0.0.1',
};

type Env = Readonly<Record<string, string>>;

interface WorkerOptions {
  /** @default the model of this repository */
  readonly modelPath?: string;
  readonly flags?: readonly string[];
  readonly cwd?: string;
  readonly env?: Env;
}

/** Whether the set-up found or installed what a `FunctionBed` runs. */
export function hasFunctionBed(): boolean {
  return hasLambdaRuntime() && hasDynamoDb();
}

/** The deployed bundle, and a table through which the function and processes beside it discover each other. */
export class FunctionBed {
  readonly bundle: FunctionBundle;
  readonly server: DynamoDbServer;
  readonly table: TestTable;
  /** Variables that name the table. */
  readonly where: Env;
  readonly #processes: SpawnedProcess[] = [];

  static async open(): Promise<FunctionBed> {
    const bundle = await bundleFunction({ outdir: mkdtempSync(join(tmpdir(), 'stator-function-')) });
    const server = await startDynamoDb();
    return new FunctionBed(bundle, server, await createTestTable(server.url));
  }

  private constructor(bundle: FunctionBundle, server: DynamoDbServer, table: TestTable) {
    this.bundle = bundle;
    this.server = server;
    this.table = table;
    this.where = {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: table.tableName,
      STATOR_DYNAMODB_ENDPOINT: table.endpoint,
    };
  }

  /** Starts the function under Lambda's runtime client. The caller stops it. */
  startFunction(env: Env, environmentsMax = 1): Promise<LambdaRuntime> {
    const { directory } = this.bundle;
    const cache = { STATOR_ARTIFACTS_CACHE_DIR: join(directory, 'models') }; // a function has a /tmp of its own
    return startLambdaRuntime({ directory, env: { ...this.where, ...cache, ...env }, environmentsMax });
  }

  /**
   * Starts the function of a deployment whose model has no worker any more. The caller stops it. A process that lasts
   * keeps the view of the fleet, whose catalogue remembers the model.
   */
  async startColdFunction(env: Env, environmentsMax = 1): Promise<LambdaRuntime> {
    const gatherer = this.spawn(['frontend', '--http-port=0']);
    await gatherer.waitForOutput(/gathers the fleet view/, 60_000);
    const worker = await this.startWorker();
    const runtime = await this.startFunction(env, environmentsMax);
    try {
      const isListed = async () => (await (await fetch(`${runtime.url}/v1/models`)).text()).includes(MODEL);
      await waitUntil(isListed, { what: 'the model in the list' });
      worker.signal('SIGTERM');
      await worker.exited;
      return runtime;
    } catch (thrown) {
      await runtime.stop();
      throw thrown;
    }
  }

  /** Starts a process of the same fleet, which ends with the bed. */
  spawn(args: readonly string[], { env, cwd }: Pick<WorkerOptions, 'env' | 'cwd'> = {}): SpawnedProcess {
    const options = { env: { ...this.where, ...LOOPBACK, ...env }, ...(cwd === undefined ? {} : { cwd }) };
    const child = spawnStator(args, options);
    this.#processes.push(child);
    return child;
  }

  /** Starts a worker of the same fleet, which ends with the bed. Resolves when it is ready. */
  async startWorker(options: WorkerOptions = {}): Promise<SpawnedProcess> {
    const { modelPath = resolve('shared/artifacts/builtin-model'), flags = [], ...more } = options;
    const model = [`--model-path=${modelPath}`, `--model-name=${MODEL}`];
    const worker = this.spawn(['worker', '--engine=mocker', '--mock-output=random', ...model, ...flags], more);
    await worker.waitForOutput(/worker is ready/, 30_000);
    return worker;
  }

  async close(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.kill()));
    await this.table.drop();
    await this.server.stop();
    rmSync(this.bundle.directory, { recursive: true, force: true });
  }
}
