import { LIMITS, type RefusingLimit } from './limits.ts';
import { ServeError, type ServeErrorOptions } from './serve-error.ts';

/**
 * The failure of a request that goes beyond a limit, with the code that the limit has. It is counted under the limit's name
 * when it is told.
 */
export function overLimit(
  limit: RefusingLimit,
  message: string,
  options: Omit<ServeErrorOptions, 'limit'> = {},
): ServeError {
  return new ServeError(LIMITS[limit].code, message, { ...options, limit });
}
