import type { Failure } from './expectation.ts';
import type { RecordedRow } from './records.ts';

/** Failures of a worker as the table of errors has them, by the type of the exception. */
const BY_TYPE: Readonly<Record<string, Failure>> = {
  WorkerUnavailable: { status: 503, message: 'Service temporarily unavailable' },
  CannotConnect: { status: 503, message: 'Service temporarily unavailable', code: 'worker_lost' },
  EngineShutdown: { status: 503, message: 'Service temporarily unavailable', code: 'worker_lost' },
  StreamIncomplete: { status: 503, message: 'Service temporarily unavailable', code: 'worker_lost' },
  Cancelled: { status: 499, message: 'Request cancelled' },
};

/** Failures by the status that the worker asserts. */
const BY_STATUS: Readonly<Record<number, Failure>> = {
  401: { status: 401, message: 'Authentication required' },
  403: { status: 403, message: 'Permission denied' },
  404: { status: 404, message: 'Resource not found' },
  409: { status: 409, message: 'Conflict' },
  413: { status: 413, message: 'Payload too large' },
  415: { status: 415, message: 'Unsupported media type' },
  429: { status: 429, message: 'Rate limit exceeded' },
  499: { status: 499, message: 'Request cancelled' },
  502: { status: 502, message: 'Bad gateway' },
  503: { status: 503, message: 'Service temporarily unavailable' },
  529: { status: 503, message: 'Service temporarily overloaded' },
};

const MISTAKES: ReadonlySet<string> = new Set(['ValueError', 'TypeError', 'InvalidArgument']);

/** Returns the failure that a client receives when the worker raises an exception, or undefined if it raises none. */
export function failureOf({ script }: RecordedRow): Failure | undefined {
  const raise = script?.raise;
  if (raise === undefined) return undefined;
  const { type, code, msg } = raise;
  const packed = unpacked(msg);
  if (type === 'HttpError' && code !== undefined && ![400, 422].includes(code)) return ofStatus(code);
  if (MISTAKES.has(type) || type === 'HttpError') {
    if (packed?.code !== undefined && (packed.code < 400 || packed.code >= 500)) return ofStatus(packed.code);
    const told = packed === undefined ? msg : (packed.message ?? 'Invalid request');
    return { status: statusOf(packed?.code), message: told, told, code: 'invalid_value' };
  }
  return BY_TYPE[type] ?? ofStatus(packed?.code ?? 500);
}

function ofStatus(status: number): Failure {
  const known = BY_STATUS[status];
  if (known !== undefined) return { param: null, ...known };
  const isMistake = status >= 400 && status < 500;
  return isMistake
    ? {
        status: statusOf(status),
        message: 'Invalid request',
        told: 'Invalid request',
        code: 'invalid_value',
        param: null,
      }
    : { status: 500, message: 'Internal server error' };
}

function statusOf(asserted: number | undefined): number {
  return asserted === undefined || asserted === 422 ? 400 : asserted;
}

/** Parses a message that is JSON. */
function unpacked(text: string): { readonly message?: string; readonly code?: number } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
