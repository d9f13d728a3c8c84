import type { Clock } from '../../clock/index.ts';
import { type FilterLevel, LOG_FILTER_ALLOWED, LOG_LEVELS, parseLogLevels } from '../../config/index.ts';
import { detailOf } from '../../errors/index.ts';

/** Takes finished lines. */
export interface LogDestination {
  write(line: string): void;
}

/**
 * Makes a line of what was logged: of `shown` for people, of `full` for machines. Both win over `bindings` of the same
 * name.
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
export function jsonLines(destination: LogDestination, clock: Clock, useLocalTime = false): LineWriter {
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

/** How text lines look. */
export interface TextStyle {
  /** Local time instead of UTC. Default false. */
  readonly useLocalTime?: boolean;
  /** They are read on a terminal: their time is that of the day, without its date. Default false. */
  readonly isTerminal?: boolean;
  /** Default false. */
  readonly isPainted?: boolean;
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

/** Returns the hours to milliseconds of an ISO time. */
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
function timestamp(wallMs: number, useLocalTime = false): string {
  if (!useLocalTime) return new Date(wallMs).toISOString();
  const offsetMinutes = -new Date(wallMs).getTimezoneOffset();
  const local = new Date(wallMs + offsetMinutes * 60_000).toISOString().slice(0, -1);
  const ahead = Math.abs(offsetMinutes);
  const pad = (part: number): string => `${Math.floor(part)}`.padStart(2, '0');
  return `${local}${offsetMinutes < 0 ? '-' : '+'}${pad(ahead / 60)}:${pad(ahead % 60)}`;
}

/** A level that a line has. */
export type LogLevel = Exclude<FilterLevel, 'off' | 'trace'>;

/** Rank of `level` in detail: a line passes when its rank is at most that of its target's level. */
export function rankOf(level: FilterLevel): number {
  return LOG_LEVELS.indexOf(level);
}

/** Which lines are written: the most detailed level that lines of a target may have. */
export type LogFilter = (target: string) => FilterLevel;

/**
 * Reads `DYN_LOG` as the configuration does, `<default>,<target>=<level>,...`; the default is `info`. The longest
 * target that names a line's target or a parent of it decides; `planes` is a parent of `planes.tcp`, `planes/tcp` and
 * `planes::tcp`.
 *
 * @throws Error that names the part it cannot read and what is allowed.
 * @example parseLogFilter('warn,pipeline=debug')('pipeline.stop') // 'debug'
 */
export function parseLogFilter(text: string): LogFilter {
  const parsed = parseLogLevels(text);
  if (!parsed.ok) throw new Error(`DYN_LOG: ${parsed.fault}; allowed: ${LOG_FILTER_ALLOWED}`);
  const { targets, others } = parsed.value;
  const longestFirst = targets.toSorted((a, b) => b.target.length - a.target.length);
  return (target) => longestFirst.find((each) => covers(each.target, target))?.level ?? others;
}

function covers(parent: string, target: string): boolean {
  return target === parent || (target.startsWith(parent) && '.:/'.includes(target.charAt(parent.length)));
}

/**
 * Fields of a line beside its message, of any value. The logger hides secrets and cuts long values before it writes.
 */
export type LogFields = Readonly<Record<string, unknown>>;

const HIDDEN = '***';
const SECRET_NAME =
  /^(.*secret.*|.*passw(or)?d|.*credentials?|(proxy-)?authorization|(set-)?cookie|(.*[-_])?(api|private)[-_]?key|((access|auth|bearer|id|refresh|session)[-_]?)?token)$/i;
/** A cheap look that nearly every text passes, before the careful one. */
const MAY_HOLD_SECRET = /bearer|[sp][kt]-|:\/\//i;
/** `Bearer abc`, `sk-abc...` keys, and `user:password@` in an address. */
const SECRET_TEXT = /\b(Bearer\s+)[\w.~+/=-]+|\b((?:sk|st|pk)-)[\w-]{12,}|(:\/\/)[^\s/@]+(?=@)/gi;

const TEXT_LENGTH_MAX = 4096;
const ENTRIES_MAX = 32;
const DEPTH_MAX = 4;
const KNOWN_NAMES_MAX = 1000;
const STACK_FRAMES_MAX = 6;

/** `text` without anything in it that looks like a key, a token or a password, and at most 4096 characters long. */
export function hideSecretText(text: string): string {
  const short = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text;
  if (!MAY_HOLD_SECRET.test(short)) return short;
  return short.replaceAll(SECRET_TEXT, (_all, bearer?: string, key?: string, address?: string) => {
    return `${bearer ?? key ?? address ?? ''}${HIDDEN}`;
  });
}

/**
 * All `sources`, later ones winning, as one record of plain JSON values: secrets hidden, errors spelled out, integers
 * of 64 bits as text, everything bounded.
 */
export function toLoggable(...sources: readonly (LogFields | undefined)[]): Record<string, unknown> {
  const plain: Record<string, unknown> = {};
  for (const source of sources) if (source !== undefined) addLoggable(plain, source, 0);
  return plain;
}

/** Field names are few and come again with every request. */
const knownNames = new Map<string, boolean>();

function isSecretName(name: string): boolean {
  let isSecret = knownNames.get(name);
  if (isSecret === undefined) {
    isSecret = SECRET_NAME.test(name);
    if (knownNames.size < KNOWN_NAMES_MAX) knownNames.set(name, isSecret);
  }
  return isSecret;
}

function addLoggable(plain: Record<string, unknown>, record: object, depth: number): void {
  let left = ENTRIES_MAX;
  for (const name of Object.keys(record)) {
    const value = (record as LogFields)[name];
    if (value === undefined) continue;
    if (left-- === 0) {
      plain['…'] = 'cut';
      break;
    }
    plain[name] = value !== null && isSecretName(name) ? HIDDEN : loggableValue(value, depth);
  }
}

function loggableValue(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return hideSecretText(value);
    case 'bigint':
    case 'symbol':
      return value.toString();
    case 'number':
      return Number.isFinite(value) ? value : `${value}`; // JSON has no NaN
    case 'function':
      return `[function ${value.name}]`;
    case 'object':
      return value === null ? null : loggableObject(value, depth + 1);
    default:
      return value;
  }
}

function loggableObject(value: object, depth: number): unknown {
  if (value instanceof Error) return loggableError(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (value instanceof URL) return hideSecretText(value.href);
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth > DEPTH_MAX) return '[…]';
  if (Array.isArray(value)) {
    const shown = value.slice(0, ENTRIES_MAX).map((entry) => loggableValue(entry, depth));
    return value.length > ENTRIES_MAX ? [...shown, `… ${value.length - ENTRIES_MAX} more`] : shown;
  }
  const plain: Record<string, unknown> = {};
  addLoggable(plain, value, depth);
  return plain;
}

/**
 * An error with its causes in one text. The stack is kept only if the failure was not foreseen: without a `code`.
 */
function loggableError(error: Error): Record<string, unknown> {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  return {
    type: error.name,
    ...(code === undefined ? {} : { code }),
    message: hideSecretText(detailOf(error)),
    ...(code === undefined ? { stack: stackFrames(error) } : {}),
  };
}

function stackFrames(error: Error): readonly string[] {
  const lines = error.stack?.split('\n') ?? [];
  const frames = lines.map((line) => line.trim()).filter((line) => line.startsWith('at '));
  return frames.slice(0, STACK_FRAMES_MAX);
}
