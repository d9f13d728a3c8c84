/**
 * @module telemetry
 * Logs, metrics and traces: what operators see of a process. Counting and a line that is filtered out cost nanoseconds;
 * labels and log fields are bounded, so that what clients send cannot fill the memory.
 */
export {
  type CapturedLine,
  captureLogger,
  createLogger,
  isPainted,
  type Logger,
  type LoggerOptions,
  openLogger,
  openQuietLogger,
  openStandardError,
  type ProcessLogger,
  QUIET,
  silentLogger,
} from './log/logger.ts';
export { countAllRepeats, countRepeats, tellUntold } from './log/repeats.ts';
export type { RequestMeter, RequestOutcome } from './metrics/active-request.ts';
export { bucketsOf } from './metrics/buckets.ts';
export {
  createAccessMetrics,
  createArtifactMetrics,
  createDisaggregationMetrics,
  createDiscoveryMetrics,
  createDrainMetrics,
  createHeldBytesMetrics,
  createHoldMetrics,
  createPlannerQueueMetrics,
  createRouterStateMetrics,
  createSpeculationMetrics,
  createStallMetrics,
  type PlannerQueueMetrics,
  type RequestPlaneMetrics,
  type RouterStateMetrics,
  type SharedPart,
} from './metrics/edge-metrics.ts';
export {
  createFrontendMetrics,
  type FrontendMetrics,
  type FrontendMetricsOptions,
  type RequestRoute,
} from './metrics/frontend-metrics.ts';
export type { WorkerLabels } from './metrics/frontend-recorders.ts';
export {
  countDroppedTelemetry,
  loadPrinter,
  MetricRegistry,
  metricPrefix,
  type TelemetryDropped,
} from './metrics/registry.ts';
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
export {
  createWorkerMetrics,
  type WorkerErrorType,
  type WorkerMetrics,
  type WorkerOutcome,
  type WorkerRequestMeter,
} from './metrics/worker-metrics.ts';
export { openTelemetry, type Telemetry } from './open-telemetry.ts';
export { EMBEDDED_METRICS, EMBEDDED_NAMESPACE, type EmbeddedMetric } from './records/embedded-format.ts';
export {
  EMBEDDED_MODELS_MAX,
  type EmbeddedGauges,
  EmbeddedMetrics,
  type EmbeddedMetricsOptions,
} from './records/embedded-metrics.ts';
export {
  createFileSink,
  createStreamSink,
  type FileSinkOptions,
  QueuedRecorder,
  type QueuedRecorderOptions,
  type RecordSink,
  type RequestEnd,
  type RequestRecorder,
} from './records/request-records.ts';
export { continueTrace, formatTraceparent, parseTraceparent, type TraceContext } from './trace-context.ts';
export { inSpan, logSpans, type Span, type SpanAttributes, type SpanSink, Tracer, within } from './tracing.ts';
