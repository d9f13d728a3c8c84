import type { Clock } from '../../clock/index.ts';
import type { LogLevel } from './filter.ts';
import { hideSecretText, type LogFields, toLoggable } from './loggable.ts';

/** Takes finished lines. */
export interface LogDestination {
  write(line: string): void;
}

/**
 * Makes a line of what was logged: of `shown` for people, of `full` for machines. Both win over `bindings` of the same name.
 */
export interface LineWriter {
  write(
    level: LogLevel,
    target: string,
    message: string,
    bindings: LogFields | undefined,
    shown: LogFields | undefined,
    full: LogFields | undefined,
  ): void;
}

/** Names that every JSON line has for itself; a field of the same name gets an underscore behind it. */
const RESERVED: ReadonlySet<string> = new Set(['time', 'level', 'target', 'message']);

/** One JSON object a line: `level`, `time`, `target`, the fields, `message`. */
export function jsonLines(destination: LogDestination, clock: Clock, useLocalTime: boolean): LineWriter {
  return {
    write(level, target, message, bindings, _shown, full) {
      const time = timestamp(clock.wallMs(), useLocalTime);
      let line = `{"level":"${level.toUpperCase()}","time":"${time}","target":${JSON.stringify(target)}`;
      const plain = toLoggable(bindings, full);
      for (const name in plain) {
        line += `,${JSON.stringify(RESERVED.has(name) ? `${name}_` : name)}:${JSON.stringify(plain[name])}`;
      }
      destination.write(`${line},"message":${JSON.stringify(hideSecretText(message))}}\n`);
    },
  };
}

export interface TextStyle {
  /** Local time instead of UTC. */
  readonly useLocalTime: boolean;
  /** The time of the day alone. */
  readonly isTerminal: boolean;
  readonly isPainted: boolean;
}

/** One line for people: `time LEVEL target: message key=value ...`. */
export function textLines(destination: LogDestination, clock: Clock, style: TextStyle): LineWriter {
  const dim = style.isPainted ? paintDim : unpainted;
  return {
    write(level, target, message, bindings, shown) {
      const time = timestamp(clock.wallMs(), style.useLocalTime);
      const name = level.toUpperCase().padStart(5);
      const head = `${dim(style.isTerminal ? timeOfDay(time) : time)} ${style.isPainted ? COLOURS[level] + name + PLAIN : name} ${dim(`${target}:`)}`;
      let line = `${head} ${escapeControls(hideSecretText(message))}`;
      const plain = toLoggable(bindings, shown);
      for (const field in plain) line += ` ${dim(`${field}=`)}${textValue(plain[field])}`;
      destination.write(`${line}\n`);
    },
  };
}

const PLAIN = '\u001b[0m';
const COLOURS = {
  error: '\u001b[31m',
  warn: '\u001b[33m',
  info: '\u001b[32m',
  debug: '\u001b[36m',
} as const satisfies Record<LogLevel, string>;

function paintDim(text: string): string {
  return `\u001b[2m${text}${PLAIN}`;
}

function unpainted(text: string): string {
  return text;
}

/** Of an ISO time: hours to milliseconds. */
function timeOfDay(time: string): string {
  return time.slice('2023-11-14T'.length, '2023-11-14T22:13:20.000'.length);
}

/** Needs no quotes: printable ASCII without space, quote and equals sign. */
const PLAIN_TEXT = /^[!#-<>-~]+$/;
const CONTROLS = /[\p{Cc}\u2028\u2029]/gu;

function textValue(value: unknown): string {
  if (typeof value === 'number') return `${value}`;
  if (typeof value === 'string' && PLAIN_TEXT.test(value)) return value;
  return escapeControls(JSON.stringify(value));
}

/** Text from outside must neither break the line nor drive the terminal. */
function escapeControls(text: string): string {
  return text.replaceAll(CONTROLS, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** ISO 8601 in milliseconds: UTC with `Z`, or local time with its offset. */
function timestamp(wallMs: number, useLocalTime: boolean): string {
  if (!useLocalTime) return new Date(wallMs).toISOString();
  const offsetMinutes = -new Date(wallMs).getTimezoneOffset();
  const local = new Date(wallMs + offsetMinutes * 60_000).toISOString().slice(0, -1);
  const ahead = Math.abs(offsetMinutes);
  const pad = (part: number): string => `${Math.floor(part)}`.padStart(2, '0');
  return `${local}${offsetMinutes < 0 ? '-' : '+'}${pad(ahead / 60)}:${pad(ahead % 60)}`;
}
