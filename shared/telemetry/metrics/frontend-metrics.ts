import { type Clock, systemClock } from '../../clock/index.ts';
import type { ServeError } from '../../errors/index.ts';
import { type Logger, silentLogger } from '../log/logger.ts';
import type { RequestMeter } from '../request-meter.ts';
import { ActiveRequest } from './active-request.ts';
import type { BucketOverrides } from './buckets.ts';
import { type EventLoopWatch, watchEventLoop } from './event-loop.ts';
import { failureLabelsOf } from './failure-labels.ts';
import { defineFrontendFamilies } from './frontend-families.ts';
import { modelRecorder, stageRecorder, workerRecorder } from './frontend-recorders.ts';
import { ModelSeriesTable, type RequestTypeLabel } from './model-series.ts';
import { MetricRegistry } from './registry.ts';
import { createRequestPlaneMetrics, type RequestPlaneMetrics } from './request-plane-metrics.ts';
import { TurnClock } from './turn-clock.ts';
import { exposeUptime } from './uptime.ts';

const MODELS_MAX_DEFAULT = 1000;

export interface FrontendMetricsOptions {
  /** `--metrics-prefix`. Default `dynamo_frontend`; characters that a metric name cannot have become `_`. */
  readonly prefix?: string;
  /** Histogram ranges that the configuration sets. */
  readonly buckets?: BucketOverrides;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Where the metrics live, when the process has more of its own. Default: a registry of their own. */
  readonly registry?: MetricRegistry;
  /** Hears of bucket settings that make no sense. Default: nobody. */
  readonly logger?: Logger;
  /** Models with series of their own. Default 1000; later names share one, `__other__`. */
  readonly modelsMax?: number;
}

/** Labels of a request. */
export interface RequestRoute {
  readonly model: string;
  /** `chat_completions`, `completions`, ... */
  readonly endpoint: string;
  readonly requestType: RequestTypeLabel;
  /** When the handler was entered, on the metrics' clock, if the model was not known then. Default now. */
  readonly startedMs?: number;
}

/** What a model's card says; a fact left out is not shown. */
export interface ModelFacts {
  readonly model: string;
  readonly totalKvBlocks?: number | undefined;
  readonly maxNumSeqs?: number | undefined;
  readonly maxNumBatchedTokens?: number | undefined;
  readonly contextLength?: number | undefined;
  readonly kvCacheBlockSize?: number | undefined;
  readonly migrationLimit?: number | undefined;
}

export interface WorkerLabels {
  /** Hex. */
  readonly workerId: string;
  /** Absent = `none`. */
  readonly dpRank?: number | undefined;
  readonly workerType: 'prefill' | 'decode';
}

/** The last request's figures and the present load of a worker; what is left out keeps its value. */
export interface WorkerFigures {
  readonly activeDecodeBlocks?: number;
  readonly activePrefillTokens?: number;
  readonly lastTtftMs?: number;
  readonly lastInputTokens?: number;
  readonly lastItlMs?: number;
}

export type StageLabel = 'preprocess' | 'route' | 'dispatch';
export type TimedStageLabel = 'preprocess' | 'route' | 'transport_roundtrip' | 'postprocess';
export type PhaseLabel = 'prefill' | 'decode' | 'aggregated' | '';
export type MigrationType = 'new_request' | 'ongoing_request';

/**
 * The metrics of a frontend process (http-api.md, section 16); also the observer that the pipeline reports its steps to.
 * Nothing here throws or waits, apart from `render`.
 */
