import type { ModelCard } from '../../discovery/index.ts';

/** A model whose workers a planner starts. */
export interface PlannedName {
  /** Namespace of its workers. */
  readonly namespace: string;
  /** Name that its workers register. */
  readonly model: string;
}

/**
 * Returns a card that stands for a model of which no worker has registered one. It takes every kind of request that
 * workers of a planner may serve; a request learns the truth from the first worker.
 */
export function placeholderCard({ model }: PlannedName): ModelCard {
  return {
    display_name: model,
    slug: '',
    files: {},
    kv_cache_block_size: 0,
    model_type: ['Chat', 'Completions', 'Embedding'],
    model_input: 'Tokens',
    worker_type: 'aggregated',
    needs: [],
    aliases: [],
    runtime_config: {},
  };
}
