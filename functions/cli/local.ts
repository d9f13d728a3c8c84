import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SYSTEM } from '../../shared/clock/index.ts';
import {
  chatWith,
  type LocalRun,
  localPlanning,
  openLocalPlanner,
  rollupIntervalMs,
} from '../../shared/commands/index.ts';
import { tellWhile, withDeadline } from '../../shared/concurrency/index.ts';
import { type Environment, forwardSettings, type ResolvedConfig, type Settings } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { composeFrontend, type Frontend, serveFrontend } from '../../shared/frontends/index.ts';
import type { RoutableModel } from '../../shared/pipeline/index.ts';
import { openLogger, openQuietLogger, type ProcessLogger, QUIET } from '../../shared/telemetry/index.ts';
import { staggerDelayMs } from '../../shared/worker/index.ts';
import { stopSignal } from '../process.ts';
import { renderBanner } from './local-banner.ts';
import { type LocalFleet, localFleet, WorkerProcesses } from './local-workers.ts';

/** How long all workers may take to register before those that have are enough. */
const WORKERS_READY_MS = 20_000;
/** Requests wait so long for a worker, where the planner may have let the last one go. */
const HOLD_SECS = 60;
/** Nothing is said of a start that is as short. */
const USUAL_START_MS = 3000;
/** Requests that come before the first worker wait for it so long. */
const HELD_MS_MAX = 5000;

/** Where the processes meet. @throws Error with one line that names the variable to change */
async function temporaryFolder(): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), 'stator-'));
  } catch (cause) {
    throw new Error(`no folder can be made in ${tmpdir()}: ${reasonOf(cause)}. Check TMPDIR`, { cause });
  }
}

/** `stator local`: a frontend in this process, its workers in processes of their own, nothing left behind at the end. */
export async function run(config: ResolvedConfig<'local'>, env: Environment): Promise<number> {
  const { settings } = config;
  const { interactive: isInteractive } = settings;
  const chatting = new AbortController();
  const stopped = stopSignal(chatting.signal);
  const planning = settings.planner ? await localPlanning(settings) : undefined;
  const logger = isInteractive ? openQuietLogger(config) : openLogger(settings);
  const forwarded = forwardSettings(config, 'worker');
  const engine = [`--engine=${settings.engine}`, `--discovery-backend=${settings.discoveryBackend}`];
  const fleet = localFleet(settings, [...forwarded.argv, ...engine], forwarded.behind);
  const folder = settings.fileKv === undefined ? await temporaryFolder() : undefined;
  const fileKv = settings.fileKv ?? folder;
  const workers = new WorkerProcesses({
    workers: fleet.argv,
    staggerMs: staggerDelayMs(settings.staggerDelaySecs, fleet.argv.length),
    env: {
      ...env,
      ...(isInteractive && !config.given.has('log') ? { DYN_LOG: QUIET } : {}),
      ...forwarded.env,
      ...(fileKv === undefined ? {} : { DYN_FILE_KV: fileKv }),
      ...LOOPBACK,
      ...(planning === undefined ? {} : { STATOR_EVENT_ROLLUP_INTERVAL_MS: `${rollupIntervalMs(planning.planner)}` }),
    },
    logger: logger.for('local'),
    hasOwnTerminal: isInteractive,
  });
  try {
    let planner: LocalRun | undefined;
    const held = planning === undefined ? {} : { holdTimeoutSecs: settings.holdTimeoutSecs ?? HOLD_SECS };
    const frontend = await composeFrontend(
      { ...settings, fileKv, ...held },
      {
        ...SYSTEM,
        logger,
        onHeld: (event) => planner?.fleet.hear(event),
      },
    );
    if (planning !== undefined) {
      const tell = (line: string): void => {
        if (!isInteractive) process.stdout.write(`planner: ${line}\n`); // the output is the chat's
      };
      planner = await openLocalPlanner({
        ...SYSTEM,
        settings: { ...settings, fileKv },
        planning,
        env,
        logger,
        workers,
        tell,
      });
    }
    const serve = isInteractive ? chatInstead : serveUntilEnd;
    const local = { frontend, settings, logger, workers, planner, fleet, stopped, chatting };
    openWithFirstModel(local);
    const reason = await serve(local);
    if (reason === undefined) return 0;
    process.stderr.write(`stator: ${reason}\n`);
    return 1;
  } finally {
    await workers.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

/** Requests wait until a model is served: a client that is started together with this command is none that comes too early. */
function openWithFirstModel({ frontend, fleet, stopped }: Local): void {
  const { lifecycle, models } = frontend;
  lifecycle.waiting(() => `Waiting for workers: ${registered(frontend)} of ${wanted(fleet)} are ready`, HELD_MS_MAX);
  const ending = new AbortController();
  void stopped.then((reason) => ending.abort(new Error(reason)));
  const isServed = models.until((listed) => listed.some(({ readiness }) => readiness.isReady), ending.signal);
  isServed.then(
    () => lifecycle.discovered(),
    () => undefined, // stopped before
  );
}

function registered({ models }: Frontend): number {
  return Math.max(0, ...models.list().map(workersOf));
}

function wanted({ workers, prefillWorkers }: LocalFleet): number {
  return workers + prefillWorkers;
}

interface Local {
  readonly frontend: Frontend;
  readonly settings: Settings<'local'>;
  readonly logger: ProcessLogger;
  readonly workers: WorkerProcesses;
  readonly planner: LocalRun | undefined;
  readonly fleet: LocalFleet;
  readonly stopped: Promise<string>;
  /** Aborted once Ctrl-C is the chat's. */
  readonly chatting: AbortController;
}

/** Serves until told to stop; resolves with why the workers cannot be had, if they cannot. */
async function serveUntilEnd(local: Local): Promise<string | undefined> {
  const { frontend, settings, logger, workers, planner, fleet, stopped } = local;
  const server = await serveFrontend(frontend, settings, logger); // before the workers: a port in use costs nothing
  workers.start();
  const failure = Promise.race([workers.failed, stopped.then(() => undefined)]);
  const isUp = await Promise.race([workersRegistered(local, failure), failure.then(() => false)]);
  if (isUp)
    process.stdout.write(
      await renderBanner(frontend, { url: server.url, grpcAddress: server.grpcAddress, fleet, settings }),
    );
  const planned = isUp ? planner?.fleet.run() : undefined;
  const reason = await failure;
  await planner?.close();
  await planned;
  workers.retire();
  await server.drain();
  return reason;
}

/** Chats until the user leaves; resolves as above. */
async function chatInstead(local: Local): Promise<string | undefined> {
  const { frontend, settings, workers, planner, stopped, chatting } = local;
  workers.start();
  let planned: Promise<void> | undefined;
  try {
    const over = Promise.race([workers.failed, stopped.then(() => undefined)]);
    const isUp = await Promise.race([workersRegistered(local, over), over.then(() => false)]);
    if (!isUp) return await over;
    planned = planner?.fleet.run();
    return await Promise.race([
      chatWith(frontend, settings.httpSvcChatPath, over, chatting).then(() => undefined),
      workers.failed,
    ]);
  } finally {
    await planner?.close();
    await planned;
    workers.retire();
    await frontend.close();
  }
}

/** Workers of one machine talk over loopback alone, whatever addresses it has. */
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };

/** Resolves with true when every worker serves, or when some do and waiting any longer would tell the user nothing. */
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
