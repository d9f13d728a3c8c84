import { reasonOf } from '../../shared/errors/index.ts';
import type { Logger } from '../../shared/telemetry/index.ts';
import { openLogger } from '../compose/logger.ts';
import { applyEngineArgs, readEngineArgs } from '../compose/worker/engine-args.ts';
import { serveUntilStopped } from '../compose/worker/serve-until-stopped.ts';
import { startWorkerProcess } from '../compose/worker/worker.ts';
import type { CommandContext } from './commands.ts';
import { reportToParent } from './worker-report.ts';

/** `stator worker`: serves one engine until told to stop, then drains. */
export async function run({ config }: CommandContext<'worker'>): Promise<number> {
  const logger = openLogger(config.settings);
  try {
    const settings = await mockerSettings(config, logger.for('engine'));
    const start = (signal: AbortSignal) =>
      startWorkerProcess(settings, logger, signal, undefined, new Set(config.given.keys()));
    return await serveUntilStopped(start, async (worker, stopped) => {
      await reportToParent({ kind: 'ready' });
      const reason = await Promise.race([stopped, worker.engineExit]);
      logger.info('stopping', { reason: reasonOf(reason) }); // the workers themselves say that they drain
      await worker.drain();
      return typeof reason === 'string' ? 0 : 1; // an engine that has died: whoever started us starts us again
    });
  } catch (thrown) {
    if (await reportToParent({ kind: 'failed', reason: reasonOf(thrown) })) return 1; // the parent says it, once for all
    throw thrown;
  }
}

/** The settings, in which `--extra-engine-args` has had its say. */
async function mockerSettings(config: CommandContext<'worker'>['config'], log: Logger) {
  const { settings } = config;
  const { extraEngineArgs: path, engine } = settings;
  if (path === undefined || engine !== 'mocker') return settings;
  const flag = '--extra-engine-args';
  const applied = applyEngineArgs(config, await readEngineArgs(flag, path), `${flag} ${path}`);
  for (const warning of applied.warnings) log.warn(warning);
  return applied.settings;
}
