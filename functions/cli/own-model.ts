import { SYSTEM } from '../../shared/clock/index.ts';
import type { EdgeSettings } from '../../shared/config/index.ts';
import { withOwnFolder } from '../../shared/frontends/index.ts';
import type { ProcessLogger } from '../../shared/telemetry/index.ts';

/**
 * Returns `settings` with the folder of the model that `--model-path` names, which may first have to be downloaded.
 * Returns undefined if the process was stopped meanwhile.
 */
export async function withOwnModel<S extends EdgeSettings>(
  settings: S,
  logger: ProcessLogger,
  stopped: Promise<string>,
): Promise<S | undefined> {
  const ending = new AbortController();
  void stopped.then((reason) => ending.abort(new Error(reason)));
  try {
    return await withOwnFolder(settings, { clock: SYSTEM.clock, logger: logger.for('models'), signal: ending.signal });
  } catch (thrown) {
    if (ending.signal.aborted) return undefined;
    throw thrown;
  }
}
