import { SYSTEM } from '../../shared/clock/index.ts';
import type { ResolvedConfig } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { type Logger, openLogger } from '../../shared/telemetry/index.ts';
import { applyEngineArgs, readEngineArgs, startWorkerProcess } from '../../shared/worker/index.ts';
import { serveUntilStopped } from '../process.ts';
import { reportToParent } from './local-workers.ts';

/** Runs `stator worker`: serves one engine until a signal stops it, then drains. */
export async function run(config: ResolvedConfig<'worker'>): Promise<number> {
  const logger = openLogger(config.settings);
  try {
    const whole = await withEngineArgs(config, logger.for('engine'));
    const start = (signal: AbortSignal) => startWorkerProcess(whole, SYSTEM, logger, signal);
    return await serveUntilStopped(start, async (worker, stopped) => {
      await reportToParent({ kind: 'ready' });
      const reason = await Promise.race([stopped, worker.drainOrdered, worker.engineExit]);
      logger.info('stopping', { reason: reasonOf(reason) }); // the workers themselves say that they drain
      await worker.drain();
      return typeof reason === 'string' ? 0 : 1; // an engine has died, and the supervisor starts this process again
    });
  } catch (thrown) {
    if (await reportToParent({ kind: 'failed', reason: reasonOf(thrown) })) return 1; // the parent prints it
    throw thrown;
  }
}

/** Returns `config` with the settings of `--extra-engine-args` applied. */
async function withEngineArgs(config: ResolvedConfig<'worker'>, log: Logger) {
  const { extraEngineArgs: path, engine } = config.settings;
  if (path === undefined || engine !== 'mocker') return config;
  const flag = '--extra-engine-args';
  const applied = applyEngineArgs(config, await readEngineArgs(flag, path), `${flag} ${path}`);
  for (const warning of applied.warnings) log.warn(warning);
  return { ...config, settings: applied.settings };
}
