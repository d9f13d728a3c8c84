import type { Clock } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { PipelineObserver, RoutableModel } from '../../pipeline/index.ts';
import { createStallMetrics, type FrontendMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';

type ModelFacts = Parameters<FrontendMetrics['setModel']>[0];

export interface ModelGaugesOptions {
  readonly clock: Clock;
  /** How often known models are looked at again; undefined = at every change. */
  readonly intervalMs: number | undefined;
  /** The models now. */
  list(): readonly ModelFacts[];
  show(facts: ModelFacts): void;
}

/**
 * Shows what the cards of models say as gauges: a new model at once, what changes of it at the next look
 * (`DYN_HTTP_SVC_CONFIG_METRICS_POLL_INTERVAL_SECS`). A model that has gone keeps its gauges.
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

  /** The set of models, or one of them, has changed. */
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

/** Tells operators of workers that fall silent. */
export function stallObserver(
  registry: MetricRegistry,
  logger: Logger,
): Pick<PipelineObserver, 'workerStalled' | 'workerRecovered' | 'canary'> {
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

/** What the card of a model says, as its gauges show it. */
export function factsOf({ name, card, contextLength }: RoutableModel, settings: EdgeSettings): ModelFacts {
  const { runtime_config: runtime } = card;
  return {
    model: name,
    totalKvBlocks: runtime.total_kv_blocks,
    maxNumSeqs: runtime.max_num_seqs,
    maxNumBatchedTokens: runtime.max_num_batched_tokens,
    contextLength,
    kvCacheBlockSize: card.kv_cache_block_size,
    migrationLimit: settings.migrationLimit,
  };
}
