import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCodes } from '../../../shared/errors/codes.ts';
import {
  fromWire,
  isInhibiting,
  isMigratable,
  ServeError,
  toServeError,
  toWire,
  type WireError,
  type WorkerErrorKind,
  workerError,
} from '../../../shared/errors/index.ts';

/** The classes, and whether each moves a request and keeps its worker out. */
const KINDS: Record<WorkerErrorKind, readonly [code: string, status: number, moves: boolean, inhibits: boolean]> = {
  InvalidArgument: ['invalid_value', 400, false, false],
  InvalidRequest: ['invalid_value', 400, false, false],
  NotFound: ['not_found', 404, false, false],
  PayloadTooLarge: ['request_too_large', 413, false, false],
  UnsupportedMedia: ['unsupported_media_type', 415, false, false],
  Unauthenticated: ['invalid_api_key', 401, false, false],
  PermissionDenied: ['insufficient_permissions', 403, false, false],
  RateLimited: ['rate_limit_exceeded', 429, false, false],
  Conflict: ['invalid_value', 400, false, false],
  Cancelled: ['client_closed_request', 499, false, false],
  CancelledByClient: ['client_closed_request', 499, false, false],
  NotImplemented: ['not_implemented', 501, false, false],
  ResourceExhausted: ['server_overloaded', 503, false, false],
  CapacityExhausted: ['server_overloaded', 503, false, false],
  WorkerOverloaded: ['server_overloaded', 503, true, false],
  Unavailable: ['service_unavailable', 503, false, false],
  WorkerUnavailable: ['service_unavailable', 503, true, false],
  CannotConnect: ['worker_lost', 503, true, true],
  Disconnected: ['worker_lost', 503, true, true],
  ConnectionTimeout: ['worker_lost', 503, true, true],
  EngineShutdown: ['worker_lost', 503, true, true],
  StreamIncomplete: ['worker_lost', 503, true, true],
  DeadlineExceeded: ['deadline_exceeded', 504, false, false],
  ResponseTimeout: ['deadline_exceeded', 504, true, true],
  BackendProtocol: ['bad_worker_response', 502, false, false],
  Internal: ['internal_error', 500, false, false],
  Unknown: ['internal_error', 500, false, false],
};

const kinds = Object.keys(KINDS) as WorkerErrorKind[];
const SHOWN: readonly WorkerErrorKind[] = ['InvalidArgument', 'InvalidRequest'];

/** View of a failure for a client and for the router. */
function seen(error: ServeError) {
  const { code, message, status, param, retryAfterMs } = error;
  return { code, message, status, param, retryAfterMs, moves: isMigratable(error), inhibits: isInhibiting(error) };
}

describe('a class of failure', () => {
  it.each(Object.entries(KINDS))(
    '%s has its code, status and consequences',
    (kind, [code, status, moves, inhibits]) => {
      expect(seen(workerError(kind as WorkerErrorKind))).toMatchObject({ code, status, moves, inhibits });
    },
  );

  it.each(kinds)('%s shows diagnostics to a client only when the mistake is the client’s', (kind) => {
    const error = workerError(kind, 'CUDA error at 0xdead');
    expect(error.message.includes('CUDA')).toBe(SHOWN.includes(kind));
    expect(error.cause).toBe('CUDA error at 0xdead');
  });

  it('has no consequences when no worker was involved', () => {
    const error = new ServeError('worker_lost', 'lost');
    expect([isMigratable(error), isInhibiting(error)]).toEqual([false, false]);
  });
});

describe('a worker that refuses a prompt because it is too long', () => {
  it.each([
    "This model's maximum context length is 4096 tokens. However, your prompt contains 4100 input tokens.",
    'The decoder prompt (length 8197) is longer than the maximum model length of 8192.',
    "The input (20 tokens) is longer than the model's context length (10 tokens).",
    'Input length (20 tokens) exceeds the maximum allowed length (10 tokens).',
    'the request exceeds the available context size, try increasing it',
    'Your input exceeds the context window of this model.',
    'prompt is too long: 20 tokens > 10 maximum',
    'prompt too long; exceeded max context length by 2 tokens',
  ])('has the code that clients look for: %s', (message) => {
    const error = fromWire(toWire(workerError('InvalidArgument', message, { status: 400 })));
    expect(error).toMatchObject({ code: 'context_length_exceeded', message, status: 400, worker: 'InvalidArgument' });
  });

  it('is not taken for a worker that failed', () => {
    expect(workerError('Internal', 'cannot allocate the context window').code).toBe('internal_error');
    expect(workerError('InvalidArgument', 'temperature must not be negative').code).toBe('invalid_value');
  });
});

