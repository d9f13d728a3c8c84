import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SYSTEM } from '../../shared/clock/index.ts';
import {
  chatWith,
  type LocalRun,
  localPlanners,
  localPlanning,
  openLocalPlanner,
  rollupIntervalMs,
} from '../../shared/commands/index.ts';
import { Lifetime, tellWhile, withDeadline } from '../../shared/concurrency/index.ts';
import { type Environment, forwardSettings, type ResolvedConfig, type Settings } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { composeFrontend, type Frontend, serveFrontend } from '../../shared/frontends/index.ts';
import type { RoutableModel } from '../../shared/pipeline/index.ts';
import { openLogger, openQuietLogger, type ProcessLogger, QUIET } from '../../shared/telemetry/index.ts';
import { staggerDelayMs } from '../../shared/worker/index.ts';
import { stopSignal } from '../process.ts';
import { renderBanner } from './local-banner.ts';
import { type LocalFleet, localFleet, WorkerProcesses } from './local-workers.ts';
import { withOwnModel } from './own-model.ts';

/** How long all workers may take to register, in milliseconds. After that the command goes on with those that have. */
const WORKERS_READY_MS = 20_000;
/** How long a request waits for a worker, in seconds, because the planner may have stopped the last one. */
const HOLD_SECS = 60;
/** Length of a usual start, in milliseconds; a shorter one needs no message. */
const USUAL_START_MS = 3000;
/** How long requests wait that come before the first worker, in milliseconds. */
const HELD_MS_MAX = 5000;

/** Creates the folder in which the processes meet. @throws Error with one line that names the variable to change */
async function temporaryFolder(): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), 'stator-'));
  } catch (cause) {
    throw new Error(`no folder can be created in ${tmpdir()}: ${reasonOf(cause)}. Check TMPDIR`, { cause });
  }
}

/**
 * Runs `stator local`: a frontend in this process and its workers in processes of their own. It leaves nothing behind
 * at the end.
 */
export async function run(config: ResolvedConfig<'local'>, env: Environment): Promise<number> {
  const { settings } = config;
  const { interactive: isInteractive } = settings;
  const chatting = new AbortController();
  const stopped = stopSignal(chatting.signal);
  const planning = settings.planner ? await localPlanning(settings) : undefined;
  const logger = isInteractive ? openQuietLogger(config) : openLogger(settings);
  // The workers then find the files in the cache.
  const own = await withOwnModel(settings, logger, stopped);
  if (own === undefined) return 0;
  const reason = await Lifetime.run(async (lifetime) => {
    const local = await openLocal({ config, own, env, logger, planning, stopped, chatting, lifetime });
    openWithFirstModel(local);
    return isInteractive ? chatInstead(local) : serveUntilEnd(local);
  });
  if (reason === undefined) return 0;
  process.stderr.write(`stator: ${reason}\n`);
  return 1;
}

interface LocalDeps {
  readonly config: ResolvedConfig<'local'>;
  /** The settings with the folder of `--model-path`, which may name a model on the hub. */
  readonly own: Settings<'local'>;
  readonly env: Environment;
  readonly logger: ProcessLogger;
  readonly planning: Awaited<ReturnType<typeof localPlanning>> | undefined;
  readonly stopped: Promise<string>;
  /** Aborts when the chat takes over Ctrl-C. */
  readonly chatting: AbortController;
  /** Closes everything at the end: the planner, the frontend, the workers, and the folder where they meet. */
  readonly lifetime: Lifetime;
}

async function openLocal(deps: LocalDeps): Promise<Local> {
  const { own: given, env, logger, planning, lifetime } = deps;
  const fleet = localFleet(given, ...workerArguments(deps.config));
  const fileKv = given.fileKv ?? (await lifetime.use(temporaryFolder(), removeFolder));
  const settings = { ...given, fileKv };
  const workers = lifetime.use(createWorkers(deps, fleet, fileKv), (started) => started.stop());
  let planner: LocalRun | undefined;
  const held = planning === undefined ? {} : { holdTimeoutSecs: given.holdTimeoutSecs ?? HOLD_SECS };
  const frontend = await lifetime.use(
    composeFrontend(
      { ...settings, ...held },
      {
        ...SYSTEM,
        logger,
        onHeld: (event) => planner?.fleet.hear(event),
        planners: localPlanners(planning !== undefined, () => planner?.store),
      },
    ),
  );
  if (planning !== undefined) {
    const tell = (line: string): void => {
      if (!given.interactive) process.stdout.write(`planner: ${line}\n`); // the chat owns the output
    };
    planner = await lifetime.use(openLocalPlanner({ ...SYSTEM, settings, planning, env, logger, workers, tell }));
  }
  return { ...deps, frontend, settings: given, workers, planner, fleet };
}

/** Returns the arguments of every worker, and the arguments of its engine. */
function workerArguments(config: ResolvedConfig<'local'>): [shared: readonly string[], behind: readonly string[]] {
  const { settings } = config;
  const forwarded = forwardSettings(config, 'worker');
  const engine = [`--engine=${settings.engine}`, `--discovery-backend=${settings.discoveryBackend}`];
  return [[...forwarded.argv, ...engine], forwarded.behind];
}

