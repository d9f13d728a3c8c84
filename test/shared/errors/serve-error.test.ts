import { describe, expect, it } from 'vitest';
import { assertNever, detailOf, reasonOf, ServeError, toServeError } from '../../../shared/errors/index.ts';

describe('ServeError', () => {
  it('asks to retry what time may mend after a second, or when told to', () => {
    expect(new ServeError('server_overloaded', 'full').retryAfterMs).toBe(1000);
    expect(new ServeError('server_overloaded', 'full', { retryAfterMs: 5000 }).retryAfterMs).toBe(5000);
    expect(new ServeError('worker_lost', 'lost').retryAfterMs).toBe(1000);
    expect(new ServeError('service_unavailable', 'none').retryAfterMs).toBe(1000);
    expect(new ServeError('insufficient_quota', 'none').retryAfterMs).toBeUndefined();
    expect(new ServeError('invalid_value', 'bad').retryAfterMs).toBeUndefined();
  });

  it('has a cause only when it was given one', () => {
    expect(new ServeError('not_found', 'gone')).not.toHaveProperty('cause');
    expect(new ServeError('not_found', 'gone', { cause: 'why' }).cause).toBe('why');
  });
});

describe('toServeError', () => {
  it('passes a failure on as it is', () => {
    const error = new ServeError('not_found', 'gone');
    expect(toServeError(error)).toBe(error);
  });

  it.each([new TypeError('x is undefined at /srv/secret.ts'), 'text', undefined, { code: 'not_found' }])(
    'reveals nothing of anything else (%s)',
    (thrown) => {
      const error = toServeError(thrown);
      expect([error.code, error.message, error.cause]).toEqual(['internal_error', 'Internal server error', thrown]);
    },
  );
});

describe('what is thrown', () => {
  it('has a human text whatever it is', () => {
    expect([reasonOf(new Error('why')), reasonOf('text'), reasonOf(undefined), reasonOf(Object.create(null))]).toEqual([
      'why',
      'text',
      'undefined',
      'unknown failure',
    ]);
  });

  it('has a text for operators with every cause, up to four, each told once', () => {
    const caused = (...texts: readonly string[]): Error | undefined =>
      texts.length === 0 ? undefined : new Error(texts[0], { cause: caused(...texts.slice(1)) });
    expect(detailOf(caused('cannot load', 'no such file'))).toBe('cannot load: no such file');
    expect(detailOf(caused('wrong', 'wrong', 'really'))).toBe('wrong: really');
    expect(detailOf(caused('a', 'b', 'c', 'd', 'e'))).toBe('a: b: c: d');
    expect(detailOf(new ServeError('internal_error', 'Internal server error', { cause: 'text' }))).toBe(
      'Internal server error: text',
    );
    expect(detailOf('text')).toBe('text');
  });

  it('names a case that slipped through', () => {
    expect(() => assertNever({ kind: 'new' } as never)).toThrow('unexpected value: {"kind":"new"}');
    expect(() => assertNever(1n as never)).toThrow('unexpected value: 1');
  });
});
