/**
 * @module engines/mocker
 * An engine without a model or a GPU: paged KV cache, continuous batching and timing of a real one, for tests, first steps
 * and simulation. `createMockEngine` runs live; `Scheduler` is the same model without time of its own, for the simulator.
 */

export type { EngineType } from './capacity-rules.ts';
export { engineModel } from './engine-model.ts';
export { memoryHandoffs } from './handoff/handoffs.ts';
export { tcpHandoffs } from './handoff/tcp-handoffs.ts';
export { kvBytesPerToken } from './kv-bytes.ts';
export { createMockEngine } from './mock-engine.ts';
export type { KvStreamOptions, MockEngineOptions } from './options.ts';
export { readTimingProfile } from './profile/read-profile.ts';
export { KvJournal } from './rank.ts';
export { Scheduler, type SchedulerOptions } from './scheduler.ts';
export { type BlockNames, Sequence } from './sequence.ts';
export type { Thinking } from './thinking-cursor.ts';
export type { TimingModel } from './timing.ts';
export { passMs } from './timing.ts';
export { type TransferModel, transferMs } from './transfers.ts';
