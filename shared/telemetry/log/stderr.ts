import { writeSync } from 'node:fs';
import type { LogDestination } from './lines.ts';

const STDERR = 2;
/** A reader that takes nothing for longer loses the rest of the line: a log must not hold up what it tells of. */
const BLOCKED_MS_MAX = 1000;
const PAUSE_MS = 10;

/**
 * Standard error, written before `write` returns: a line is never lost in a crash, and a process that is frozen between
 * requests leaves none behind. A reader that went away is not an error.
 */
export function openStderr(): LogDestination {
  let isGone = false;
  return {
    write(line) {
      if (!isGone) isGone = !writeWhole(Buffer.from(line));
    },
  };
}

/** False when nobody reads any more. */
function writeWhole(line: Buffer): boolean {
  let left = line;
  let waitedMs = 0;
  while (left.length > 0 && waitedMs < BLOCKED_MS_MAX) {
    try {
      left = left.subarray(writeSync(STDERR, left));
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'EAGAIN') return false; // EPIPE, or a descriptor that was closed
      waitedMs += PAUSE_MS;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS); // a pipe that is full: only time helps
    }
  }
  return true;
}
