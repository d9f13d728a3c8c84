import { logBounds, powersOfTwo } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';
import { placeOf, type RouterIdentity, type RouterPoolLabels, type RouterWorkerType } from './router-labels.ts';

const TRANSFER = { min: 0.001, max: 10, count: 15 };
const LOST_BLOCKS = [0.25, 0.5, ...powersOfTwo(14)];
const RATES = Array.from({ length: 21 }, (_, step) => step * 0.05);

/** Figures of caches that one decision was made on. */
export interface ChoiceFigures {
  readonly promptTokens: number;
  /** Cached tokens of the chosen worker, as far as the router knows. */
  readonly cachedTokens: number;
  /** Cached tokens of the worker that has the most. */
  readonly bestCachedTokens: number;
  /** Cached blocks that another worker has more than the chosen one. */
  readonly blocksLost: number;
  readonly sharedBeyondBlocks: number;
}

/** Counts what the choice of a worker made of caches. */
export function createRouterChoices(registry: MetricRegistry, router: RouterIdentity) {
  const place = placeOf(router);
  const { counter, histogram } = registry.under('dynamo_component_router_', { ...place, router_id: router.routerId });
  const hitRate = histogram(
    'kv_hit_rate',
    'Share of the prompt that the chosen worker was thought to have cached.',
    RATES,
  ).with();
  histogram('shared_cache_hit_rate', 'Share of the prompt that the shared cache held.', RATES).with();
  const sharedBeyond = histogram(
    'shared_cache_beyond_blocks',
    'Blocks of the shared cache beyond those of the chosen worker.',
    powersOfTwo(12),
  ).with();
  const transfer = histogram(
    'kv_transfer_estimated_latency_seconds',
    'Time from the end of a remote prefill to the first token.',
    logBounds(TRANSFER),
  ).with();
  const nonMaxSelections = counter(
    'non_max_overlap_selections_total',
    'Decisions for another worker than the one with the most cached blocks.',
    'worker_type',
  );
  const overlapLost = histogram(
    'overlap_blocks_lost',
    'Cached blocks that such a decision gave up.',
    LOST_BLOCKS,
    'worker_type',
  );
  const bestCached = counter(
    'kv_best_eligible_cached_prefix_tokens_total',
    'Prompt tokens that the best eligible worker had cached.',
    'model',
    'phase',
  );
  const selectedCached = counter(
    'kv_selected_cached_prefix_tokens_total',
    'Prompt tokens that the chosen worker was thought to have cached.',
    'model',
    'phase',
  );
  const reused = counter(
    'kv_worker_reused_tokens_total',
    'Prompt tokens that the worker says it had cached.',
    'model',
    'phase',
  );
  return {
    /** Series are looked up once for each pool. */
    pool({ model, workerType, phase }: RouterPoolLabels) {
      const best = bestCached.with(model, phase);
      const selected = selectedCached.with(model, phase);
      const reusedTokens = reused.with(model, phase);
      const nonMax = nonMaxSelections.with(workerType);
      const lost = overlapLost.with(workerType);
      return {
        decided({ promptTokens, cachedTokens, bestCachedTokens, blocksLost, sharedBeyondBlocks }: ChoiceFigures): void {
          hitRate.observe(promptTokens === 0 ? 0 : Math.min(1, cachedTokens / promptTokens));
          sharedBeyond.observe(sharedBeyondBlocks);
          best.add(bestCachedTokens);
          selected.add(cachedTokens);
          if (blocksLost <= 0) return;
          nonMax.add();
          lost.observe(blocksLost);
        },
        /** Worker's own count of the prompt tokens it had cached. */
        reused: (tokens: number) => reusedTokens.add(tokens),
      };
    },
    /** From the end of a remote prefill to the first token of the decode worker. */
    transferred: (ms: number) => transfer.observe(ms / 1000),
  };
}

/** Shows the ranks that requests can be routed to. */
export function createRouterRanks(registry: MetricRegistry, router: RouterIdentity) {
  const registered = registry
    .under('dynamo_component_router_worker_', placeOf(router))
    .gauge(
      'registered',
      '1 for each rank that requests can be routed to.',
      'router_worker_id',
      'dp_rank',
      'worker_type',
    );
  return {
    /** A rank can be routed to, or no longer. `workerId` is hex. */
    registered: (workerId: string, dpRank: number, workerType: RouterWorkerType) =>
      registered.with(workerId, `${dpRank}`, workerType).set(1),
    unregistered: (workerId: string) => registered.removeWhere('router_worker_id', workerId),
  };
}
