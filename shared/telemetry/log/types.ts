import type { LineWriter, LogFields } from './lines.ts';

/** The logger that code takes as an argument. A line that its target's level forbids costs one comparison. */
export interface Logger {
  /** Lines of level `info` are dropped: their fields need not be made. */
  readonly isQuiet?: boolean;
  debug(message: string, fields?: LogFields): void;
  /**
   * @param full what is written in place of `fields` for machines, and for people who asked for details: ids and
   * whatever makes a line long. @default `fields`
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