describe('a status that a worker asserts', () => {
  it.each([
    [400, 400, 'invalid_value', 'Invalid request'],
    [401, 401, 'invalid_api_key', 'Authentication required'],
    [403, 403, 'insufficient_permissions', 'Permission denied'],
    [404, 404, 'not_found', 'Resource not found'],
    [409, 409, 'invalid_value', 'Conflict'],
    [413, 413, 'request_too_large', 'Payload too large'],
    [415, 415, 'unsupported_media_type', 'Unsupported media type'],
    [418, 418, 'invalid_value', 'Invalid request'],
    [422, 400, 'invalid_value', 'Invalid request'],
    [429, 429, 'rate_limit_exceeded', 'Rate limit exceeded'],
    [499, 499, 'client_closed_request', 'Request cancelled'],
    [500, 500, 'internal_error', 'Internal server error'],
    [501, 500, 'internal_error', 'Internal server error'],
    [502, 502, 'bad_worker_response', 'Bad gateway'],
    [503, 503, 'service_unavailable', 'Service temporarily unavailable'],
    [504, 500, 'internal_error', 'Internal server error'],
    [529, 503, 'server_overloaded', 'Service temporarily overloaded'],
    [200, 500, 'internal_error', 'Internal server error'],
    [404.5, 500, 'internal_error', 'Internal server error'],
    [Number.NaN, 500, 'internal_error', 'Internal server error'],
    [99_999, 500, 'internal_error', 'Internal server error'],
  ])('of %d without a class reads as %d %s', (asserted, status, code, message) => {
    for (const kind of ['Unknown', 'Internal'] as const) {
      const error = fromWire({ kind, message: 'worker says no', status: asserted });
      expect(seen(error)).toMatchObject({ status, code, message });
      expect(error.cause).toBe('worker says no');
    }
  });

  it.each([401, 403, 404, 409, 413, 415, 429, 499])('of %d survives the way over the wire', (status) => {
    const error = workerError('Unknown', 'no', { status });
    expect(seen(fromWire(toWire(error)))).toEqual(seen(error));
  });

  it('stands beside the text of a client’s mistake', () => {
    const error = fromWire({ kind: 'InvalidArgument', message: 'n is too large', status: 422, param: 'n' });
    expect(seen(error)).toMatchObject({ code: 'invalid_value', status: 400, message: 'n is too large', param: 'n' });
    expect(fromWire({ kind: 'InvalidArgument', message: 'gone', status: 410 }).status).toBe(410);
    expect(fromWire({ kind: 'InvalidArgument', message: 'no', status: 500 }).status).toBe(400);
  });

  it('gives way to a class that says more', () => {
    expect(fromWire({ kind: 'WorkerOverloaded', message: 'full', status: 404 }).code).toBe('server_overloaded');
    expect(isMigratable(fromWire({ kind: 'Disconnected', message: 'reset', status: 500 }))).toBe(true);
  });
});

