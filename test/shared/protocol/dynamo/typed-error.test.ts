import { describe, expect, it } from 'vitest';
import { detailOf, isMigratable } from '../../../../shared/errors/index.ts';
import { readTypedError } from '../../../../shared/protocol/index.ts';

describe('an error that a worker of Dynamo reports', () => {
  it.each([
    ['InvalidArgument', 'invalid_value', false],
    ['ResourceExhausted', 'server_overloaded', false],
    ['WorkerOverloaded', 'server_overloaded', true],
    ['Unavailable', 'service_unavailable', false],
    ['WorkerUnavailable', 'service_unavailable', true],
    ['Disconnected', 'worker_lost', true],
    ['ConnectionTimeout', 'worker_lost', true],
    ['ResponseTimeout', 'deadline_exceeded', true],
    ['Cancelled', 'client_closed_request', false],
    [{ Backend: 'EngineShutdown' }, 'worker_lost', true],
    [{ Backend: 'StreamIncomplete' }, 'worker_lost', true],
    [{ Backend: 'InvalidArgument' }, 'invalid_value', false],
    [{ Backend: 'Unknown' }, 'internal_error', false],
    ['AClassOfALaterRelease', 'internal_error', false],
  ])('of class %j is %s', (error_type, code, moves) => {
    const error = readTypedError({ error: 'x', typed_error: { error_type, message: 'x' } });
    expect([error.code, isMigratable(error)]).toEqual([code, moves]);
  });

  it.each([
    ['capacity.worker_overloaded', 'ResourceExhausted', 'CapacityExhausted', 'WorkerOverloaded'],
    ['request.payload_too_large', 'InvalidArgument', 'PayloadTooLarge', 'PayloadTooLarge'],
    ['transport.disconnected', 'Disconnected', 'Unavailable', 'Disconnected'],
    ['a.later.reason', 'Unknown', 'NotFound', 'NotFound'],
  ])('with reason %s has the class that says most', (reason, error_type, canonical, worker) => {
    const error = { error_type, class: canonical, reason, message: '' };
    expect(readTypedError({ event: 'error', error }).worker).toBe(worker);
  });

  it('takes its class from the first cause that says something, and all texts to the log', () => {
    const cause = { error_type: 'Disconnected', message: 'reset by peer' };
    const error = readTypedError({
      error: 'x',
      typed_error: { error_type: 'Unknown', message: 'failed', caused_by: cause },
    });
    expect(error.worker).toBe('Disconnected');
    expect(error.message).not.toContain('reset');
    expect(detailOf(error)).toContain('failed: reset by peer');
  });

  it('tells the client its own mistake, in the public text if there is one', () => {
    const typed = { error_type: 'InvalidArgument', message: 'prompt of 9 tokens' };
    expect(readTypedError({ error: 'x', typed_error: typed }).message).toBe('prompt of 9 tokens');
    const shown = { ...typed, public: { type: 'message', message: 'too long' } };
    expect(readTypedError({ error: 'x', typed_error: shown }).message).toBe('too long');
  });

  it('has only its text before release 1.5', () => {
    const error = readTypedError({ error: 'no such adapter' });
    expect([error.code, error.message, detailOf(error)]).toMatchObject([
      'internal_error',
      'Internal server error',
      expect.stringContaining('no such adapter'),
    ]);
    expect(detailOf(readTypedError({ event: 'error', comment: ['a', 'b'] }))).toContain('a, b');
  });

  it('may be anything, also a chain without an end', () => {
    const loop: Record<string, unknown> = { error_type: 7, message: 'x'.repeat(100_000) };
    loop.caused_by = loop;
    expect(readTypedError({ typed_error: loop }).code).toBe('internal_error');
    expect(detailOf(readTypedError({ typed_error: loop })).length).toBeLessThan(5000);
    for (const odd of [undefined, null, 7, 'x', [], {}, { typed_error: [] }]) {
      expect(readTypedError(odd).code).toBe('internal_error');
    }
  });
});
