import type { Clock, Timer } from '../../clock/index.ts';
import type { FrontendFamilies } from './frontend-families.ts';
import type { Counter, Gauge, Histogram, MetricRegistry } from './registry.ts';

/** A rank of a worker, as metrics name it. */
export interface WorkerLabels {
  /** Hex. */
  readonly workerId: string;
  /** Absent = `none`. */
  readonly dpRank?: number | undefined;
  readonly workerType: 'prefill' | 'decode';
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

/** Counts what happens between a request's entry and its end. Series are looked up once, here. */
export function stageRecorder(families: FrontendFamilies) {
  const { tokenize, template, detokenizeUs, detokenizeTokens, stageDuration, stageRequests, tokenizerLatency } =
    families;
  const tokenizeLatency = tokenizerLatency.with('tokenize');
  const detokenizeLatency = tokenizerLatency.with('detokenize');
  const durations = {
    preprocess: stageDuration.with('preprocess'),
    route: stageDuration.with('route'),
    transport_roundtrip: stageDuration.with('transport_roundtrip'),
    postprocess: stageDuration.with('postprocess'),
  };
  const phasesOf = (stage: StageLabel): Record<PhaseLabel, Gauge> => ({
    prefill: stageRequests.with(stage, 'prefill'),
    decode: stageRequests.with(stage, 'decode'),
    aggregated: stageRequests.with(stage, 'aggregated'),
    '': stageRequests.with(stage, ''),
  });
  const requests = { preprocess: phasesOf('preprocess'), route: phasesOf('route'), dispatch: phasesOf('dispatch') };
  return {
    /** A request is in `stage`, until `stageLeft` with the same arguments. `phase` defaults to none. */
    stageEntered: (stage: StageLabel, phase: PhaseLabel = '') => requests[stage][phase].add(1),
    stageLeft: (stage: StageLabel, phase: PhaseLabel = '') => requests[stage][phase].add(-1),
    /** A request was in `stage` for so long. */
    stage: (stage: TimedStageLabel, durationMs: number) => durations[stage].observe(durationMs / 1000),
    /** A prompt was tokenized. */
    tokenize(durationMs: number): void {
      tokenize.observe(durationMs / 1000);
      tokenizeLatency.observe(durationMs);
    },
    /** A chat template was rendered. */
    template: (durationMs: number) => template.observe(durationMs / 1000),
    /** Once a request: all the time it spent turning `tokenCount` tokens into text. */
    detokenize(totalMs: number, tokenCount: number): void {
      if (tokenCount === 0) return;
      detokenizeUs.add(totalMs * 1000);
      detokenizeTokens.add(tokenCount);
      detokenizeLatency.observe(totalMs / tokenCount);
    },
  };
}

/** Counts what happens to a model, and shows its card and readiness. */
export function modelRecorder(families: FrontendFamilies, registry: MetricRegistry) {
  let readModels: () => Iterable<{ readonly model: string; readonly isReady: boolean }> = () => [];
  registry.beforeScrape(() => {
    for (const { model, isReady } of readModels()) families.ready.with(model).set(isReady ? 1 : 0);
  });
  return {
    /** A prompt was tokenized, `cachedTokens` of it from the tokenizer's cache. */
    tokenizerCache(model: string, cachedTokens: number, uncachedTokens: number): void {
      (cachedTokens > 0 ? families.cacheHits : families.cacheMisses).add();
      families.cachedPromptTokens.with(model).add(cachedTokens);
      families.uncachedPromptTokens.with(model).add(uncachedTokens);
    },
    /** Once per embeddings request that succeeded. */
    embedded: (model: string, durationMs: number) => families.embeddingLatency.with(model).observe(durationMs / 1000),
    migrated: (model: string, type: MigrationType) => families.migrations.with(model, type).add(),
    migrationTook: (model: string, type: MigrationType, outcome: string, durationMs: number) =>
      families.migrationDuration.with(model, type, outcome).observe(durationMs / 1000),
    /** A request was too long to be moved to another worker. */
    migrationTooLong: (model: string) => families.migrationTooLong.with(model).add(),
    /** Shows what a model's card says. Never removed. */
    setModel(facts: ModelFacts): void {
      for (const fact of MODEL_FACTS) {
        const value = facts[fact];
        if (value !== undefined) families[fact].with(facts.model).set(value);
      }
    },
    /** Where `model_ready` comes from: asked at every scrape. Aliases must not be in it. Replaces an earlier source. */
    readModelsFrom(source: typeof readModels): void {
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

/** Workers shown at most, between two scrapes also some that left. */
const WORKERS_MAX = 20_000;

/** Series of one rank, made when they first have a value: requests set them, and looking them up by label costs more. */
interface ShownRank extends Pick<WorkerLabels, 'dpRank' | 'workerType'> {
  readonly gauges: (Gauge | undefined)[];
}

/** Shows the load and the last request of workers, as long as they are there. */
export function workerRecorder(families: FrontendFamilies, registry: MetricRegistry) {
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

const SETTLED = Promise.resolve();

const PERIOD_MS = 10;
const STALL_MS = 5;

/** Ends a watch. Idempotent. */
export interface EventLoopWatch {
  stop(): void;
}

/**
 * Sleeps 10 ms at a time and counts how late each wake-up is: over 5 ms is a stall. The timer does not keep the process
 * alive. A function, whose process is frozen between requests, must not watch: each thaw would read as a stall.
 */
export function watchEventLoop(clock: Clock, delaySeconds: Histogram, stalls: Counter): EventLoopWatch {
  let armedMs = 0;
  let timer: Timer;
  function arm(): void {
    armedMs = clock.nowMs();
    timer = clock.after(PERIOD_MS, measure);
  }
  function measure(): void {
    const lateMs = Math.max(0, clock.nowMs() - armedMs - PERIOD_MS);
    delaySeconds.observe(lateMs / 1000);
    if (lateMs > STALL_MS) stalls.add();
    arm();
  }
  arm();
  return { stop: () => timer.cancel() };
}

/**
 * Reads the clock once for everything that happens before the next microtask. A worker's frame holds tokens of many streams,
 * and reading the machine's clock costs four times as much as counting one of them (45 against 10 ns).
 */
export class TurnClock {
  readonly #clock: Clock;
  readonly #expire: () => void;
  #nowMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#expire = () => {
      this.#nowMs = undefined;
    };
  }

  nowMs(): number {
    if (this.#nowMs === undefined) {
      this.#nowMs = this.#clock.nowMs();
      void SETTLED.then(this.#expire); // half the price of queueMicrotask; `expire` cannot throw
    }
    return this.#nowMs;
  }
}
