import type { Gauge, MetricRegistry } from './registry.ts';

/** A rank of a worker, as metrics name it. */
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

/** Workers shown at most, between two scrapes also some that left. */
const WORKERS_MAX = 20_000;

/**
 * Series of one rank, made when they first have a value: requests set them, and looking them up by label costs more.
 */
interface ShownRank extends Pick<WorkerLabels, 'dpRank' | 'workerType'> {
  readonly gauges: (Gauge | undefined)[];
}

/** Shows the load and the last request of workers, as long as they are there. */
export function createWorkerFigures(registry: MetricRegistry) {
  const worker = registry.under('dynamo_frontend_worker_');
  const gauge = (name: string, help: string) => worker.gauge(name, help, 'worker_id', 'dp_rank', 'worker_type');
  const figureGauges = [
    ['activeDecodeBlocks', gauge('active_decode_blocks', 'KV blocks in use on the worker.'), 1],
    ['activePrefillTokens', gauge('active_prefill_tokens', 'Prompt tokens that the worker has yet to compute.'), 1],
    ['lastTtftMs', gauge('last_time_to_first_token_seconds', 'Time to first token of the last request.'), 1000],
    ['lastInputTokens', gauge('last_input_sequence_tokens', 'Prompt tokens of the last request.'), 1],
    ['lastItlMs', gauge('last_inter_token_latency_seconds', 'Inter-token latency of the last request.'), 1000],
  ] as const;
  const shown = new Map<string, ShownRank[]>(); // by worker
  let readWorkers: (() => Iterable<string>) | undefined;
  const removeWorker = (workerId: string): void => {
    for (const [, family] of figureGauges) family.removeWhere('worker_id', workerId);
    shown.delete(workerId);
  };
  registry.beforeScrape(() => {
    if (readWorkers === undefined) return;
    const present = new Set(readWorkers());
    for (const workerId of shown.keys()) if (!present.has(workerId)) removeWorker(workerId);
  });
  const rankOf = ({ workerId, dpRank, workerType }: WorkerLabels): ShownRank | undefined => {
    let ranks = shown.get(workerId);
    if (ranks === undefined) {
      if (shown.size >= WORKERS_MAX) return undefined;
      ranks = [];
      shown.set(workerId, ranks);
    }
    const known = ranks.find((rank) => rank.dpRank === dpRank && rank.workerType === workerType);
    if (known !== undefined) return known;
    const rank: ShownRank = { dpRank, workerType, gauges: [] };
    ranks.push(rank);
    return rank;
  };
  return {
    setWorker(worker: WorkerLabels, figures: WorkerFigures): void {
      const rank = rankOf(worker);
      if (rank === undefined) return;
      for (let at = 0; at < figureGauges.length; at++) {
        const [figure, family, unitsPerMetricUnit] = figureGauges[at]!;
        const value = figures[figure];
        if (value === undefined) continue;
        rank.gauges[at] ??= family.with(worker.workerId, worker.dpRank?.toString() ?? 'none', worker.workerType);
        rank.gauges[at]?.set(value / unitsPerMetricUnit);
      }
    },
    /** Which workers there are: asked at every scrape, and the others are forgotten. Replaces an earlier source. */
    readWorkersFrom(source: () => Iterable<string>): void {
      readWorkers = source;
    },
    /** Forgets a worker that has gone. */
    removeWorker,
  };
}
