/**
 * @module telemetry
 * Logs, metrics and traces: what operators see of a process. Counting and a line that is filtered out cost nanoseconds;
 * labels and log fields are bounded, so that what clients send cannot fill the memory.
 */

export {
  type CapturedLine,
  captureLogger,
  createLogger,
  type Logger,
  type LoggerOptions,
  type ProcessLogger,
  silentLogger,
} from './log/logger.ts';
export { isPainted, openLogger, openQuietLogger, QUIET } from './log/open-logger.ts';
export { type AccessMetrics, createAccessMetrics } from './metrics/access-metrics.ts';
export { bucketsOf } from './metrics/buckets.ts';
export { createDiscoveryMetrics } from './metrics/discovery-metrics.ts';
export {
  createArtifactMetrics,
  createDisaggregationMetrics,
  createDrainMetrics,
  createHeldBytesMetrics,
  createHoldMetrics,
  createStallMetrics,
  type HeldBytesMetrics,
  type HoldMetrics,
  type StallMetrics,
} from './metrics/flow-metrics.ts';
export type {
  FrontendMetrics,
  RequestMeter,
  RequestOutcome,
  RequestRoute,
  WorkerLabels,
} from './metrics/frontend-metrics.ts';
export { createFrontendMetrics, type FrontendMetricsOptions } from './metrics/frontend-metrics.ts';
export { createPlannerQueueMetrics, type PlannerQueueMetrics } from './metrics/planner-queue-metrics.ts';
export { countDroppedTelemetry, MetricRegistry, type TelemetryDropped } from './metrics/registry.ts';
export {
  createRouterMetrics,
  type DecisionFigures,
  type KvEventType,
  type RouterMetrics,
  type RouterMetricsOptions,
  type RouterPhase,
  type RouterPoolMetrics,
  type RouterWorkerType,
} from './metrics/router-metrics.ts';
export { createRouterStateMetrics, type RouterStateMetrics, type SharedPart } from './metrics/router-state-metrics.ts';
export {
  createWorkerMetrics,
  type WorkerErrorType,
  type WorkerMetrics,
  type WorkerOutcome,
  type WorkerRequestMeter,
} from './metrics/worker-metrics.ts';
export { openTelemetry, type Telemetry } from './open-telemetry.ts';
export { EmbeddedMetrics, type EmbeddedMetricsOptions } from './records/embedded-metrics.ts';
export { createFileSink, createStreamSink, type FileSinkOptions } from './records/record-sinks.ts';
export type { RequestEnd, RequestRecorder } from './records/request-records.ts';
export { QueuedRecorder, type QueuedRecorderOptions, type RecordSink } from './records/request-records.ts';
export { continueTrace, formatTraceparent, parseTraceparent, type TraceContext } from './trace-context.ts';
export type { Span, SpanAttributes, SpanSink } from './tracing.ts';
export { inSpan, logSpans, Tracer } from './tracing.ts';
