import { detailOf } from '../../errors/index.ts';

/** What a line says beside its message. Any value; secrets are hidden and long ones cut before they are written. */
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
 * All `sources`, later ones winning, as one record of plain JSON values: secrets hidden, errors spelled out, integers of 64
 * bits as text, everything bounded.
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

/** An error with its causes in one text. The stack is kept only where the failure was not foreseen: without a `code`. */
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
