import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { forwardSettings } from '../../shared/config/index.ts';
import { composeFrontend, type Frontend } from '../compose/frontend.ts';
import { openLogger } from '../compose/logger.ts';
import { serveFrontend } from '../compose/serve-frontend.ts';
import { stopSignal } from '../compose/stop-signal.ts';
import type { CommandContext } from './commands.ts';
import { WorkerProcesses } from './local-workers.ts';

/** How long the workers may take to register before the banner says that they are still starting. */
const WORKERS_READY_MS = 20_000;

/** `stator local`: a frontend in this process, its workers in processes of their own, nothing left behind at the end. */
export async function run({ settings, config, env }: CommandContext<'local'>): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const folder = settings.fileKv === undefined ? await mkdtemp(join(tmpdir(), 'stator-')) : undefined;
  const fileKv = settings.fileKv ?? folder;
  const forwarded = forwardSettings(config, 'worker');
  const workers = new WorkerProcesses({
    count: settings.engine === 'openai' ? 1 : settings.numWorkers,
    argv: [...forwarded.argv, `--engine=${settings.engine}`, `--discovery-backend=${settings.discoveryBackend}`],
    env: { ...env, ...forwarded.env, ...(fileKv === undefined ? {} : { DYN_FILE_KV: fileKv }), ...LOOPBACK },
    logger: logger.for('local'),
  });
  try {
    const frontend = await composeFrontend(
      { ...settings, fileKv },
      { logger, plane: { poolSizeMax: settings.tcpPoolSize }, given: config.given.keys() },
    );
    const server = await serveFrontend(frontend, settings, logger); // before the workers: a port in use costs nothing
    workers.start();
    const failure = Promise.race([workers.failed, stopped.then(() => undefined)]);
    const isUp = await Promise.race([workersRegistered(frontend, workers.count), failure.then(() => false)]);
    if (isUp) process.stdout.write(banner(frontend, server.url, workers.count, settings.engine));
    const reason = await failure;
    workers.retire();
    await server.drain();
    if (reason === undefined) return 0;
    process.stderr.write(`stator: ${reason}\n`);
    return 1;
  } finally {
    await workers.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }
}

/** Workers of one machine talk over loopback alone, whatever addresses it has. */
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };

/** Resolves with true when every worker serves, or when waiting any longer would tell the user nothing. */
async function workersRegistered(frontend: Frontend, count: number): Promise<boolean> {
  const deadline = AbortSignal.timeout(WORKERS_READY_MS);
  try {
    await frontend.models.until((models) => models.some(({ workers }) => workers.length >= count), deadline);
  } catch (error) {
    if (!deadline.aborted) throw error; // else the banner tells what there is
  }
  return true;
}

function banner(frontend: Frontend, url: string, workers: number, engine: string): string {
  const model = frontend.models.list()[0]?.name;
  const served = model === undefined ? 'workers are still starting' : `model ${model}`;
  const mocks = workers === 1 ? 'one mock worker' : `${workers} mock workers`;
  const what = engine === 'mocker' ? mocks : 'one worker in front of your server';
  return `
  Stator is up: ${what}, ${served}
  OpenAI-compatible endpoint: ${url}/v1

  Try it:
    curl -N ${url}/v1/chat/completions -H 'content-type: application/json' \\
      -d '{"model":"${model ?? 'MODEL'}","stream":true,"messages":[{"role":"user","content":"What are you?"}]}'

  Also: ${url}/v1/models  ${url}/health  ${url}/metrics
  Stop with Ctrl-C.

`;
}