export interface FrontendMetrics {
  readonly registry: MetricRegistry;
  readonly requestPlane: RequestPlaneMetrics;
  /** Opens the books of one request. All its times count from the handler's entry. */
  startRequest(route: RequestRoute): RequestMeter;
  /** Every worker was full. */
  rejected(model: string, endpoint: string): void;
  cancelled(model: string, endpoint: string, requestType: RequestTypeLabel): void;
  /** A client left before its response had ended. */
  disconnected(): void;
  failure(failureClass: string, reason: string): void;
  /** `failure` with the labels that belong to `error`. */
  failed(error: ServeError): void;
  /** A request is in `stage`, until `stageLeft` with the same arguments. `phase` defaults to none. */
  stageEntered(stage: StageLabel, phase?: PhaseLabel): void;
  stageLeft(stage: StageLabel, phase?: PhaseLabel): void;
  /** A request was in `stage` for so long. */
  stage(stage: TimedStageLabel, durationMs: number): void;
  /** A prompt was tokenized, a chat template rendered. */
  tokenize(durationMs: number): void;
  template(durationMs: number): void;
  /** Once a request: all the time it spent turning `tokenCount` tokens into text. */
  detokenize(totalMs: number, tokenCount: number): void;
  /** A prompt was tokenized, `cachedTokens` of it from the tokenizer's cache. */
  tokenizerCache(model: string, cachedTokens: number, uncachedTokens: number): void;
  /** Once per embeddings request that succeeded. */
  embedded(model: string, durationMs: number): void;
  migrated(model: string, type: MigrationType): void;
  migrationTook(model: string, type: MigrationType, outcome: string, durationMs: number): void;
  /** A request was too long to be moved to another worker. */
  migrationTooLong(model: string): void;
  /** Shows what a model's card says. Never removed (http-api.md, section 16.1). */
  setModel(facts: ModelFacts): void;
  /** Where `model_ready` comes from: asked at every scrape. Aliases must not be in it. Replaces an earlier source. */
  readModelsFrom(source: () => Iterable<{ readonly model: string; readonly isReady: boolean }>): void;
  setWorker(worker: WorkerLabels, figures: WorkerFigures): void;
  /** Forgets a worker that has gone. */
  removeWorker(workerId: string): void;
  /** Starts to measure delays of the event loop. Not for functions. */
  watchEventLoop(): EventLoopWatch;
  readonly contentType: string;
  /** The text of `/metrics`. */
  render(): Promise<string>;
}

export function createFrontendMetrics(options: FrontendMetricsOptions = {}): FrontendMetrics {
  const clock = options.clock ?? systemClock;
  const turnClock = new TurnClock(clock);
  const registry = options.registry ?? new MetricRegistry();
  const families = defineFrontendFamilies(registry, {
    prefix: options.prefix,
    buckets: options.buckets ?? {},
    logger: options.logger ?? silentLogger,
  });
  const models = new ModelSeriesTable(families, options.modelsMax ?? MODELS_MAX_DEFAULT, () =>
    registry.countOverflow(families.requests.name),
  );
  exposeUptime(registry, clock, families.uptime.with());
  return {
    registry,
    requestPlane: createRequestPlaneMetrics(registry, () => {}), // it calls, it does not serve
    startRequest({ model, endpoint, requestType, startedMs = clock.nowMs() }) {
      const series = models.of(model);
      return new ActiveRequest({ clock, turnClock, startedMs }, series, series.route(endpoint, requestType));
    },
    rejected: (model, endpoint) => families.rejections.with(models.of(model).model, endpoint).add(),
    cancelled: (model, endpoint, requestType) => models.of(model).route(endpoint, requestType).cancellations.add(),
    disconnected: () => families.disconnected.with().add(1),
    failure: (failureClass, reason) => families.failures.with(failureClass, reason).add(),
    failed(error) {
      const labels = failureLabelsOf(error);
      families.failures.with(labels.class, labels.reason).add();
    },
    ...stageRecorder(families),
    ...modelRecorder(families, registry),
    ...workerRecorder(families),
    watchEventLoop: () => watchEventLoop(clock, families.eventLoopDelay.with(), families.eventLoopStalls.with()),
    contentType: registry.contentType,
    render: () => registry.render(),
  };
}
