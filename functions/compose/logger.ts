import type { Settings } from '../../shared/config/index.ts';
import { createLogger, type ProcessLogger } from '../../shared/telemetry/index.ts';

/** The logger of a process, as its settings ask. */
export function openLogger(
  settings: Pick<Settings<'worker'>, 'log' | 'loggingJsonl' | 'logUseLocalTz'>,
): ProcessLogger {
  return createLogger({ filter: settings.log, jsonl: settings.loggingJsonl, useLocalTime: settings.logUseLocalTz });
}
