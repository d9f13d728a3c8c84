import { codeRow, type ErrorCode } from './codes.ts';
import { LIMITS, type LimitName, type RefusingLimit } from './limits.ts';
import { inAnthropicWords } from './too-long.ts';
import type { WorkerErrorKind } from './worker-kinds.ts';

export interface ServeErrorOptions {
  readonly cause?: unknown;
  /** JSON path of the offending request field, e.g. `messages[0].content`. */
  readonly param?: string | undefined;
  /** Time for `Retry-After`, rounded up to seconds. Default: that of the code, if it has one. */
  readonly retryAfterMs?: number | undefined;
  /** HTTP status in place of the code's own, for a status that a worker asserted. */
  readonly status?: number | undefined;
  /**
   * Class that the worker or the request plane gave the failure. It decides whether the request moves and whether
   * routers avoid the worker.
   */
  readonly worker?: WorkerErrorKind | undefined;
  /** Limit that the request exceeded; see `overLimit`. */
  readonly limit?: LimitName | undefined;
}

/**
 * Failure that a caller can act on. `code` is part of the public contract; `message` is safe to show to a client.
 *
 * @example
 * throw new ServeError('invalid_value', 'temperature is too high', { param: 'temperature' });
 */
export class ServeError extends Error {
  override readonly name = 'ServeError';
  readonly code: ErrorCode;
  readonly param: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly assertedStatus: number | undefined;
  readonly worker: WorkerErrorKind | undefined;
  readonly limit: LimitName | undefined;

  constructor(code: ErrorCode, message: string, options: ServeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param;
    this.retryAfterMs = options.retryAfterMs ?? codeRow(code).retryAfterMs;
    this.assertedStatus = options.status;
    this.worker = options.worker;
    this.limit = options.limit;
  }

  get status(): number {
    return this.assertedStatus ?? codeRow(this.code).status;
  }
}

/**
 * Returns the failure of a request that exceeds a limit, with the code of the limit. The sender of the answer counts it
 * under the name of the limit.
 */
export function overLimit(
  limit: RefusingLimit,
  message: string,
  options: Omit<ServeErrorOptions, 'limit'> = {},
): ServeError {
  return new ServeError(LIMITS[limit].code, message, { ...options, limit });
}

/**
 * Returns any thrown value as a `ServeError`. A value that is not one becomes `internal_error` with a text that reveals
 * nothing.
 */
export function toServeError(thrown: unknown): ServeError {
  if (thrown instanceof ServeError) return thrown;
  return new ServeError('internal_error', 'Internal server error', { cause: thrown });
}

/** Returns the readable text of any thrown value, for logs and start-up messages. */
export function reasonOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  try {
    return String(thrown);
  } catch {
    return 'unknown failure'; // an object that cannot become text
  }
}

const CAUSES_MAX = 4;

/**
 * Joins `reasonOf` of a failure and of its causes, at most four in all, for operators only: `cannot load: no such
 * file`.
 */
export function detailOf(thrown: unknown): string {
  const reasons: string[] = [];
  for (let at = 0, current = thrown; current !== undefined && at < CAUSES_MAX; at++) {
    const reason = reasonOf(current);
    if (reason !== reasons.at(-1)) reasons.push(reason); // a failure often repeats the words of its cause
    current = current instanceof Error ? current.cause : undefined;
  }
  return reasons.join(': ');
}

/** Returns the error envelope of every OpenAI-family route. `code` is a string; only the HTTP status is a number. */
export interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

export function openAiErrorBody(error: ServeError): OpenAiErrorBody {
  return {
    error: {
      message: error.message,
      type: codeRow(error.code).openAiType,
      param: error.param ?? null,
      code: error.code,
    },
  };
}

/** Returns the SSE frames that end a chat or completions stream after a failure. */
export function openAiStreamError(error: ServeError): string {
  return `data: ${JSON.stringify(openAiErrorBody(error))}\n\ndata: [DONE]\n\n`;
}

export function anthropicErrorBody(error: ServeError, requestId: string): object {
  const message = error.code === 'context_length_exceeded' ? inAnthropicWords(error.message) : error.message;
  return {
    type: 'error',
    error: { type: codeRow(error.code).anthropicType, message },
    request_id: requestId,
  };
}

/**
 * Throws if a condition does not hold that always must. Such a state is a mistake in the code, and every later answer
 * would be wrong. The check costs one comparison, so it may stand on hot paths; `node:assert` with its rest arguments
 * may not.
 *
 * @param what condition that must hold, in words
 */
export function invariant(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`broken invariant: ${what}`);
}

/**
 * Ends a `switch` over a union. The code does not compile while a case is missing, and it throws for an unknown value
 * at run time.
 */
export function assertNever(value: never): never {
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  throw new Error(`unexpected value: ${text}`);
}
