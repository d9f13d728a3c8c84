import { grpcStatusOf, ServeError, toServeError } from '../errors/index.ts';

/** Numbers of gRPC's statuses that are told here. */
export const STATUS = {
  OK: 0,
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
} as const;

type Trailers = Readonly<Record<string, string>>;

/** How a call ends that does not end well. */
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

/** The status that stands for anything thrown; with when to try again, where that is known. */
export function statusOf(thrown: unknown): GrpcStatus {
  if (thrown instanceof GrpcStatus) return thrown;
  const error = toServeError(thrown);
  return new GrpcStatus(grpcStatusOf(error.code), error.message, retryTrailers(error));
}

/** What clients' libraries read of a failure that time may mend. */
export function retryTrailers({ retryAfterMs }: Pick<ServeError, 'retryAfterMs'>): Trailers {
  return retryAfterMs === undefined ? {} : { 'grpc-retry-pushback-ms': String(Math.ceil(retryAfterMs)) };
}

/** `grpc-message`: every byte that is not printable ASCII, and `%`, as `%` and two hex digits. */
export function statusMessage(text: string): string {
  if (/^[\x20-\x24\x26-\x7e]*$/.test(text)) return text;
  let encoded = '';
  for (const byte of Buffer.from(text)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** Milliseconds of a `grpc-timeout`; undefined for one that is none. */
export function timeoutMsOf(header: string): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(header) ?? [];
  return digits === undefined || unit === undefined ? undefined : Number(digits) * UNIT_MS[unit]!; // every unit of the pattern
}

/** The failure of a call that its client gave too little time. */
export function deadlineExceeded(): ServeError {
  return new ServeError('deadline_exceeded', 'Deadline exceeded');
}
