import { STATUS_CODES } from 'node:http';
import { isRecord } from '../records/index.ts';
import type { ServeError } from './serve-error.ts';
import { saysTooLong } from './too-long.ts';
import { workerError } from './worker-errors.ts';
import type { WorkerErrorKind } from './worker-kinds.ts';

/** An error of an OpenAI-compatible server, with the fields that the server sent. */
export interface ToldFault {
  readonly message: string;
  readonly param: string | undefined;
  /** Type and code of the error in one text, which is searched for words. */
  readonly labels: string;
  /** HTTP status named by the body, for errors inside a stream. */
  readonly status: number | undefined;
}

const MESSAGE_CHARS_MAX = 2000;
/** Deepest nesting of messages in a body that is read. */
const DEPTH_MAX = 5;
const ENTRIES_MAX = 8;

/** Fields in which servers put the message, the most likely first. */
const WORDS = [
  'message',
  'Message',
  'error',
  'detail',
  'details',
  'msg',
  'error_message',
  'errorMessage',
  'errors',
  'error_description',
  'description',
  'reason',
  'title',
] as const;

/**
 * Reads an error body of any server: `{error: {message, ...}}`, the flat `{message, ...}`, `{detail}` with a text or
 * FastAPI's list of fields, `{error: "..."}`, lists of errors, problem details, a page of HTML, or plain text.
 * @param fallback message for an error that has none
 */
export function readFault(body: unknown, fallback: string): ToldFault {
  const outer = Array.isArray(body) ? body.find(isRecord) : body;
  const record = isRecord(outer) ? outer : {};
  const error = isRecord(record.error) ? record.error : record;
  const message = typeof body === 'string' ? wordsOfPage(body) : wordsIn(body, 0);
  const numbers = [error.code, error.status, error.status_code, error.statusCode, record.status, record.code];
  return {
    message: (message ?? fallback).slice(0, MESSAGE_CHARS_MAX),
    param: [error.param, fieldIn(error.detail)].find((field) => typeof field === 'string'),
    labels: [error.type, error.code, error.status, error.error_type, error.__type, record.error_type, record.type]
      .filter((label) => typeof label === 'string')
      .join(' '),
    status: numbers.map(numberOf).find((number) => Number.isInteger(number) && number >= 400 && number < 600),
  };
}

/** Accepts numbers and texts, because some servers write numbers as text. */
function numberOf(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN;
}

function wordsIn(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return value.trim() === '' ? undefined : value;
  if (depth > DEPTH_MAX) return undefined;
  if (Array.isArray(value)) {
    const all = value.slice(0, ENTRIES_MAX).flatMap((entry) => wordsIn(entry, depth + 1) ?? []);
    return all.length === 0 ? undefined : all.join('; ');
  }
  if (!isRecord(value)) return undefined;
  for (const name of WORDS) {
    const words = wordsIn(value[name], depth + 1);
    if (words === undefined) continue;
    const field = fieldOf(value.loc);
    return field === undefined ? words : `${field}: ${words}`;
  }
  return undefined;
}

/** Returns the field that the first entry of FastAPI's list names. */
function fieldIn(detail: unknown): string | undefined {
  const [first] = Array.isArray(detail) ? (detail as readonly unknown[]) : [];
  return isRecord(first) ? fieldOf(first.loc) : undefined;
}

/** Turns `["body", "messages", 0, "role"]` into `messages.0.role`. */
function fieldOf(loc: unknown): string | undefined {
  if (!Array.isArray(loc)) return undefined;
  const path = loc.filter((part) => typeof part === 'string' || typeof part === 'number');
  if (path.length > 1 && path[0] === 'body') path.shift();
  return path.length === 0 ? undefined : path.join('.');
}