function createWorkers(
  { config, env, logger, planning }: LocalDeps,
  { argv }: LocalFleet,
  fileKv: string,
): WorkerProcesses {
  const { settings } = config;
  const { interactive: isInteractive } = settings;
  return new WorkerProcesses({
    workers: argv,
    staggerMs: staggerDelayMs(settings.staggerDelaySecs, argv.length),
    env: {
      ...env,
      ...(isInteractive && !config.given.has('log') ? { DYN_LOG: QUIET } : {}),
      ...forwardSettings(config, 'worker').env,
      DYN_FILE_KV: fileKv,
      ...LOOPBACK,
      ...(planning === undefined ? {} : { STATOR_EVENT_ROLLUP_INTERVAL_MS: `${rollupIntervalMs(planning.planner)}` }),
    },
    logger: logger.for('local'),
    hasOwnTerminal: isInteractive,
  });
}

function removeFolder(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true });
}

/**
 * Holds requests until a model is served, so that a client that starts together with this command does not come too
 * early.
 */
function openWithFirstModel({ frontend, fleet, stopped }: Local): void {
  const { lifecycle, models } = frontend;
  lifecycle.waiting(() => `Waiting for workers: ${registered(frontend)} of ${wanted(fleet)} are ready`, HELD_MS_MAX);
  const ending = new AbortController();
  void stopped.then((reason) => ending.abort(new Error(reason)));
  const isServed = models.until((listed) => listed.some(({ readiness }) => readiness.isReady), ending.signal);
  isServed.then(
    () => lifecycle.discovered(),
    () => undefined, // the command was stopped before
  );
}

function registered({ models }: Frontend): number {
  return Math.max(0, ...models.list().map(workersOf));
}

function wanted({ workers, prefillWorkers }: LocalFleet): number {
  return workers + prefillWorkers;
}

interface Local extends Pick<LocalDeps, 'logger' | 'stopped' | 'chatting' | 'lifetime'> {
  readonly frontend: Frontend;
  readonly settings: Settings<'local'>;
  readonly workers: WorkerProcesses;
  readonly planner: LocalRun | undefined;
  readonly fleet: LocalFleet;
}

/** Serves until a signal stops it. Resolves with the reason if the workers cannot be started. */
async function serveUntilEnd(local: Local): Promise<string | undefined> {
  const { frontend, settings, logger, workers, fleet, stopped, lifetime } = local;
  // The server starts before the workers, so that a port in use costs no start of a worker.
  const server = await lifetime.use(serveFrontend(frontend, settings, logger), (serving) => serving.drain());
  workers.start();
  const failure = Promise.race([workers.failed, stopped.then(() => undefined)]);
  const isUp = await Promise.race([workersRegistered(local, failure), failure.then(() => false)]);
  if (isUp)
    process.stdout.write(
      await renderBanner(frontend, { url: server.url, grpcAddress: server.grpcAddress, fleet, settings }),
    );
  planUntilEnd(local, isUp);
  return failure;
}

/** Chats until the user leaves. Resolves like `serveUntilEnd`. */
async function chatInstead(local: Local): Promise<string | undefined> {
  const { frontend, settings, workers, stopped, chatting } = local;
  workers.start();
  const over = Promise.race([workers.failed, stopped.then(() => undefined)]);
  const isUp = await Promise.race([workersRegistered(local, over), over.then(() => false)]);
  planUntilEnd(local, isUp);
  if (!isUp) return over;
  return Promise.race([
    chatWith(frontend, settings.httpSvcChatPath, over, chatting).then(() => undefined),
    workers.failed,
  ]);
}

/**
 * Plans from now on if the workers are up. At the end the planner stops first, and no worker that then ends is
 * replaced.
 */
function planUntilEnd({ planner, workers, lifetime }: Local, isUp: boolean): void {
  lifetime.defer(() => workers.retire());
  const planned = isUp ? planner?.fleet.run() : undefined;
  lifetime.defer(async () => {
    await planner?.close();
    await planned;
  });
}

/** Variables that keep the workers of one machine on loopback, whatever addresses it has. */
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };

/**
 * Resolves with true when every worker serves, or some do after the time for all is over. Resolves with false if `over`
 * ends first.
 */
async function workersRegistered({ frontend, fleet }: Local, over: Promise<unknown>): Promise<boolean> {
  const ending = new AbortController();
  void over.finally(() => ending.abort());
  const serveAll = ({ workers, prefill }: RoutableModel): boolean =>
    workers.length >= fleet.workers && (prefill?.workers.length ?? 0) >= fleet.prefillWorkers;
  const allServe = withDeadline({ clock: SYSTEM.clock, timeoutMs: WORKERS_READY_MS, signal: ending.signal }, (within) =>
    frontend.models.until((models) => models.some(serveAll), within),
  );
  const someServe = () =>
    frontend.models.until((models) => models.some(({ workers }) => workers.length > 0), ending.signal);
  const tell = (waitedSecs: number): void =>
    void process.stderr.write(
      `stator: waiting for workers: ${registered(frontend)} of ${wanted(fleet)} ready after ${waitedSecs} s\n`,
    );
  try {
    await tellWhile(allServe.catch(someServe), tell, USUAL_START_MS);
    return true;
  } catch (error) {
    if (!ending.signal.aborted) throw error;
    return false;
  }
}

function workersOf({ workers, prefill }: RoutableModel): number {
  return workers.length + (prefill?.workers.length ?? 0);
}
