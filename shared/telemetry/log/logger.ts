import { writeSync } from 'node:fs';
import { type Clock, systemClock } from '../../clock/index.ts';
import type { FleetSettings, ResolvedConfig } from '../../config/index.ts';
import {
  jsonLines,
  type LineWriter,
  type LogDestination,
  type LogFields,
  type LogFilter,
  type LogLevel,
  parseLogFilter,
  rankOf,
  type TextStyle,
  textLines,
} from './lines.ts';
import { countAllRepeats } from './repeats.ts';
import type { Logger, ProcessLogger } from './types.ts';

export interface LoggerOptions extends TextStyle {
  /** `DYN_LOG`. Default `info`. */
  readonly filter?: string;
  /** One JSON object a line instead of text for people. Default false. */
  readonly jsonl?: boolean;
  /** Default: standard error. */
  readonly destination?: LogDestination;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** Target of lines that are logged with the process logger itself. */
const ROOT_TARGET = 'stator';

/**
 * Makes the logger of a process.
 *
 * @throws Error with a text for the operator when `filter` cannot be read.
 * @example
 * const logger = createLogger({ filter: 'info,router=debug', jsonl: true });
 * const routerLog = logger.for('router');
 * routerLog.debug('chose a worker', { worker_id: '1f', overlap_blocks: 12 });
 */
export function createLogger(options: LoggerOptions = {}): ProcessLogger {
  const { filter = 'info', jsonl = false, destination = openStandardError(), clock = systemClock } = options;
  const lines = jsonl ? jsonLines(destination, clock, options.useLocalTime) : textLines(destination, clock, options);
  return new RootLogger([lines], parseLogFilter(filter));
}

const ERROR_RANK = rankOf('error');
const WARN_RANK = rankOf('warn');
const INFO_RANK = rankOf('info');
const DEBUG_RANK = rankOf('debug');

class TargetLogger implements Logger {
  /** Another one can be added while they are in use. */
  readonly #writers: readonly LineWriter[];
  readonly #target: string;
  readonly #rankMax: number;
  readonly #bindings: LogFields | undefined;

  constructor(writers: readonly LineWriter[], target: string, rankMax: number, bindings?: LogFields) {
    this.#writers = writers;
    this.#target = target;
    this.#rankMax = rankMax;
    this.#bindings = bindings;
  }

  get isQuiet(): boolean {
    return this.#rankMax < INFO_RANK;
  }

  debug(message: string, fields?: LogFields): void {
    if (this.#rankMax >= DEBUG_RANK) this.#write('debug', message, fields);
  }

  info(message: string, fields?: LogFields, full: LogFields | undefined = fields): void {
    if (this.#rankMax < INFO_RANK) return;
    this.#write('info', message, this.#rankMax >= DEBUG_RANK ? full : fields, full);
  }

  warn(message: string, fields?: LogFields): void {
    if (this.#rankMax >= WARN_RANK) this.#write('warn', message, fields);
  }

  error(message: string, fields?: LogFields): void {
    if (this.#rankMax >= ERROR_RANK) this.#write('error', message, fields);
  }

  with(fields: LogFields): Logger {
    const bindings = this.#bindings === undefined ? fields : { ...this.#bindings, ...fields };
    return new TargetLogger(this.#writers, this.#target, this.#rankMax, bindings);
  }

  #write(level: LogLevel, message: string, shown: LogFields | undefined, full = shown): void {
    for (const writer of this.#writers) writer.write(level, this.#target, message, this.#bindings, shown, full);
  }
}

class RootLogger extends TargetLogger implements ProcessLogger {
  readonly #all: LineWriter[];
  readonly #filter: LogFilter;

  constructor(writers: LineWriter[], filter: LogFilter) {
    super(writers, ROOT_TARGET, rankOf(filter(ROOT_TARGET)));
    this.#all = writers;
    this.#filter = filter;
  }

  for(target: string): Logger {
    return new TargetLogger(this.#all, target, rankOf(this.#filter(target)));
  }

  mirrorTo(writer: LineWriter): void {
    this.#all[1] = writer;
  }
}

/** Drops everything. */
export const silentLogger: ProcessLogger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  with: () => silentLogger,
  for: () => silentLogger,
  mirrorTo: () => {},
};

/** A line as it was logged, before secrets are hidden. */
export interface CapturedLine {
  readonly level: LogLevel;
  readonly target: string;
  readonly message: string;
  readonly fields: LogFields;
}

/** A logger that keeps its lines, of every level, for a test to look at. */
export function captureLogger(): { readonly logger: ProcessLogger; readonly lines: readonly CapturedLine[] } {
  const lines: CapturedLine[] = [];
  const writer: LineWriter = {
    write: (level, target, message, bindings, _shown, full) =>
      void lines.push({ level, target, message, fields: { ...bindings, ...full } }),
  };
  return { logger: new RootLogger([writer], parseLogFilter('trace')), lines };
}

/** Settings of a process's log. */
type LogSettings = Pick<FleetSettings, 'log' | 'loggingJsonl' | 'logUseLocalTz'>;

/** The logger of a process, as its settings ask. What repeats is counted (`countRepeats`). */
export function openLogger(settings: LogSettings, clock: Clock = systemClock): ProcessLogger {
  const isTerminal = process.stderr.isTTY === true;
  const logger = createLogger({
    filter: settings.log,
    jsonl: settings.loggingJsonl,
    useLocalTime: settings.logUseLocalTz,
    isTerminal,
    isPainted: isPainted(process.env, isTerminal),
    clock,
  });
  return countAllRepeats(logger, clock);
}

/**
 * Says whether lines have colours, by the variables that programs agree on. Any `NO_COLOR` means no colours.
 * `FORCE_COLOR` means colours even without a terminal, unless it is 0.
 */
export function isPainted(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  const { NO_COLOR: none = '', FORCE_COLOR: forced, TERM: terminal } = env;
  if (none !== '') return false;
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  return isTerminal && terminal !== 'dumb';
}

/**
 * Returns the logger of a process that talks to a person in its terminal: nothing below a warning, unless the user set
 * levels.
 */
export function openQuietLogger({
  settings,
  given,
}: ResolvedConfig<'frontend'> | ResolvedConfig<'local'>): ProcessLogger {
  return openLogger(given.has('log') ? settings : { ...settings, log: QUIET });
}

/** Level of such a process, and of those that it starts. */
export const QUIET = 'warn';

const STDERR = 2;
/** A reader that takes nothing for longer loses the rest of the line: a log must not hold up what it tells of. */
const BLOCKED_MS_MAX = 1000;
const PAUSE_MS = 10;

/**
 * Standard error, written before `write` returns: a line is never lost in a crash, and a process that is frozen between
 * requests leaves none behind. A reader that went away is not an error.
 */
export function openStandardError(): LogDestination {
  let isGone = false;
  return {
    write(line) {
      if (!isGone) isGone = !writeWhole(Buffer.from(line));
    },
  };
}

/** False when no process reads any more. */
function writeWhole(line: Buffer): boolean {
  let left = line;
  let waitedMs = 0;
  while (left.length > 0 && waitedMs < BLOCKED_MS_MAX) {
    try {
      left = left.subarray(writeSync(STDERR, left));
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'EAGAIN') return false; // EPIPE, or a descriptor that was closed
      waitedMs += PAUSE_MS;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS); // a pipe that is full: only time helps
    }
  }
  return true;
}
