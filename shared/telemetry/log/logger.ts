import { destination } from 'pino';
import { type Clock, systemClock } from '../../clock/index.ts';
import { type LogFilter, type LogLevel, parseLogFilter, rankOf } from './filter.ts';
import { BranchingWriter, jsonLines, type LineWriter, type LogDestination, textLines } from './lines.ts';
import type { LogFields } from './loggable.ts';

/** What code that logs takes as an argument. A line that its target's level forbids costs one comparison. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  /**
   * @param full what is written in place of `fields` for machines, and for people who asked for details: ids and whatever
   * makes a line long. @default `fields`
   */
  info(message: string, fields?: LogFields, full?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger that adds `fields` to each of its lines. Cheap: they are looked at only when a line is written. */
  with(fields: LogFields): Logger;
}

/** The logger of a process, from which each part takes its own. */
export interface ProcessLogger extends Logger {
  /** The logger of one part of the process: `pipeline`, `planes.tcp`. `DYN_LOG` filters by this name. */
  for(target: string): Logger;
  /** From here on every line that passes the filter goes to `writer`, too. One at a time. */
  mirrorTo(writer: LineWriter): void;
}

export interface LoggerOptions {
  /** `DYN_LOG`. Default `info`. */
  readonly filter?: string;
  /** One JSON object a line instead of text for people. Default false. */
  readonly jsonl?: boolean;
  /** Local time instead of UTC. Default false. */
  readonly useLocalTime?: boolean;
  /** Text lines are read on a terminal: their time is that of the day, without its date. Default false. */
  readonly isTerminal?: boolean;
  /** Text lines are painted. Default false. */
  readonly isPainted?: boolean;
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
  const filter = parseLogFilter(options.filter ?? 'info');
  const destination = options.destination ?? openStderr();
  const clock = options.clock ?? systemClock;
  const useLocalTime = options.useLocalTime === true;
  const { isTerminal = false, isPainted = false } = options;
  const lines =
    options.jsonl === true
      ? jsonLines(destination, clock, useLocalTime)
      : textLines(destination, clock, { useLocalTime, isTerminal, isPainted });
  return processLogger(lines, filter);
}

function processLogger(first: LineWriter, filter: LogFilter): ProcessLogger {
  const writer = new BranchingWriter(first);
  const forTarget = (target: string): Logger =>
    new TargetLogger(writer, target, rankOf(filter.levelOf(target)), undefined);
  const root = forTarget(ROOT_TARGET);
  return {
    debug: (message, fields) => root.debug(message, fields),
    info: (message, fields, full) => root.info(message, fields, full),
    warn: (message, fields) => root.warn(message, fields),
    error: (message, fields) => root.error(message, fields),
    with: (fields) => root.with(fields),
    for: forTarget,
    mirrorTo: (second) => writer.add(second),
  };
}

const ERROR_RANK = rankOf('error');
const WARN_RANK = rankOf('warn');
const INFO_RANK = rankOf('info');
const DEBUG_RANK = rankOf('debug');

class TargetLogger implements Logger {
  readonly #writer: LineWriter;
  readonly #target: string;
  readonly #rankMax: number;
  readonly #bindings: LogFields | undefined;

  constructor(writer: LineWriter, target: string, rankMax: number, bindings: LogFields | undefined) {
    this.#writer = writer;
    this.#target = target;
    this.#rankMax = rankMax;
    this.#bindings = bindings;
  }

  debug(message: string, fields?: LogFields): void {
    if (this.#rankMax >= DEBUG_RANK) this.#write('debug', message, fields);
  }

  info(message: string, fields?: LogFields, full: LogFields | undefined = fields): void {
    if (this.#rankMax < INFO_RANK) return;
    const shown = this.#rankMax >= DEBUG_RANK ? full : fields;
    this.#writer.write('info', this.#target, message, this.#bindings, shown, full);
  }

  warn(message: string, fields?: LogFields): void {
    if (this.#rankMax >= WARN_RANK) this.#write('warn', message, fields);
  }

  error(message: string, fields?: LogFields): void {
    if (this.#rankMax >= ERROR_RANK) this.#write('error', message, fields);
  }

  with(fields: LogFields): Logger {
    const bindings = this.#bindings === undefined ? fields : { ...this.#bindings, ...fields };
    return new TargetLogger(this.#writer, this.#target, this.#rankMax, bindings);
  }

  #write(level: LogLevel, message: string, fields: LogFields | undefined): void {
    this.#writer.write(level, this.#target, message, this.#bindings, fields, fields);
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
  return { logger: processLogger(writer, parseLogFilter('trace')), lines };
}

/**
 * Standard error, written before `write` returns: a line is never lost in a crash, and a process that is frozen between
 * requests leaves none behind. A reader that went away is not an error.
 */
function openStderr(): LogDestination {
  return destination({ dest: 2, sync: true });
}
