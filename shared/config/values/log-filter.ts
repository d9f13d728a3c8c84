import { accept, oneText, type Parsed, refuse, type ValueType } from './value-type.ts';

/** Levels with rising detail. `off` lets no line through. */
export const LOG_LEVELS = ['off', 'error', 'warn', 'info', 'debug', 'trace'] as const;

/** A level that a filter names. */
export type FilterLevel = (typeof LOG_LEVELS)[number];

/**
 * Levels of some targets, in the order in which they were written, and the level of all others, which is `info` by
 * default.
 */
interface LogLevels {
  readonly targets: readonly { readonly target: string; readonly level: FilterLevel }[];
  readonly others: FilterLevel;
}

/** Description of a valid filter. */
export const LOG_FILTER_ALLOWED =
  'level,target=level,... with levels error, warn, info, debug, trace, off; in a list, a target without a level means trace';

/**
 * Reads the parts of a log filter, `<default>,<target>=<level>,...`, without empty ones. A target without a level means
 * all of its lines. But a single word as the whole filter must be a level, so that a misspelt level is not taken for a
 * target.
 */
export function parseLogLevels(text: string): Parsed<LogLevels> {
  const parts = text.split(',').flatMap((part) => part.trim() || []);
  const targets: LogLevels['targets'][number][] = [];
  let others: FilterLevel = 'info';
  for (const part of parts) {
    const [name = '', ...levels] = part.split('=');
    const isBare = levels.length === 0;
    const level = levelOf(isBare ? name : levels.join('='));
    const target = name.trim();
    if (isBare && level !== undefined) others = level;
    else if (!isBare && level === undefined) return refuse(`unknown level in ${JSON.stringify(part)}`);
    else if (!/^[\w.:/-]+$/.test(target)) return refuse(`cannot read ${JSON.stringify(part)}`);
    else if (parts.length === 1 && isBare) return refuse(`${JSON.stringify(part)} has no level`);
    else targets.push({ target, level: level ?? 'trace' });
  }
  return accept({ targets, others });
}

function levelOf(text: string): FilterLevel | undefined {
  const wanted = text.trim().toLowerCase();
  return LOG_LEVELS.find((level) => level === wanted);
}

/** A log filter: a default level and levels of targets, e.g. `info,router=debug`. */
export function logFilterType(): ValueType<string> {
  return oneText({
    name: 'filter',
    allowed: LOG_FILTER_ALLOWED,
    parse: (text) => {
      const parsed = parseLogLevels(text);
      return parsed.ok ? accept(text) : parsed;
    },
  });
}
