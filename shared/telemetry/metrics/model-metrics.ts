import type { MetricRegistry } from './registry.ts';

const MIGRATION_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60];

/** Facts of a model's card. A fact that is left out is not shown. */
export interface ModelFacts {
  readonly model: string;
  readonly totalKvBlocks?: number | undefined;
  readonly maxNumSeqs?: number | undefined;
  readonly maxNumBatchedTokens?: number | undefined;
  readonly contextLength?: number | undefined;
  readonly kvCacheBlockSize?: number | undefined;
  readonly migrationLimit?: number | undefined;
}

export type MigrationType = 'new_request' | 'ongoing_request';

/** Counts what happens to a model, and shows its card and its readiness. */
export function createModelMetrics(registry: MetricRegistry) {
  const { counter, gauge, histogram } = registry.under('dynamo_frontend_model_');
  const factGauges = [
    ['totalKvBlocks', gauge('total_kv_blocks', 'KV blocks of one worker of the model.', 'model')],
    ['maxNumSeqs', gauge('max_num_seqs', 'Sequences that one worker of the model runs at once.', 'model')],
    [
      'maxNumBatchedTokens',
      gauge('max_num_batched_tokens', 'Tokens that one worker of the model computes in one step.', 'model'),
    ],
    ['contextLength', gauge('context_length', 'Context length of the model in tokens.', 'model')],
    ['kvCacheBlockSize', gauge('kv_cache_block_size', 'Tokens in a KV block of the model.', 'model')],
    [
      'migrationLimit',
      gauge('migration_limit', 'Times that a request of the model may move to another worker.', 'model'),
    ],
  ] as const;
  const ready = gauge('ready', '1 while every worker role that the model needs is present.', 'model');
  const migrations = counter('migration_total', 'Requests that moved to another worker.', 'model', 'migration_type');
  const migrationDuration = histogram(
    'migration_duration_seconds',
    'Time from the failure of a worker until another has taken the request, or no worker could.',
    MIGRATION_SECONDS,
    'model',
    'migration_type',
    'outcome',
  );
  const tooLong = counter(
    'migration_max_seq_len_exceeded_total',
    'Requests that had grown too long to be moved.',
    'model',
  );
  let readModels: () => Iterable<{ readonly model: string; readonly isReady: boolean }> = () => [];
  registry.beforeScrape(() => {
    for (const { model, isReady } of readModels()) ready.with(model).set(isReady ? 1 : 0);
  });
  return {
    /** Counts a request that moved to another worker. */
    migrated: (model: string, type: MigrationType) => migrations.with(model, type).add(),
    migrationTook: (model: string, type: MigrationType, outcome: string, durationMs: number) =>
      migrationDuration.with(model, type, outcome).observe(durationMs / 1000),
    /** Counts a request that was too long to move to another worker. */
    migrationTooLong: (model: string) => tooLong.with(model).add(),
    /** Shows what a model's card says. Never removed. */
    setModel(facts: ModelFacts): void {
      for (const [fact, family] of factGauges) {
        const value = facts[fact];
        if (value !== undefined) family.with(facts.model).set(value);
      }
    },
    /**
     * Sets where `model_ready` comes from: every scrape asks it. Aliases must not be in it. Replaces an earlier source.
     */
    readModelsFrom(source: typeof readModels): void {
      readModels = source;
    },
  };
}
