/**
 * @module engines/mocker
 * An engine without a model or a GPU: paged KV cache, continuous batching and timing of a real one, for tests, first steps
 * and simulation. `createMockEngine` runs live; `Scheduler` is the same model without time of its own, for the simulator.
 */

export { BlockJournal } from './block-pool.ts';
export type { EngineType } from './capacity-rules.ts';
export { tcpHandoffs } from './handoffs.ts';
export { createMockEngine } from './mock-engine.ts';
export { engineModel, type KvStreamOptions, type MockEngineOptions } from './options.ts';
export { toKvEvents } from './rank.ts';
export { Scheduler, type SchedulerOptions } from './scheduler.ts';
export { type BlockNames, Sequence } from './sequence.ts';
export { passMs, readTimingProfile, type TimingModel } from './timing.ts';
export type { Thinking } from './token-cursor.ts';
export { kvBytesPerToken, type TransferModel, transferMs } from './transfers.ts';
