import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { forwardSettings } from '../../shared/config/index.ts';
import type { ProcessLogger } from '../../shared/telemetry/index.ts';
import { composeFrontend, type Frontend } from '../compose/frontend/frontend.ts';
import { serveFrontend } from '../compose/frontend/serve-frontend.ts';
import { openLogger, openQuietLogger, QUIET } from '../compose/logger.ts';
import { stopSignal } from '../compose/stop-signal.ts';
import { staggerDelayMs } from '../compose/worker/stagger-delay.ts';
import { chatWith } from './chat-session.ts';
import type { CommandContext } from './commands.ts';
import { type LocalFleet, localFleet } from './local-fleet.ts';
import { WorkerProcesses } from './local-workers.ts';

/** How long the workers may take to register before the banner says that they are still starting. */
const WORKERS_READY_MS = 20_000;

/** `stator local`: a frontend in this process, its workers in processes of their own, nothing left behind at the end. */
export async function run({ settings, config, env }: CommandContext<'local'>): Promise<number> {
  const { interactive: isInteractive } = settings;
  const chatting = new AbortController();
  const stopped = stopSignal(chatting.signal);
  const logger = isInteractive ? openQuietLogger(settings, config) : openLogger(settings);
  const forwarded = forwardSettings(config, 'worker');
  const engine = [`--engine=${settings.engine}`, `--discovery-backend=${settings.discoveryBackend}`];
  const fleet = localFleet(settings, [...forwarded.argv, ...engine]);
  const folder = settings.fileKv === undefined ? await mkdtemp(join(tmpdir(), 'stator-')) : undefined;
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
    },
    logger: logger.for('local'),
    hasOwnTerminal: isInteractive,
  });
  try {
    const frontend = await composeFrontend(
      { ...settings, fileKv },
      { logger, plane: { poolSizeMax: settings.tcpPoolSize } },
    );
    const serve = isInteractive ? chatInstead : serveUntilEnd;
    const reason = await serve({ frontend, settings, logger, workers, fleet, stopped, chatting });
    if (reason === undefined) return 0;
    process.stderr.write(`stator: ${reason}\n`);
    return 1;
  } finally {
    await workers.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

interface Local {
  readonly frontend: Frontend;
  readonly settings: CommandContext<'local'>['settings'];
  readonly logger: ProcessLogger;
  readonly workers: WorkerProcesses;
  readonly fleet: LocalFleet;
  readonly stopped: Promise<string>;
  /** Aborted once Ctrl-C is the chat's. */
  readonly chatting: AbortController;
}

/** Serves until told to stop; resolves with why the workers cannot be had, if they cannot. */
async function serveUntilEnd(local: Local): Promise<string | undefined> {
  const { frontend, settings, logger, workers, fleet, stopped } = local;
  const server = await serveFrontend(frontend, settings, logger); // before the workers: a port in use costs nothing
  workers.start();
  const failure = Promise.race([workers.failed, stopped.then(() => undefined)]);
  const isUp = await Promise.race([workersRegistered(frontend, fleet), failure.then(() => false)]);
  if (isUp) process.stdout.write(banner(frontend, server.url, fleet, settings.engine));
  const reason = await failure;
  workers.retire();
  await server.drain();
  return reason;
}

/** Chats until the user leaves; resolves as above. */
async function chatInstead({
  frontend,
  settings,
  workers,
  fleet,
  stopped,
  chatting,
}: Local): Promise<string | undefined> {
  workers.start();
  try {
    const over = Promise.race([workers.failed, stopped.then(() => undefined)]);
    const isUp = await Promise.race([workersRegistered(frontend, fleet), over.then(() => false)]);
    if (!isUp) return await over;
    return await Promise.race([
      chatWith(frontend, settings.httpSvcChatPath, over, chatting).then(() => undefined),
      workers.failed,
    ]);
  } finally {
    workers.retire();
    await frontend.close();
  }
}

/** Workers of one machine talk over loopback alone, whatever addresses it has. */
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };

/** Resolves with true when every worker serves, or when waiting any longer would tell the user nothing. */
async function workersRegistered(
  frontend: Frontend,
  { workers: wanted, prefillWorkers }: LocalFleet,
): Promise<boolean> {
  const deadline = AbortSignal.timeout(WORKERS_READY_MS);
  try {
    await frontend.models.until(
      (models) =>
        models.some(
          ({ workers, prefill }) => workers.length >= wanted && (prefill?.workers.length ?? 0) >= prefillWorkers,
        ),
      deadline,
    );
  } catch (error) {
    if (!deadline.aborted) throw error; // else the banner tells what there is
  }
  return true;
}

function describeWorkers({ workers, prefillWorkers }: LocalFleet, engine: string): string {
  if (engine !== 'mocker') return 'one worker in front of your server';
  if (prefillWorkers > 0) return `${prefillWorkers} prefill and ${workers} decode mock workers`;
  return workers === 1 ? 'one mock worker' : `${workers} mock workers`;
}

function banner(frontend: Frontend, url: string, fleet: LocalFleet, engine: string): string {
  const model = frontend.models.list()[0]?.name;
  const served = model === undefined ? 'workers are still starting' : `model ${model}`;
  return `
  Stator is up: ${describeWorkers(fleet, engine)}, ${served}
  OpenAI-compatible endpoint: ${url}/v1

  Try it:
    curl -N ${url}/v1/chat/completions -H 'content-type: application/json' \\
      -d '{"model":"${model ?? 'MODEL'}","stream":true,"messages":[{"role":"user","content":"What are you?"}]}'

  Also: ${url}/v1/models  ${url}/health  ${url}/metrics
  Stop with Ctrl-C.

`;
}
