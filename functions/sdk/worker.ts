/**
 * @module stator/worker
 * Serves a model that is written in code. Define it and run it, and every frontend of the namespace offers it.
 */
import { openModel } from '../../shared/artifacts/index.ts';
import { SYSTEM } from '../../shared/clock/index.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import type { KvCacheReports, KvEventReports } from '../../shared/engines/index.ts';
import type { ModelKind } from '../../shared/protocol/index.ts';
import { openLogger } from '../../shared/telemetry/index.ts';
import { startWorkerProcess } from '../../shared/worker/index.ts';
import { dumpConfig, exitCodeOf, serveUntilStopped, stayAlive } from '../process.ts';
import { checkDefinition, engineOf, type InputKind, kvCacheOf, type WorkerDefinition } from './worker-definition.ts';

export type {
  EngineLoad,
  HandlerContext,
  HandlerOutput,
  KvCacheReports,
  RemovedBlocks,
  RequestHandler,
  StoredBlocks,
} from '../../shared/engines/index.ts';
export { ServeError } from '../../shared/errors/index.ts';
export type { EngineOutput, EngineRequest, ModelKind } from '../../shared/protocol/index.ts';
export {
  readTensor,
  type TensorElements,
  type TensorRecord,
  type TensorRequestRecord,
  type TensorResponseRecord,
  type TensorValues,
  writeTensor,
} from '../../shared/protocol/index.ts';
export type {
  ChatBody,
  ChatMessage,
  InputKind,
  RequestOf,
  RuntimeFacts,
  WorkerDefinition,
} from './worker-definition.ts';

/**
 * Settings of a worker's start.
 *
 * @example
 * const options: StartOptions = { flags: ['--namespace', 'mine'], signal: AbortSignal.timeout(60_000) };
 */
export interface StartOptions {
  /** Flags of `stator worker` (docs/configuration.md), such as `['--namespace', 'mine']`. @default none */
  readonly flags?: readonly string[];
  /** Variables; flags win. @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Cancels the start. */
  readonly signal?: AbortSignal;
}

/**
 * A worker that serves.
 *
 * @example
 * async function serveForAnHour(worker: DefinedWorker): Promise<void> {
 *   const running: RunningWorker = await worker.start();
 *   await new Promise((resolve) => setTimeout(resolve, 3_600_000));
 *   await running.drain();
 * }
 */
export interface RunningWorker {
  /** Lower-case hex. */
  readonly instanceId: string;
  /** Requests in flight. */
  readonly activeRequests: number;
  /** Leaves discovery, lets answers end, and closes everything. Idempotent. */
  drain(): Promise<void>;
}

/**
 * A worker that is defined in code and not yet started.
 *
 * @example
 * async function serve(worker: DefinedWorker): Promise<void> {
 *   process.exitCode = await worker.run({ flags: process.argv.slice(2) });
 * }
 */
export interface DefinedWorker {
  /**
   * Receives the reports on the model's cache, so that routers know its blocks.
   * @throws Error on reading if the definition lacks `runtime.publishesKvEvents`
   */
  readonly kvCache: KvCacheReports;
  /** Starts serving and resolves once registered. A failed start closes everything and says what to change. */
  start(options?: StartOptions): Promise<RunningWorker>;
  /**
   * Runs the whole life of a process: starts, serves until SIGTERM, SIGINT or SIGHUP, and drains. Resolves with the
   * exit code.
   */
  run(options?: Omit<StartOptions, 'signal'>): Promise<number>;
}

/**
 * Defines a worker in code. Health, lease, drain, metrics and cancellation come with it.
 *
 * @example
 * const worker = defineWorker({
 *   model: 'parrot',
 *   input: 'text',
 *   kinds: ['chat'],
 *   async *generate() {
 *     for (const word of ['Pretty', ' Polly']) yield word;
 *   },
 * });
 * process.exitCode = await worker.run({ flags: process.argv.slice(2) });
 *
 * @throws TypeError that names the field, what it holds, and what is allowed.
 */
export function defineWorker<Input extends InputKind, Kind extends ModelKind>(
  given: WorkerDefinition<Input, Kind>,
): DefinedWorker {
  // Such a worker gets only requests of its own input and kinds.
  const definition = given as unknown as WorkerDefinition;
  checkDefinition(definition);
  const kvCache = kvCacheOf(definition);
  return {
    get kvCache() {
      if (kvCache === undefined) throw new Error('the definition of the worker lacks runtime.publishesKvEvents: true');
      return kvCache;
    },
    start: (options) => startDefined({ ...definition, kvCache }, options),
    run: (options) => runDefined({ ...definition, kvCache }, options),
  };
}

/** A definition with the receiver of its cache reports, if it sends any. */
type OpenDefinition = WorkerDefinition & { readonly kvCache: KvEventReports | undefined };

async function startDefined(
  definition: OpenDefinition,
  { flags = [], env = process.env, signal = new AbortController().signal }: StartOptions = {},
): Promise<RunningWorker> {
  // The only required setting is the engine, which comes from code here.
  const config = resolveConfig('worker', flags, env, { allowMissing: true });
  const logger = openLogger(config.settings);
  for (const warning of config.warnings) logger.for('config').warn(warning);
  await dumpConfig(config);
  const { model, aliases = [], card = {} } = definition;
  const place = { settings: config.settings, clock: SYSTEM.clock, logger: logger.for('models'), signal };
  const openFolder = (name: string): Promise<string | undefined> => openModel(name, place);
  const running = await startWorkerProcess(config, SYSTEM, logger, signal, {
    open: () => engineOf(definition, definition.kvCache, openFolder),
    names: { displayName: model, aliases },
    card,
  });
  const [worker] = running.workers;
  if (worker === undefined) throw new Error('the worker did not start');
  return {
    instanceId: worker.instanceId,
    get activeRequests() {
      return worker.activeRequests;
    },
    drain: () => running.drain(),
  };
}

/**
 * Runs the worker and ends like `stator worker`: a failure is a line on stderr. An error of the model's own `start` is
 * thrown with its stack.
 */
async function runDefined(definition: OpenDefinition, options: StartOptions = {}): Promise<number> {
  let ofModel: { readonly thrown: unknown } | undefined;
  const noted: OpenDefinition = {
    ...definition,
    start: async (signal) => {
      try {
        await definition.start?.(signal);
      } catch (thrown) {
        ofModel = { thrown };
        throw thrown;
      }
    },
  };
  try {
    const start = (signal: AbortSignal) => startDefined(noted, { ...options, signal });
    const running = () =>
      serveUntilStopped(start, async (worker, stopped) => {
        await stopped;
        await worker.drain();
        return 0;
      });
    return await stayAlive(running); // a handler that only waits must not end the process
  } catch (thrown) {
    if (ofModel !== undefined && thrown === ofModel.thrown) throw thrown;
    return exitCodeOf(thrown);
  }
}
