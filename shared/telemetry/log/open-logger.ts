import type { FleetSettings, ResolvedConfig } from '../../config/index.ts';
import { createLogger, type ProcessLogger } from './logger.ts';

/** The logger of a process, as its settings ask. */
export function openLogger(settings: FleetSettings): ProcessLogger {
  const isTerminal = process.stderr.isTTY === true;
  return createLogger({
    filter: settings.log,
    jsonl: settings.loggingJsonl,
    useLocalTime: settings.logUseLocalTz,
    isTerminal,
    isPainted: isPainted(process.env, isTerminal),
  });
}

/** What programs agree on: any `NO_COLOR` means none, `FORCE_COLOR` some even where nobody reads along, unless it is 0. */
export function isPainted(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  const { NO_COLOR: none = '', FORCE_COLOR: forced, TERM: terminal } = env;
  if (none !== '') return false;
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  return isTerminal && terminal !== 'dumb';
}

/** The same for a process that talks to a person in its terminal: nothing below a warning, unless levels were asked for. */
export function openQuietLogger({
  settings,
  given,
}: ResolvedConfig<'frontend'> | ResolvedConfig<'local'>): ProcessLogger {
  return openLogger(given.has('log') ? settings : { ...settings, log: QUIET });
}

/** Level of such a process, and of those that it starts. */
export const QUIET = 'warn';
