import type { FrontendFamilies } from './frontend-families.ts';
import type { FrontendMetrics, PhaseLabel, StageLabel, WorkerLabels } from './frontend-metrics.ts';
import type { Gauge, MetricRegistry } from './registry.ts';

type StageMethods = Pick<
  FrontendMetrics,
  'stageEntered' | 'stageLeft' | 'stage' | 'tokenize' | 'template' | 'detokenize'
>;

/** Counts what happens between a request's entry and its end. Series are looked up once, here. */
export function stageRecorder(families: FrontendFamilies): StageMethods {
  const tokenize = families.tokenize.with();
  const template = families.template.with();
  const detokenizeUs = families.detokenizeUs.with();
  const detokenizeTokens = families.detokenizeTokens.with();
  const tokenizeLatency = families.tokenizerLatency.with('tokenize');
  const detokenizeLatency = families.tokenizerLatency.with('detokenize');
  const durations = {
    preprocess: families.stageDuration.with('preprocess'),
    route: families.stageDuration.with('route'),
    transport_roundtrip: families.stageDuration.with('transport_roundtrip'),
    postprocess: families.stageDuration.with('postprocess'),
  };
  const phasesOf = (stage: StageLabel): Record<PhaseLabel, Gauge> => ({
    prefill: families.stageRequests.with(stage, 'prefill'),
    decode: families.stageRequests.with(stage, 'decode'),
    aggregated: families.stageRequests.with(stage, 'aggregated'),
    '': families.stageRequests.with(stage, ''),
  });
  const requests = { preprocess: phasesOf('preprocess'), route: phasesOf('route'), dispatch: phasesOf('dispatch') };
  return {
    stageEntered: (stage, phase = '') => requests[stage][phase].add(1),
    stageLeft: (stage, phase = '') => requests[stage][phase].add(-1),
    stage: (stage, durationMs) => durations[stage].observe(durationMs / 1000),
    tokenize(durationMs) {
      tokenize.observe(durationMs / 1000);
      tokenizeLatency.observe(durationMs);
    },
    template: (durationMs) => template.observe(durationMs / 1000),
    detokenize(totalMs, tokenCount) {
      if (tokenCount === 0) return;
      detokenizeUs.add(totalMs * 1000);
      detokenizeTokens.add(tokenCount);
      detokenizeLatency.observe(totalMs / tokenCount);
    },
  };
}

type ModelMethods = Pick<
  FrontendMetrics,
  'tokenizerCache' | 'embedded' | 'migrated' | 'migrationTook' | 'migrationTooLong' | 'setModel' | 'readModelsFrom'
>;

/** Counts what happens to a model, and shows its card and readiness. */
export function modelRecorder(families: FrontendFamilies, registry: MetricRegistry): ModelMethods {
  let readModels: () => Iterable<{ readonly model: string; readonly isReady: boolean }> = () => [];
  registry.beforeScrape(() => {
    for (const { model, isReady } of readModels()) families.ready.with(model).set(isReady ? 1 : 0);
  });
  return {
    tokenizerCache(model, cachedTokens, uncachedTokens) {
      (cachedTokens > 0 ? families.cacheHits : families.cacheMisses).with().add();
      families.cachedPromptTokens.with(model).add(cachedTokens);
      families.uncachedPromptTokens.with(model).add(uncachedTokens);
    },
    embedded: (model, durationMs) => families.embeddingLatency.with(model).observe(durationMs / 1000),
    migrated: (model, type) => families.migrations.with(model, type).add(),
    migrationTook: (model, type, outcome, durationMs) =>
      families.migrationDuration.with(model, type, outcome).observe(durationMs / 1000),
    migrationTooLong: (model) => families.migrationTooLong.with(model).add(),
    setModel(facts) {
      for (const fact of MODEL_FACTS) {
        const value = facts[fact];
        if (value !== undefined) families[fact].with(facts.model).set(value);
      }
    },
    readModelsFrom(source) {
      readModels = source;
    },
  };
}

const MODEL_FACTS = [
  'totalKvBlocks',
  'maxNumSeqs',
  'maxNumBatchedTokens',
  'contextLength',
  'kvCacheBlockSize',
  'migrationLimit',
] as const;

type WorkerMethods = Pick<FrontendMetrics, 'setWorker' | 'readWorkersFrom' | 'removeWorker'>;

/** Workers shown at most, between two scrapes also some that left. */
const WORKERS_MAX = 20_000;

/** Series of one rank, made when they first have a value: requests set them, and looking them up by label costs more. */
interface ShownRank extends Pick<WorkerLabels, 'dpRank' | 'workerType'> {
  readonly gauges: (Gauge | undefined)[];
}

/** Shows the load and the last request of workers, as long as they are there. */
export function workerRecorder(families: FrontendFamilies, registry: MetricRegistry): WorkerMethods {
  const figureGauges = [
    ['activeDecodeBlocks', families.workerDecodeBlocks, 1],
    ['activePrefillTokens', families.workerPrefillTokens, 1],
    ['lastTtftMs', families.workerLastTtft, 1000],
    ['lastInputTokens', families.workerLastInputTokens, 1],
    ['lastItlMs', families.workerLastItl, 1000],
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
    setWorker(worker, figures) {
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
    readWorkersFrom(source) {
      readWorkers = source;
    },
    removeWorker,
  };
}
