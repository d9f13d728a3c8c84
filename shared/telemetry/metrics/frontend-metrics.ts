import type { LimitName, ServeError } from '../../errors/index.ts';
import type { RequestMeter, WorkerLabels } from '../request-meter.ts';
import type { EventLoopWatch } from './event-loop.ts';
import type { RequestTypeLabel } from './model-series.ts';
import type { MetricRegistry } from './registry.ts';
import type { RequestPlaneMetrics } from './request-plane-metrics.ts';

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
 * The metrics of a frontend process; also the observer that the pipeline reports its steps to.
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
  /** A request had root keys that its route ignores. @param keys from a closed list: they become labels */
  ignoredKeys(endpoint: string, keys: readonly string[]): void;
  failure(failureClass: string, reason: string): void;
  /** `failure` with the labels that belong to `error`. */
  failed(error: ServeError): void;
  /** A request, or what a worker made of one, went beyond a limit. */
  limitReached(limit: LimitName): void;
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
  /** Shows what a model's card says. Never removed. */
  setModel(facts: ModelFacts): void;
  /** Where `model_ready` comes from: asked at every scrape. Aliases must not be in it. Replaces an earlier source. */
  readModelsFrom(source: () => Iterable<{ readonly model: string; readonly isReady: boolean }>): void;
  setWorker(worker: WorkerLabels, figures: WorkerFigures): void;
  /** Which workers there are: asked at every scrape, and the others are forgotten. Replaces an earlier source. */
  readWorkersFrom(source: () => Iterable<string>): void;
  /** Forgets a worker that has gone. */
  removeWorker(workerId: string): void;
  /** Starts to measure delays of the event loop. Not for functions. */
  watchEventLoop(): EventLoopWatch;
  readonly contentType: string;
  /** The text of `/metrics`. */
  render(): Promise<string>;
}