describe('a message that is JSON', () => {
  const arrived = (kind: WorkerErrorKind, packed: object) =>
    seen(fromWire({ kind, message: JSON.stringify(packed), param: 'n' }));

  it('is opened: a client reads its text', () => {
    expect(arrived('InvalidArgument', { message: 'n is too large' })).toMatchObject({
      code: 'invalid_value',
      status: 400,
      message: 'n is too large',
      param: 'n',
    });
    expect(arrived('InvalidArgument', { message: 'gone', code: 410 })).toMatchObject({ status: 410, message: 'gone' });
    expect(arrived('InvalidArgument', { message: 'odd', code: 422 })).toMatchObject({ status: 400, message: 'odd' });
  });

  it('never reaches a client as it is', () => {
    for (const packed of [{ detail: 'secret' }, { message: 5 }, { message: '' }, {}]) {
      expect(arrived('InvalidArgument', packed)).toMatchObject({ status: 400, message: 'Invalid request' });
    }
  });

  it('says by its number what the class leaves open, and that a mistake is the worker’s own', () => {
    expect(arrived('Unknown', { message: 'x', code: 503 })).toMatchObject({ code: 'service_unavailable' });
    expect(arrived('Internal', { code: 429 })).toMatchObject({ code: 'rate_limit_exceeded', status: 429 });
    expect(arrived('InvalidArgument', { message: 'secret', code: 503 })).toMatchObject({
      code: 'service_unavailable',
      message: 'Service temporarily unavailable',
    });
    expect(arrived('InvalidArgument', { message: 'secret', code: 500 })).toMatchObject({
      code: 'internal_error',
      message: 'Internal server error',
    });
    expect(arrived('ResourceExhausted', { message: 'full', code: 400 })).toMatchObject({ code: 'server_overloaded' });
  });

  it.each(['{not JSON', '["list"]', '"text"'])('is plain text when it is no object: %s', (message) => {
    expect(fromWire({ kind: 'InvalidArgument', message }).message).toBe(message);
  });
});

describe('the way over the wire', () => {
  const failure = fc
    .record({
      kind: fc.constantFrom(...kinds),
      text: fc.string(),
      status: fc.option(fc.integer({ min: 100, max: 700 }), { nil: undefined }),
      param: fc.option(fc.string(), { nil: undefined }),
      retryAfterMs: fc.option(fc.nat(), { nil: undefined }),
    })
    .map(({ kind, text, ...options }) => workerError(kind, text, options));

  it('changes nothing that a client or the router sees, once or twice', () => {
    fc.assert(
      fc.property(failure, (error) => {
        const once = fromWire(JSON.parse(JSON.stringify(toWire(error))) as WireError);
        expect(seen(once)).toEqual(seen(error));
        expect(seen(fromWire(toWire(once)))).toEqual(seen(error));
      }),
    );
  });

  it('brings the diagnostics to the operator', () => {
    const wire = toWire(workerError('EngineShutdown', new Error('core dumped')));
    expect(wire).toMatchObject({ kind: 'EngineShutdown', message: 'core dumped' });
    expect(fromWire(wire).cause).toBe('core dumped');
  });

  it.each(errorCodes)('keeps code and text of %s that a worker’s own code raised', (code) => {
    const error = new ServeError(code, 'text', { param: 'n', retryAfterMs: 5000 });
    expect(fromWire(JSON.parse(JSON.stringify(toWire(error))) as WireError)).toMatchObject({
      code,
      message: 'text',
      param: 'n',
      status: error.status,
      retryAfterMs: 5000,
    });
  });

  it('reads a code that it does not know by the class beside it', () => {
    expect(fromWire({ kind: 'RateLimited', message: 'secret', code: 'new_code' })).toMatchObject({
      code: 'rate_limit_exceeded',
      message: 'Rate limit exceeded',
    });
  });

  it('tells a client nothing of what a worker let fall', () => {
    const arrived = fromWire(toWire(toServeError(new TypeError('x is undefined at /srv/secret.ts'))));
    expect(arrived).toMatchObject({ code: 'internal_error', message: 'Internal server error' });
    expect(arrived.cause).toBe('x is undefined at /srv/secret.ts');
  });

  it('lets a client read the text of its mistake, not what caused it', () => {
    const error = new ServeError('context_length_exceeded', 'too long', { cause: new Error('stack of the parser') });
    expect(fromWire(toWire(error)).message).toBe('too long');
  });

  it('does not take a deadline of the request for a silent worker', () => {
    expect(isMigratable(fromWire(toWire(new ServeError('deadline_exceeded', 'late'))))).toBe(false);
  });

  it.each(['Nonsense', 'toString', '__proto__', ''])('reads the class %j as Unknown', (kind) => {
    const error = fromWire({ kind: kind as WorkerErrorKind, message: 'text' });
    expect(error).toMatchObject({ code: 'internal_error', worker: 'Unknown', message: 'Internal server error' });
  });

  it('takes anything that was thrown', () => {
    expect(toWire(new TypeError('x'))).toEqual({ kind: 'Unknown', message: 'x' });
    expect(toWire(undefined)).toEqual({ kind: 'Unknown', message: 'undefined' });
  });
});
