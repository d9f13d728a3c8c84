/**
 * @module concurrency
 * How many things are done at once, when, for how long, and what ends them.
 */
export { forAtMost, untilAborted, withDeadline } from './deadline.ts';
export { endOfTurn } from './end-of-turn.ts';
export { withFileLock } from './file-lock.ts';
export { type Flushable, flushAtEndOfTurn } from './flush-turn.ts';
export { inBatches } from './in-batches.ts';
export { PeriodicTask } from './periodic-task.ts';
export { Semaphore } from './semaphore.ts';
export { Serial } from './serial.ts';
export { inTurnOfItsOwn, turnOfItsOwn } from './slice-queue.ts';
export { tellWhile } from './tell-while.ts';
