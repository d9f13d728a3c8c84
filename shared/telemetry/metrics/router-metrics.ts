import { BUCKETS, type Buckets } from './buckets.ts';
import type { MetricRegistry } from './registry.ts';
import { type ChoiceFigures, createRouterChoices, createRouterRanks } from './router-choices.ts';
import { createRouterIndex } from './router-index.ts';
import type { RouterIdentity, RouterPhase, RouterWorkerType } from './router-labels.ts';
import { createRouterOverhead } from './router-overhead.ts';
import { createRouterQueue } from './router-queue.ts';
import { createRouterRequests } from './router-requests.ts';

/** Figures that one decision was made on. */
export interface DecisionFigures extends ChoiceFigures {
  readonly matchMs: number;
  readonly schedulingMs: number;
}

export interface RouterMetricsOptions extends RouterIdentity {
  readonly registry: MetricRegistry;
  /** Whether requests are routed by KV cache; the index's series exist only then. */
  readonly isKvMode: boolean;
  /** Histogram ranges. @default those of the settings' defaults */
  readonly buckets?: Buckets;
}

/**
 * Metrics of the router in a frontend. Each is declared beside the functions that count on it. Nothing here throws or
 * waits.
 */
export type RouterMetrics = ReturnType<typeof createRouterMetrics>;

/** The router's metrics for one pool of workers. */
export type RouterPoolMetrics = ReturnType<RouterMetrics['pool']>;

/** Creates the router's metrics. Those of requests are there at zero in every mode, and count only in mode `kv`. */
export function createRouterMetrics(options: RouterMetricsOptions) {
  const { registry, routerId, isKvMode, buckets = BUCKETS } = options;
  const { pool: requestsOf, ...requests } = createRouterRequests(registry, options, buckets);
  const { pool: choicesOf, ...choices } = createRouterChoices(registry, options);
  const ranks = createRouterRanks(registry, options);
  const overhead = createRouterOverhead(registry, options);
  const queue = createRouterQueue(registry);
  const { pool: indexOf, ...index } = createRouterIndex(registry, options, isKvMode);
  return {
    /** Value of the label `router_id`. */
    routerId,
    pool(model: string, workerType: RouterWorkerType, phase: RouterPhase) {
      const labels = { model, workerType, phase };
      const sent = requestsOf(labels);
      const { decided, reused } = choicesOf(labels);
      return {
        ...queue.pool(labels),
        ...indexOf(model),
        decided(figures: DecisionFigures): void {
          sent(figures.promptTokens);
          overhead.decided(figures.matchMs, figures.schedulingMs);
          decided(figures);
        },
        reused,
      };
    },
    hashed: (ms: number) => overhead.hashed(ms),
    ...requests,
    ...choices,
    ...ranks,
    ...index,
  };
}
