import { type Clock, systemClock } from '../../clock/index.ts';
import { type ErrorCode, type LimitName, limitNames, type ServeError } from '../../errors/index.ts';
import { ActiveRequest, modelTable, type RequestTypeLabel } from './active-request.ts';
import { BUCKETS, type Buckets } from './buckets.ts';
import { createRequestPlaneMetrics, type RequestPlaneMetrics } from './edge-metrics.ts';
import { defineFrontendFamilies } from './frontend-families.ts';
import {
  type EventLoopWatch,
  modelRecorder,
  stageRecorder,
  TurnClock,
  watchEventLoop,
  workerRecorder,
} from './frontend-recorders.ts';
import { exposeUptime, MetricRegistry } from './registry.ts';

/** How a request ended, for the counters. */
export type RequestOutcome =
  | { readonly status: 'success' }
  /** `errorType` is the label of the request counter: validation, not_found, overload, cancelled, ... */
  | { readonly status: 'error'; readonly errorType: string };

/** A rank of a worker, as metrics name it. */
export interface WorkerLabels {
  /** Hex. */
  readonly workerId: string;
  /** Absent = `none`. */
  readonly dpRank?: number | undefined;
  readonly workerType: 'prefill' | 'decode';
}

/**
 * Counts one request from the handler's entry to the end of its body. Per-token work is plain numbers in the meter; it is
 * folded into the registry when the request ends or the registry is scraped.
 */
export interface RequestMeter {
  /** The prompt was tokenized. */
  promptTokens(count: number): void;
  /** The worker reported how much of the prompt it had cached. */
  cachedTokens(count: number): void;
  /** Who computes its prompt and who goes on from there, mostly the same one; again after a migration. */
  servedBy(prefill: WorkerLabels, decode: WorkerLabels): void;
  /** It goes on at another worker. */
  moved(): void;
  /** One engine output with `count` tokens arrived: the first sets TTFT, later ones count inter-token latency per token. */
  outputTokens(count: number): void;
  /** A piece of text arrived whose tokens its worker counts: for TTFT and inter-token latency it is one token. */
  piece(): void;
  /** The worker says how many tokens the pieces so far hold; as long as it does not, each counts as one. Adds up over prompts. */
  piecesHold(tokens: number): void;
  /** Milliseconds since the handler's entry to the first token, once there was one. */
  readonly ttftMs: number | undefined;
  /** Of its prompt and of its answer, so far. */
  readonly tokens: number;
  /** Who answers it, or did last; undefined before it went to anybody. */
  readonly workerId: string | undefined;
  /** How often it went on at another worker. */
  readonly moves: number;
  /** Closes the books; later calls do nothing. */
  end(outcome: RequestOutcome): void;
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
  /** Counts `error` under the class and the reason that belong to it. */
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

/** Labels of the failures counter. */
interface FailureLabels {
  readonly class: string;
  readonly reason: string;
}

const INVALID: FailureLabels = { class: 'InvalidRequest', reason: 'request.invalid' };
const NOT_FOUND: FailureLabels = { class: 'NotFound', reason: 'request.not_found' };
const TOO_LARGE: FailureLabels = { class: 'PayloadTooLarge', reason: 'request.payload_too_large' };
const RATE_LIMITED: FailureLabels = { class: 'RateLimited', reason: 'request.rate_limited' };
const UNAVAILABLE: FailureLabels = { class: 'Unavailable', reason: 'backend.unavailable' };

const LABELS: Readonly<Record<ErrorCode, FailureLabels>> = {
  invalid_value: INVALID,
  missing_required_parameter: INVALID,
  unknown_parameter: INVALID,
  invalid_json: INVALID,
  context_length_exceeded: INVALID,
  unsupported_parameter: INVALID,
  method_not_allowed: INVALID,
  invalid_api_key: { class: 'Unauthenticated', reason: 'request.unauthenticated' },
  insufficient_permissions: { class: 'PermissionDenied', reason: 'request.permission_denied' },
  model_not_found: NOT_FOUND,
  not_found: NOT_FOUND,
  previous_response_not_found: NOT_FOUND,
  request_too_large: TOO_LARGE,
  headers_too_large: TOO_LARGE,
  websocket_not_supported: INVALID,
  unsupported_media_type: { class: 'UnsupportedMedia', reason: 'request.unsupported_media' },
  rate_limit_exceeded: RATE_LIMITED,
  insufficient_quota: RATE_LIMITED,
  client_closed_request: { class: 'Cancelled', reason: 'request.cancelled' },
  internal_error: { class: 'Internal', reason: 'backend.unknown' },
  bad_worker_response: { class: 'BackendProtocol', reason: 'backend.protocol' },
  not_implemented: { class: 'NotImplemented', reason: 'runtime.not_implemented' },
  server_overloaded: { class: 'CapacityExhausted', reason: 'capacity.exhausted' },
  service_unavailable: UNAVAILABLE,
  worker_lost: UNAVAILABLE,
  deadline_exceeded: { class: 'DeadlineExceeded', reason: 'request.deadline_exceeded' },
};

const MODELS_MAX_DEFAULT = 1000;

export interface FrontendMetricsOptions {
  /** `--metrics-prefix`. Default `dynamo_frontend`; characters that a metric name cannot have become `_`. */
  readonly prefix?: string;
  /** Histogram ranges. @default those of the settings' defaults */
  readonly buckets?: Buckets;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Where the metrics live, when the process has more of its own. Default: a registry of their own. */
  readonly registry?: MetricRegistry;
  /** Models with series of their own. Default 1000; later names share one, `__other__`. */
  readonly modelsMax?: number;
}

/** Makes the metrics of a frontend process, every family at zero. */
export function createFrontendMetrics(options: FrontendMetricsOptions = {}): FrontendMetrics {
  const { prefix, buckets = BUCKETS, clock = systemClock, registry = new MetricRegistry() } = options;
  const { modelsMax = MODELS_MAX_DEFAULT } = options;
  const turnClock = new TurnClock(clock);
  const families = defineFrontendFamilies(registry, prefix, buckets);
  for (const limit of limitNames) families.limitsReached.with(limit); // at zero, so that the first refusal is a rise
  const seriesOf = modelTable(families, modelsMax, () => registry.countOverflow(families.requests.name));
  const workers = workerRecorder(families, registry);
  exposeUptime(registry, clock, families.uptime);
  return {
    registry,
    requestPlane: createRequestPlaneMetrics(registry),
    startRequest({ model, endpoint, requestType, startedMs = clock.nowMs() }) {
      const series = seriesOf(model);
      const route = series.route(endpoint, requestType);
      return new ActiveRequest({ clock, turnClock, startedMs }, series, route, workers.setWorker);
    },
    rejected: (model, endpoint) => families.rejections.with(seriesOf(model).model, endpoint).add(),
    cancelled: (model, endpoint, requestType) => seriesOf(model).route(endpoint, requestType).cancellations.add(),
    disconnected: () => families.disconnected.with().add(1),
    ignoredKeys(endpoint, keys) {
      for (const key of keys) families.ignoredKeys.with(endpoint, key).add();
    },
    failed({ code }) {
      const labels = LABELS[code];
      families.failures.with(labels.class, labels.reason).add();
    },
    limitReached: (limit) => families.limitsReached.with(limit).add(),
    ...stageRecorder(families),
    ...modelRecorder(families, registry),
    ...workers,
    watchEventLoop: () => watchEventLoop(clock, families.eventLoopDelay, families.eventLoopStalls),
    contentType: registry.contentType,
    render: () => registry.render(),
  };
}
