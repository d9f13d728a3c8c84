/**
 * @module concurrency
 * How many things are done at once, and when.
 */
export { endOfTurn } from './end-of-turn.ts';
export { inBatches } from './in-batches.ts';
export { Slots } from './slots.ts';
