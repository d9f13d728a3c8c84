/** Levels in rising detail. `off` lets nothing through. */
export const LOG_LEVELS = ['off', 'error', 'warn', 'info', 'debug', 'trace'] as const;

/** A level that a filter names. */
export type FilterLevel = (typeof LOG_LEVELS)[number];
/** A level that a line has. */
export type LogLevel = Exclude<FilterLevel, 'off' | 'trace'>;

/** Rank of `level` in detail: a line passes when its rank is at most that of its target's level. */
export function rankOf(level: FilterLevel): number {
  return LOG_LEVELS.indexOf(level);
}

/** Which lines are written, by target. */
export interface LogFilter {
  /** The most detailed level that lines of `target` may have. */
  levelOf(target: string): FilterLevel;
}

interface Directive {
  readonly target: string;
  readonly level: FilterLevel;
}

/**
 * Reads the `DYN_LOG` syntax: `<default>,<target>=<level>,...`, a target alone meaning all of its lines. The longest target
 * that names a line's target or a parent of it decides; `planes` is a parent of `planes.tcp`, `planes/tcp` and `planes::tcp`.
 *
 * @throws Error that names the part it cannot read and what is allowed.
 * @example parseLogFilter('warn,pipeline=debug').levelOf('pipeline.stop') // 'debug'
 */
export function parseLogFilter(text: string): LogFilter {
  let defaultLevel: FilterLevel = 'info';
  const directives: Directive[] = [];
  for (const part of text.split(',').map((piece) => piece.trim())) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    if (equals === -1) {
      const level = readLevel(part);
      if (level === undefined) directives.push({ target: readTarget(part, part), level: 'trace' });
      else defaultLevel = level;
      continue;
    }
    const level = readLevel(part.slice(equals + 1));
    if (level === undefined) {
      throw new Error(`DYN_LOG: unknown level in "${part}"; allowed are ${LOG_LEVELS.join(', ')}`);
    }
    directives.push({ target: readTarget(part.slice(0, equals), part), level });
  }
  directives.sort((a, b) => b.target.length - a.target.length);
  return { levelOf: (target) => directives.find((each) => covers(each.target, target))?.level ?? defaultLevel };
}

function readLevel(text: string): FilterLevel | undefined {
  const wanted = text.trim().toLowerCase();
  return LOG_LEVELS.find((level) => level === wanted);
}

function readTarget(text: string, part: string): string {
  const target = text.trim();
  if (/^[\w.:/-]+$/.test(target)) return target;
  throw new Error(`DYN_LOG: cannot read "${part}"; write a level, or target=level`);
}

function covers(parent: string, target: string): boolean {
  return target === parent || (target.startsWith(parent) && '.:/'.includes(target.charAt(parent.length)));
}
