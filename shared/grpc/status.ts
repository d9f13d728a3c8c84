import { codeRow, ServeError, toServeError } from '../errors/index.ts';

/** Numbers of the gRPC statuses in use. */
export const STATUS = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

const NAMES: ReadonlyMap<number, string> = new Map(Object.entries(STATUS).map(([name, number]) => [number, name]));

/** Returns the name of a status, as in every library of gRPC; its number if it is not in `STATUS`. */
export function statusName(status: number): string {
  return NAMES.get(status) ?? String(status);
}

type Trailers = Readonly<Record<string, string>>;

/** The status of a call that fails. */
export class GrpcStatus extends Error {
  override readonly name = 'GrpcStatus';
  readonly code: number;
  readonly trailers: Trailers;

  constructor(code: number, message: string, trailers: Trailers = {}) {
    super(message);
    this.code = code;
    this.trailers = trailers;
  }
}

/** Returns the status for anything thrown, with the time until a retry if the error names one. */
export function statusOf(thrown: unknown): GrpcStatus {
  if (thrown instanceof GrpcStatus) return thrown;
  const error = toServeError(thrown);
  return new GrpcStatus(codeRow(error.code).grpc, error.message, retryTrailers(error));
}

/** Returns the trailers by which client libraries know when to retry. */
export function retryTrailers({ retryAfterMs }: Pick<ServeError, 'retryAfterMs'>): Trailers {
  return retryAfterMs === undefined ? {} : { 'grpc-retry-pushback-ms': String(Math.ceil(retryAfterMs)) };
}

/** Most characters of a message. Some clients accept 8 KiB of metadata, all entries together. */
const MESSAGE_LENGTH_MAX = 4096;

/**
 * Returns the value of `grpc-message`: `%` and bytes outside printable ASCII become `%XX`. Cuts a text that is too
 * long.
 */
export function statusMessage(text: string): string {
  const start = text.length > MESSAGE_LENGTH_MAX ? text.slice(0, MESSAGE_LENGTH_MAX) : text;
  if (/^[\x20-\x24\x26-\x7e]*$/.test(start)) return start;
  let encoded = '';
  for (const letter of start) {
    const next = encodeLetter(letter);
    if (encoded.length + next.length > MESSAGE_LENGTH_MAX) break;
    encoded += next;
  }
  return encoded;
}

function encodeLetter(letter: string): string {
  if (/^[\x20-\x24\x26-\x7e]$/.test(letter)) return letter;
  return Array.from(Buffer.from(letter), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** Returns the milliseconds of a `grpc-timeout`; undefined if it is malformed. */
export function timeoutMsOf(header: string): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(header) ?? [];
  if (digits === undefined || unit === undefined) return undefined;
  return Number(digits) * UNIT_MS[unit]!; // `UNIT_MS` has every unit of the pattern
}

/** Returns the error of a call whose `grpc-timeout` has passed. */
export function deadlineExceeded(): ServeError {
  return new ServeError('deadline_exceeded', 'Deadline exceeded');
}
