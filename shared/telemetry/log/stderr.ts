import { destination } from 'pino';
import type { LogDestination } from './lines.ts';

/**
 * Standard error, written before `write` returns: a line is never lost in a crash, and a process that is frozen between
 * requests leaves none behind. A reader that went away is not an error.
 */
export function openStderr(): LogDestination {
  return destination({ dest: 2, sync: true });
}
