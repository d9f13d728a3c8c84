/**
 * @module telemetry
 * Logs, metrics and traces: what operators see of a process. Counting and a line that is filtered out cost nanoseconds;
 * labels and log fields are bounded, so that what clients send cannot fill the memory.
 */
export {
  openLogger,
  openQuietLogger,
  openStandardError,
  QUIET,
} from './log/logger.ts';
export { Progress, type ProgressOutput } from './log/progress.ts';
export { tellUntold } from './log/repeats.ts';
export type { Logger, ProcessLogger } from './log/types.ts';
export type { RequestMeter, RequestOutcome } from './metrics/active-request.ts';
export { bucketsOf } from './metrics/buckets.ts';
export {
  createAccessMetrics,
  createArtifactMetrics,
  createDemandMetrics,
  createDisaggregationMetrics,
  createDiscoveryMetrics,
  createDrainMetrics,
  createHeldBytesMetrics,
  createHeldNoteMetrics,
  createHoldMetrics,
  createPlannerQueueMetrics,
  createRouterStateMetrics,
  createSpeculationMetrics,
  createStallMetrics,
  type HeldNoteMetrics,
  type PlannerQueueMetrics,
  type RequestPlaneMetrics,
  type RouterStateMetrics,
  type SharedPart,
} from './metrics/edge-metrics.ts';
export { createFrontendMetrics, type FrontendMetrics } from './metrics/frontend-metrics.ts';
export { exposeUptime, MetricRegistry, metricPrefix } from './metrics/registry.ts';
export type { RouterWorkerType } from './metrics/router-labels.ts';
export { createRouterMetrics, type RouterMetrics, type RouterPoolMetrics } from './metrics/router-metrics.ts';
export type { WorkerLabels } from './metrics/worker-figures.ts';
export {
  createWorkerMetrics,
  type WorkerErrorType,
  type WorkerMetrics,
  type WorkerRequestMeter,
} from './metrics/worker-metrics.ts';
export { openTelemetry, type Telemetry } from './open-telemetry.ts';
export {
  EMBEDDED_METRICS,
  EMBEDDED_NAMESPACE,
  type EmbeddedMetric,
  INDEX_METRICS,
  type IndexMetric,
  PLANNER_METRICS,
  type PlannerMetric,
  POD_METRICS,
  type PodMetric,
  renderEmbedded,
} from './records/embedded-format.ts';
export { EMBEDDED_MODELS_MAX, EmbeddedMetrics } from './records/embedded-metrics.ts';
export {
  createFileSink,
  createStreamSink,
  QueuedRecorder,
  type RecordSink,
  type RequestRecorder,
} from './records/request-records.ts';
export { continueTrace, parseTraceparent, type TraceContext } from './trace-context.ts';
export { inSpan, type Span, type SpanAttributes, Tracer, within } from './tracing.ts';
