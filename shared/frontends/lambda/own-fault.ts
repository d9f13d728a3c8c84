import { ConfigError } from '../../config/index.ts';
import { codeRow, type ServeError } from '../../errors/index.ts';

const CAUSES_MAX = 4;

/**
 * Returns whether a function failed because of its release rather than a service that is unavailable: a mistake in the
 * code, or settings that the function refuses. The client may still be asked to try again, because the function could
 * not start.
 */
export function isOwnFault(error: ServeError): boolean {
  if (codeRow(error.code).metric === 'internal') return true;
  let cause: unknown = error.cause;
  for (let at = 0; at < CAUSES_MAX && cause instanceof Error; at++, cause = cause.cause) {
    if (cause instanceof ConfigError || isMistake(cause)) return true;
  }
  return false;
}

/**
 * Returns whether an error is a mistake in the code: one that the language throws, or a broken invariant. A `fetch`
 * that fails also throws a `TypeError`, but that has a cause.
 */
function isMistake(error: Error): boolean {
  const isLanguage = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
  return (isLanguage && error.cause === undefined) || error.message.startsWith('broken invariant');
}
