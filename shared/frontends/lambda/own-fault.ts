import { ConfigError } from '../../config/index.ts';
import { codeRow, type ServeError } from '../../errors/index.ts';

const CAUSES_MAX = 4;

/**
 * Whether a function failed by what was released rather than by what is away: a mistake in the code, or settings that it refuses, also
 * where its client is told to try again because it could not start.
 */
export function isOwnFault(error: ServeError): boolean {
  if (codeRow(error.code).metric === 'internal') return true;
  let cause: unknown = error.cause;
  for (let at = 0; at < CAUSES_MAX && cause instanceof Error; at++, cause = cause.cause) {
    if (cause instanceof ConfigError || isMistake(cause)) return true;
  }
  return false;
}

/** Of the errors that the language throws itself. A `fetch` that fails throws a `TypeError` as well, for which there is a cause. */
function isMistake(error: Error): boolean {
  const isLanguage = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
  return (isLanguage && error.cause === undefined) || error.message.startsWith('broken invariant');
}