/** Returns the title of a page, or the text between its tags if it has none. */
function wordsOfPage(text: string): string | undefined {
  const start = text.trimStart().slice(0, 64 * MESSAGE_CHARS_MAX);
  if (!start.startsWith('<')) return wordsIn(text, 0);
  const title = /<title>([^<]*)/i.exec(start)?.[1]?.trim();
  const words =
    title ||
    start
      .replaceAll(/<[^<>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim();
  return words || undefined;
}

/** Returns the words for an error status without a message: `502 Bad Gateway`. */
export function nameOfStatus(status: number): string {
  return STATUS_CODES[status] ?? 'no message';
}

const KIND_OF_STATUS: Readonly<Record<number, WorkerErrorKind>> = {
  // The engine refuses our own key, wants payment or does not know our route. This is a mistake of the operator, never
  // of the client.
  401: 'BackendProtocol',
  402: 'BackendProtocol',
  403: 'BackendProtocol',
  404: 'NotFound',
  405: 'BackendProtocol',
  407: 'BackendProtocol',
  408: 'ResponseTimeout',
  413: 'PayloadTooLarge',
  415: 'UnsupportedMedia',
  501: 'NotImplemented',
  502: 'WorkerUnavailable',
  503: 'WorkerUnavailable',
  504: 'WorkerUnavailable',
  529: 'WorkerOverloaded',
};

/**
 * Returns the failure for an error status of the engine.
 * @param retryAfterMs time after which the engine accepts a retry, if it named one
 */
export function faultOfStatus(status: number, fault: ToldFault, retryAfterMs?: number): ServeError {
  const diagnostics = `engine answered ${status}: ${fault.message}`;
  if (status === 429) {
    // A hosted service limits its caller. The user's own server says that it is full, and another worker may not be.
    const isLimit = /rate_?limit|quota|billing|throttl/i.test(fault.labels);
    return workerError(isLimit ? 'RateLimited' : 'WorkerOverloaded', diagnostics, { status, retryAfterMs });
  }
  const kind = KIND_OF_STATUS[status];
  if (kind !== undefined) return workerError(kind, diagnostics, { retryAfterMs });
  if (status >= 400 && status < 500) {
    return workerError('InvalidArgument', fault.message, { status, param: fault.param });
  }
  return workerError(status < 400 ? 'BackendProtocol' : 'Unknown', diagnostics);
}

/** Status for errors without one, by their words. The first entry that fits counts. */
const STATUS_OF_LABEL: readonly (readonly [RegExp, number])[] = [
  [/rate_?limit|too_?many|quota|throttl/i, 429],
  [/overloaded/i, 529],
  [/unavailable/i, 503],
  [/auth|permission|forbidden|api_key/i, 401],
  [/not_?found/i, 404],
  [
    /invalid_?request|bad_?request|validation|unprocessable|invalid_?argument|invalid_value|content_filter|context_length/i,
    400,
  ],
];

/**
 * Returns the failure for an error object in a 200 answer, inside a stream or in a whole answer, or for the text of an
 * error event.
 */
export function faultInAnswer(body: unknown): ServeError {
  const fault = readFault(body, 'no message');
  if (fault.status !== undefined) return faultOfStatus(fault.status, fault);
  const named = STATUS_OF_LABEL.find(([words]) => words.test(fault.labels))?.[1];
  if (named !== undefined) return faultOfStatus(named, fault);
  // `detail` without anything else is what FastAPI writes if it refuses a request.
  const isRefusal = isRecord(body) && body.detail !== undefined && body.error === undefined;
  if (isRefusal || saysTooLong(fault.message)) {
    return workerError('InvalidArgument', fault.message, { param: fault.param });
  }
  return workerError('Unknown', `engine failed in its answer: ${fault.message}`);
}

/** Whether an answer, or an event of one, reports a failure in any of the shapes that servers use. */
export function isFault(body: Readonly<Record<string, unknown>>): boolean {
  const { error, object, type, message, detail, code, choices } = body;
  if (saysSomething(error) || object === 'error') return true;
  if (choices !== undefined) return false;
  if (type === 'error' || saysSomething(detail)) return true;
  return typeof message === 'string' && (type !== undefined || code !== undefined || body.status !== undefined);
}

/** Returns whether `error` has content: some servers add an empty `error` to every answer. */
function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}
