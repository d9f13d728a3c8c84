import { accept, oneText, type Parsed, refuse, type ValueType } from './value-type.ts';

/** Levels in rising detail. `off` lets nothing through. */
export const LOG_LEVELS = ['off', 'error', 'warn', 'info', 'debug', 'trace'] as const;

/** A level that a filter names. */
export type FilterLevel = (typeof LOG_LEVELS)[number];

/** The levels of some targets, in the order in which they were written, and that of all others: `info` unless it is said. */
interface LogLevels {
  readonly targets: readonly { readonly target: string; readonly level: FilterLevel }[];
  readonly others: FilterLevel;
}

/** What a filter may say, in words. */
export const LOG_FILTER_ALLOWED =
  'level,target=level,... with levels error, warn, info, debug, trace, off; in a list, a target without a level means trace';

/**
 * Reads the parts of a log filter, `<default>,<target>=<level>,...`, empty ones left out. A target alone means all of its lines,
 * but a word that is the whole filter is a level: nobody asks for one target's lines by a level that is misspelt.
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
