/**
 * @module concurrency
 * How many things are done at once, when, for how long, and what ends them.
 */
export { forAtMost, untilAborted, withDeadline } from './deadline.ts';
export { withFileLock } from './file-lock.ts';
export { inBatches } from './in-batches.ts';
export { PeriodicTask } from './periodic-task.ts';
export { Semaphore } from './semaphore.ts';
export { Serial } from './serial.ts';
export { tellWhile } from './tell-while.ts';
export { endOfTurn, type Flushable, flushAtEndOfTurn, inTurnOfItsOwn, turnOfItsOwn } from './turns.ts';
