import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../../shared/config/index.ts';
import { ServeError } from '../../../../shared/errors/index.ts';
import { isOwnFault } from '../../../../shared/frontends/index.ts';

const notStarted = (cause: unknown) => new ServeError('service_unavailable', 'could not start', { cause });

describe('what a release is taken back for', () => {
  it.each([
    ['a mistake in a handler', new ServeError('internal_error', 'Internal server error')],
    ['a start that meets a mistake', notStarted(new TypeError('x is not a function'))],
    ['a start that meets a mistake further down', notStarted(new Error('no', { cause: new ReferenceError('y') }))],
    ['a start that is refused by a setting', notStarted(new ConfigError(['DYN_LOG: no']))],
    ['a start that finds a state that cannot be', notStarted(new Error('broken invariant: a before b'))],
  ])('is %s', (_name, error) => {
    expect(isOwnFault(error)).toBe(true);
  });

  it.each([
    ['a table that is away', notStarted(new Error('DynamoDB does not answer'))],
    ['secrets that cannot be read', notStarted(new Error('STATOR_PLANE_TOKEN_SECRET: cannot read secret'))],
    ['a fetch that fails', notStarted(new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') }))],
    ['a model without workers', new ServeError('service_unavailable', 'no worker')],
    ['too many requests', new ServeError('rate_limit_exceeded', 'too many')],
    ['time that is over', new ServeError('deadline_exceeded', 'too late')],
  ])('is not %s', (_name, error) => {
    expect(isOwnFault(error)).toBe(false);
  });
});
