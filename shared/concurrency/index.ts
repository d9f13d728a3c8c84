/**
 * @module concurrency
 * How many things happen at the same time, when, for how long, and what ends them.
 */
export { inBatches, RateBudget, Semaphore } from './at-once.ts';
export { afterSocketsAreRead, forAtMost, tellWhile, untilAborted, withDeadline } from './deadline.ts';
export { withEither } from './either-signal.ts';
export { FileLock, type StillHeld } from './file-lock.ts';
export { Lifetime } from './lifetime.ts';
export { networkOf, reachableAddresses } from './networks.ts';
export { OpenOnce } from './open-once.ts';
export { PeriodicTask } from './periodic-task.ts';
export { readText } from './read-text.ts';
export { connectionArrived, hasTurnRoom, spendOfTurn, whenTurnHasRoom } from './turn-room.ts';
export { endOfTurn, type Flushable, flushAtEndOfTurn, inTurnOfItsOwn, turnOfItsOwn } from './turns.ts';
