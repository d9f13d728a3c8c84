import type { Clock } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { ConsoleObserver } from '../../console/index.ts';
import {
  type PipelineObserver,
  type PromptObserver,
  type RequestObserver,
  type RoutableModel,
  setsOf,
  type WorkerObserver,
} from '../../pipeline/index.ts';
import { createStallMetrics, type FrontendMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';

type ModelFacts = Parameters<FrontendMetrics['setModel']>[0];

interface ModelGaugesOptions {
  readonly clock: Clock;
  /** Interval after which known models are shown again, in milliseconds; undefined = at every change. */
  readonly intervalMs: number | undefined;
  /** Returns the current models. */
  list(): readonly ModelFacts[];
  show(facts: ModelFacts): void;
}

/**
 * Shows values of the models' cards as gauges. A new model appears at once; changes of a model appear after the
 * interval (`DYN_HTTP_SVC_CONFIG_METRICS_POLL_INTERVAL_SECS`). A model that has gone keeps its gauges.
 */
export class ModelGauges {
  readonly #options: ModelGaugesOptions;
  readonly #shown = new Set<string>(); // as many as the registry has series
  readonly #stop: () => void;

  constructor(options: ModelGaugesOptions) {
    this.#options = options;
    const { clock, intervalMs } = options;
    const timer = intervalMs === undefined ? undefined : clock.every(intervalMs, () => this.#showAll());
    this.#stop = () => timer?.cancel();
  }

  /** Takes note that the set of models, or one of them, has changed. */
  changed(): void {
    const { intervalMs, list } = this.#options;
    if (intervalMs === undefined) this.#showAll();
    else for (const facts of list()) if (!this.#shown.has(facts.model)) this.#show(facts);
  }

  close(): void {
    this.#stop();
  }

  #showAll(): void {
    for (const facts of this.#options.list()) this.#show(facts);
  }

  #show(facts: ModelFacts): void {
    this.#shown.add(facts.model);
    this.#options.show(facts);
  }
}

/** Returns an observer that counts and logs workers that fall silent. */
export function stallObserver(registry: MetricRegistry, logger: Logger): PipelineObserver {
  const metrics = createStallMetrics(registry);
  return {
    workerStalled: (model, workerId) => {
      metrics.workerStalled(model);
      logger.warn('worker is silent: no new requests until a canary passes', { model, worker_id: workerId });
    },
    workerRecovered: (model, workerId) => {
      metrics.workerRecovered(model);
      logger.info('worker is no longer in doubt', { model, worker_id: workerId });
    },
    canary: (outcome) => metrics.canary(outcome),
  };
}

/** Returns the values of a model's card that its gauges show. */
export function factsOf({ name, card, pool, contextLength }: RoutableModel, settings: EdgeSettings): ModelFacts {
  const { runtime_config: runtime } = card;
  return {
    model: name,
    totalKvBlocks: runtime.total_kv_blocks,
    maxNumSeqs: runtime.max_num_seqs,
    maxNumBatchedTokens: runtime.max_num_batched_tokens,
    contextLength,
    kvCacheBlockSize: pool.blockSizeTokens || undefined, // the size that routing uses: the operator's, if there is one
    migrationLimit: settings.migrationLimit,
  };
}

interface KnownModel {
  readonly isReady: boolean;
  readonly workers: ReadonlySet<string>;
}

/** Logs models that come and go, and at level debug their workers. */
export class ModelLines {
  readonly #logger: Logger;
  #known: ReadonlyMap<string, KnownModel> = new Map();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Takes the current models, all of them. */
  changed(models: readonly RoutableModel[]): void {
    const before = this.#known;
    const now = new Map(models.map((model) => [model.name, knownOf(model)] as const));
    this.#known = now;
    for (const each of models) {
      const { name: model, readiness } = each;
      const was = before.get(model);
      if (readiness.isReady && !was?.isReady) {
        this.#logger.info('model is served', { model, ...countsOf(each) });
      } else if (was?.isReady && !readiness.isReady) {
        this.#logger.info('model is no longer served', { model, reason: readiness.reason });
      }
      this.#tellWorkers(model, was?.workers ?? NO_WORKERS, now.get(model)?.workers ?? NO_WORKERS);
    }
    for (const [model, was] of before) {
      if (now.has(model)) continue;
      if (was.isReady) this.#logger.info('model is no longer served', { model, reason: 'its last worker has left' });
      this.#tellWorkers(model, was.workers, NO_WORKERS);
    }
  }

  #tellWorkers(model: string, before: ReadonlySet<string>, now: ReadonlySet<string>): void {
    const workers = now.size;
    for (const worker of now) if (!before.has(worker)) this.#logger.debug('worker joins', { model, worker, workers });
    for (const worker of before) if (!now.has(worker)) this.#logger.debug('worker leaves', { model, worker, workers });
  }
}

const NO_WORKERS: ReadonlySet<string> = new Set();

function knownOf(model: RoutableModel): KnownModel {
  const all = setsOf(model).flatMap(({ workers, prefill }) => [...workers, ...(prefill?.workers ?? [])]);
  return { isReady: model.readiness.isReady, workers: new Set(all.map(({ id }) => id)) };
}

/** Returns the numbers of workers of a model; that of prefill workers is undefined if it has no pool of them. */
function countsOf(model: RoutableModel) {
  const sets = setsOf(model);
  const prefill = sets.flatMap(({ prefill }) => prefill?.workers ?? []);
  return {
    workers: sets.reduce((sum, { workers }) => sum + workers.length, 0),
    prefill_workers: prefill.length === 0 ? undefined : prefill.length,
  };
}

/** Returns an observer that logs a request's move to another worker at level info, and each dispatch at level debug. */
export function logRequests(logger: Logger): Pick<RequestObserver, 'sent' | 'moved'> {
  return {
    sent({ requestId, model, workerId, prefillWorkerId, dpRank, promptTokens, cachedTokens, attempt }) {
      logger.debug('request goes to a worker', {
        model,
        worker: workerId,
        prefill_worker: prefillWorkerId,
        dp_rank: dpRank,
        prompt_tokens: promptTokens,
        cached_tokens: cachedTokens,
        attempt,
        request_id: requestId,
      });
    },
    moved({ requestId, model, workerId, reason, outputTokens }) {
      const line = { model, worker: workerId, reason, output_tokens: outputTokens };
      logger.info('request moves to another worker', line, { ...line, request_id: requestId });
    },
  };
}

/** Returns an observer that also tells the console what it shows. */
export function withConsole(observer: PipelineObserver, shown: ConsoleObserver): PipelineObserver {
  return {
    ...observer,
    sent: (attempt) => {
      observer.sent?.(attempt);
      shown.sent(attempt);
    },
    moved: (move) => {
      observer.moved?.(move);
      shown.moved(move);
    },
    workerStalled: (model, workerId) => {
      observer.workerStalled?.(model, workerId);
      shown.workerStalled(model, workerId);
    },
    workerRecovered: (model, workerId) => {
      observer.workerRecovered?.(model, workerId);
      shown.workerRecovered(model, workerId);
    },
  };
}

/**
 * Returns an observer of workers that make more tokens than the request asked for. It counts each case and logs the
 * worker.
 */
export function overrunObserver(
  metrics: Pick<FrontendMetrics, 'limitReached'>,
  logger: Logger,
): Pick<WorkerObserver, 'overran'> {
  return {
    overran: (model, workerId = 'unknown') => {
      metrics.limitReached('output_tokens');
      logger.warn('worker made more tokens than asked for: answers are cut', { model, worker_id: workerId });
    },
  };
}

/** Returns an observer that logs how long each step of a request took, in one line (`--dyn-debug-perf`). */
export function logTimes(log: Logger): Required<Pick<PipelineObserver, 'timed'>> {
  return {
    timed: (times) => {
      const { requestId, model, outcome, active, tokens, ...steps } = times;
      const ms = Object.fromEntries(TIMED_STEPS.map(([step, shown]) => [shown, roundedMs(steps[step])]));
      log.info('request times', { model, outcome, active_requests: active, tokens, ...ms, request_id: requestId });
    },
  };
}

/** Steps in the order in which a request takes them, with their names in the log, which are Dynamo's if it has them. */
const TIMED_STEPS = [
  ['templateMs', 'render_template_ms'],
  ['tokenizeMs', 'tokenize_ms'],
  ['preprocessMs', 'preprocess_ms'],
  ['routeMs', 'route_ms'],
  ['transportMs', 'transport_roundtrip_ms'],
  ['firstOutputMs', 'first_token_ms'],
  ['detokenizeMs', 'detokenize_ms'],
  ['parseMs', 'parse_ms'],
  ['encodeMs', 'encode_ms'],
  ['totalMs', 'total_ms'],
] as const;

function roundedMs(ms: number | undefined): number | undefined {
  return ms && Math.round(ms * 1000) / 1000;
}

/** Models whose differing prompts are logged at most, each once. */
const DIFFERING_MAX = 256;

/**
 * Returns an observer that logs once for each model if its engine makes other prompts of chats than this process, which
 * then knows only a part of what a worker has cached of a chat.
 */
export function differenceObserver(log: Logger): Required<Pick<PromptObserver, 'promptDiffers'>> {
  const logged = new Set<string>();
  return {
    promptDiffers: (model, tokens, engineTokens) => {
      if (logged.has(model) || logged.size === DIFFERING_MAX) return;
      logged.add(model);
      const says = 'the engine makes another prompt of chats than this frontend, which routes by its own';
      log.warn(says, { model, tokens, engine_tokens: engineTokens });
    },
  };
}
