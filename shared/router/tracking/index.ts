/**
 * @module router/tracking
 * Names of the blocks of running requests that depend on a key (`--router-tracking-hash keyed-xxh3-v1`).
 */
export { KEY_BYTES } from './blake3.ts';
export { createKeyedTracking, seedsOf, type TrackingHash, type TrackingKey } from './keyed-tracking.ts';
