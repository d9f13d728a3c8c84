/**
 * @module concurrency
 * How many things are done at once.
 */
export { inBatches } from './in-batches.ts';
export { Slots } from './slots.ts';
