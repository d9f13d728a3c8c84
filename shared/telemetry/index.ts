/**
 * @module telemetry
 * Logs, metrics and traces: what operators see of a process. Counting and a line that is filtered out cost nanoseconds;
 * labels and log fields are bounded, so that what clients send cannot fill the memory.
 */

export type { LogDestination } from './log/lines.ts';
export type { LogFields } from './log/loggable.ts';
export {
  type CapturedLine,
  captureLogger,
  createLogger,
  type Logger,
  type LoggerOptions,
  type ProcessLogger,
  silentLogger,
} from './log/logger.ts';
export { createRequestLogger, type RequestIdentity } from './log/request-logger.ts';
export type { BucketOverrides, BucketRange, BucketSet } from './metrics/buckets.ts';
export type { EventLoopWatch } from './metrics/event-loop.ts';
export type {
  MigrationType,
  ModelFacts,
  PhaseLabel,
  RequestRoute,
  StageLabel,
  TimedStageLabel,
  WorkerFigures,
  WorkerLabels,
} from './metrics/frontend-metrics.ts';
export {
  createFrontendMetrics,
  type FrontendMetrics,
  type FrontendMetricsOptions,
} from './metrics/frontend-metrics.ts';
export type { RequestTypeLabel } from './metrics/model-series.ts';
export { type MetricFamily, MetricRegistry, type MetricRegistryOptions } from './metrics/registry.ts';
export type { RequestPlaneMetrics } from './metrics/request-plane-metrics.ts';
export type { Counter, Gauge, Histogram } from './metrics/series.ts';
export {
  createWorkerMetrics,
  type WorkerErrorType,
  type WorkerMetrics,
  type WorkerMetricsOptions,
  type WorkerOutcome,
  type WorkerRequestMeter,
} from './metrics/worker-metrics.ts';
export type { RequestMeter, RequestOutcome } from './request-meter.ts';
export {
  continueTrace,
  formatTraceparent,
  parseTraceparent,
  type TraceContext,
  type TraceHeaders,
} from './trace-context.ts';
