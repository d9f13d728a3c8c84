import type { Clock, Timer } from '../../clock/index.ts';
import type { LogFields } from './lines.ts';
import type { Logger, ProcessLogger } from './types.ts';

/** Pause before a line that repeats is written again; it doubles each time. */
const PAUSE_MS = 10_000;
const PAUSE_MS_MAX = 3_600_000;

/** Messages of one target; the others count as one. */
const MESSAGES_MAX = 256;
/**
 * Lines of one message that differ in their fields: what is in them may be a peer's to choose. The others count as one.
 */
const VARIANTS_MAX = 8;
/** Characters of a field that tell lines apart. */
const FIELD_CHARS_MAX = 120;

/** A line that was written, and may come again. */
interface Repeating {
  toldAtMs: number;
  pauseMs: number;
  untold: number;
  fields: LogFields | undefined;
  timer: Timer | undefined;
}

type Level = 'warn' | 'error';

/** A function for each line that was left out and waits for its time: a process may end before. */
const waiting = new Set<() => void>();

/**
 * Writes now how often each waiting line was left out, for every logger of this process. A process calls this when it
 * is asked to stop, because it may be killed soon after; at a normal end it happens by itself.
 */
export function tellUntold(): void {
  for (const tell of [...waiting]) tell();
}

/** Targets whose lines are never left out: a reader of an engine's traceback needs each line, in order. */
const UNCOUNTED: ReadonlySet<string> = new Set(['engine']);

/** Returns the logger of a process with `countRepeats` for each target, except for the lines that an engine writes. */
export function countAllRepeats(logger: ProcessLogger, clock: Clock): ProcessLogger {
  const root = countRepeats(logger, clock);
  const targets = new Map<string, Logger>(); // targets are a closed list
  return {
    get isQuiet() {
      return logger.isQuiet === true;
    },
    debug: (message, fields) => logger.debug(message, fields),
    info: (message, fields, full) => logger.info(message, fields, full),
    warn: (message, fields) => root.warn(message, fields),
    error: (message, fields) => root.error(message, fields),
    with: (fields) => root.with(fields),
    for(target) {
      if (UNCOUNTED.has(target)) return logger.for(target);
      const known = targets.get(target) ?? countRepeats(logger.for(target), clock);
      targets.set(target, known);
      return known;
    },
    mirrorTo: (writer) => logger.mirrorTo(writer),
  };
}

/**
 * Returns `logger` with warnings and errors written when they first happen and counted afterwards. The same line comes
 * again after 10 s with `untold`, the number of lines left out, then after 20 s more, and so on up to an hour. After a
 * pause without such a line, the next one counts as new. A waiting count is written when the process ends. Other levels
 * pass. Up to 8 lines of one message that differ in their fields are counted apart.
 *
 * @example
 * const log = countRepeats(logger.for('discovery'), clock);
 * log.warn('discovery problem', { problem }); // however often
 */
export function countRepeats(logger: Logger, clock: Clock): Logger {
  return new RepeatLogger(logger, clock, new Map());
}

class RepeatLogger implements Logger {
  readonly #logger: Logger;
  readonly #clock: Clock;
  /** By message, then by fields. */
  readonly #known: Map<string, Map<string, Repeating>>;
  readonly #scope: string;

  constructor(logger: Logger, clock: Clock, known: Map<string, Map<string, Repeating>>, scope = '') {
    this.#logger = logger;
    this.#clock = clock;
    this.#known = known;
    this.#scope = scope;
  }

  get isQuiet(): boolean {
    return this.#logger.isQuiet === true;
  }

  debug(message: string, fields?: LogFields): void {
    this.#logger.debug(message, fields);
  }

  info(message: string, fields?: LogFields, full?: LogFields): void {
    this.#logger.info(message, fields, full);
  }

  warn(message: string, fields?: LogFields): void {
    this.#count('warn', message, fields);
  }

  error(message: string, fields?: LogFields): void {
    this.#count('error', message, fields);
  }

  with(fields: LogFields): Logger {
    return new RepeatLogger(this.#logger.with(fields), this.#clock, this.#known, `${this.#scope}\n${textOf(fields)}`);
  }

  #count(level: Level, message: string, fields: LogFields | undefined): void {
    const kind = this.#known.has(message) || this.#known.size < MESSAGES_MAX ? message : '';
    const variants = this.#known.get(kind) ?? new Map<string, Repeating>();
    this.#known.set(kind, variants);
    const nowMs = this.#clock.nowMs();
    const key = this.#keyOf(variants, fields, nowMs);
    const known = variants.get(key);
    if (known === undefined || isOver(known, nowMs)) {
      variants.set(key, { toldAtMs: nowMs, pauseMs: PAUSE_MS, untold: 0, fields, timer: undefined });
      this.#logger[level](message, fields);
      return;
    }
    known.untold++;
    known.fields = fields;
    const leftMs = known.toldAtMs + known.pauseMs - nowMs;
    if (known.timer === undefined) this.#tellLater(level, message, known, leftMs);
  }

  #tellLater(level: Level, message: string, known: Repeating, leftMs: number): void {
    if (waiting.size === 0) process.once('exit', tellUntold);
    const tell = (): void => {
      known.timer?.cancel();
      waiting.delete(tell);
      if (waiting.size === 0) process.off('exit', tellUntold);
      this.#tellAgain(level, message, known);
    };
    waiting.add(tell);
    known.timer = this.#clock.after(leftMs, tell);
  }

  /** The fields as text, or what stands for all that there is no room for. */
  #keyOf(variants: Map<string, Repeating>, fields: LogFields | undefined, nowMs: number): string {
    const key = `${this.#scope}\n${textOf(fields)}`;
    if (variants.has(key) || variants.size < VARIANTS_MAX) return key;
    for (const [name, known] of variants) if (isOver(known, nowMs)) variants.delete(name);
    return variants.size < VARIANTS_MAX ? key : '';
  }

  #tellAgain(level: Level, message: string, known: Repeating): void {
    const { untold, fields } = known;
    known.timer = undefined;
    known.untold = 0;
    known.toldAtMs = this.#clock.nowMs();
    known.pauseMs = Math.min(2 * known.pauseMs, PAUSE_MS_MAX);
    this.#logger[level](message, { ...fields, untold });
  }
}

/** Whether nothing was left out, and the pause is over. */
function isOver({ toldAtMs, pauseMs, untold }: Repeating, nowMs: number): boolean {
  return untold === 0 && nowMs - toldAtMs >= pauseMs;
}

function textOf(fields: LogFields | undefined): string {
  return Object.entries(fields ?? {})
    .map(([name, value]) => `${name}=${String(value).slice(0, FIELD_CHARS_MAX)}`)
    .join('\n');
}
