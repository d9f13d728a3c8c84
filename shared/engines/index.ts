/**
 * @module engines
 * How a worker drives its inference engine: one folder an engine behind the `Engine` seam, and its `EngineKind`, by which a
 * worker opens it; any async generator as an engine, for the worker SDK; the KV events of an engine, read from its ZeroMQ
 * sockets: in order, each once, with what was missed asked for again.
 */
export {
  createHandlerEngine,
  type HandlerContext,
  type HandlerEngineOptions,
  type HandlerOutput,
  type RequestHandler,
} from './handler-engine.ts';
export { isRefused } from './http/upstream.ts';
export { EventRelay, type EventRelayOptions } from './kv-stream/event-relay.ts';
export type { RankSource } from './kv-stream/rank-stream.ts';
export { relabelEngineMetrics } from './server/engine-metrics.ts';
export type {
  Engine,
  EngineContext,
  EngineInfo,
  EngineKind,
  EngineLoad,
  EnginePass,
  EngineRole,
  EngineSink,
  KvEvent,
  KvTier,
  ModelFacts,
  OpenedEngine,
} from './types.ts';
