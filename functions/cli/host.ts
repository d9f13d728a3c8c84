import { SYSTEM } from '../../shared/clock/index.ts';
import type { Environment, ResolvedConfig } from '../../shared/config/index.ts';
import { runHost } from '../../shared/host/index.ts';
import { openLogger } from '../../shared/telemetry/index.ts';
import { stayAlive, stopSignal } from '../process.ts';

/** Runs `stator host`: the workers of one machine, from its launch to its end. */
export async function run(config: ResolvedConfig<'host'>, env: Environment): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(config.settings);
  const [, entry] = process.argv;
  if (entry === undefined) throw new Error('cannot find the stator program to start workers with');
  return stayAlive(() =>
    runHost({
      ...SYSTEM,
      config,
      env,
      logger,
      program: [process.execPath, ...process.execArgv, entry],
      stopped,
      writeLine: (text) => void process.stdout.write(text),
    }),
  );
}
