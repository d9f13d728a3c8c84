/**
 * @module engines Drivers by which a worker runs its inference engine. There is one folder for each engine behind the
 * `Engine` seam, with its `EngineKind`, by which a worker opens it. An async generator can be an engine too, for the
 * worker SDK. KV events of an engine are read from its ZeroMQ sockets: in order, each once, and missed ones are
 * requested again. The mock engine's `Scheduler` has no time of its own, so the simulator uses it too.
 */
export { createHandlerEngine, type HandlerContext, type HandlerOutput, type RequestHandler } from './handler-engine.ts';
export { isRefused } from './http/upstream.ts';
export { engineKind } from './kinds.ts';
export { type KvCacheReports, KvEventReports, type RemovedBlocks, type StoredBlocks } from './kv-reports.ts';
export { EventRelay } from './kv-stream/event-relay.ts';
export { BlockJournal } from './mocker/block-pool.ts';
export { engineModel } from './mocker/options.ts';
export { toKvEvents } from './mocker/rank.ts';
export { Scheduler, type SchedulerOptions } from './mocker/scheduler.ts';
export { type BlockNames, Sequence } from './mocker/sequence.ts';
export { passMs, readTimingProfile } from './mocker/timing.ts';
export { type TransferModel, transferMs } from './mocker/transfers.ts';
export { relabelEngineMetrics } from './server/engine-metrics.ts';
export type {
  Engine,
  EngineInfo,
  EngineKind,
  EngineLoad,
  EnginePass,
  EngineSink,
  KvEvent,
  ModelFacts,
  OpenedEngine,
} from './types.ts';
