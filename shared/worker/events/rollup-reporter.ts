import type { Clock, Timer } from '../../clock/index.ts';
import type { ModelCard } from '../../discovery/index.ts';
import type { EngineInfo, EngineLoad, EnginePass } from '../../engines/index.ts';
import type { EventPublisher } from '../../planes/index.ts';
import {
  NO_TRAFFIC,
  PASS_SAMPLES_MAX,
  type PassRow,
  PLANNER_EVENT_VERSION,
  type PlannerEventOf,
  type PoolName,
  type RankLoadRow,
  type TrafficTotals,
  toPassRow,
} from '../../protocol/index.ts';
import type { WorkerOptions, WorkerSettings } from '../options.ts';

export interface RollupReporterOptions {
  readonly worker: Pick<WorkerOptions, 'clock' | 'random' | 'engine' | 'address' | 'host' | 'plannerOutbox'>;
  readonly settings: Pick<WorkerSettings, 'rollupIntervalMs' | 'gpus'>;
  readonly card: Pick<ModelCard, 'display_name' | 'worker_type'>;
  readonly instanceId: string;
  readonly engineInfo: EngineInfo;
  readonly traffic: TrafficCounter;
  /** Returns the load, with one entry for each rank. */
  load(): readonly EngineLoad[];
  isDraining(): boolean;
}

interface RankPasses {
  last: PassRow;
  samples: PassRow[];
  nextSampleMs: number;
}

/** Sends planners, every few seconds, what the worker has served and its load, with all ranks in one message. */
export class RollupReporter {
  readonly #options: RollupReporterOptions;
  readonly #publisher: EventPublisher;
  readonly #timer: Timer;
  readonly #epoch: string;
  readonly #passes = new Map<number, RankPasses>();
  #sequence = 0;

  constructor(options: RollupReporterOptions, publisher: EventPublisher) {
    const { clock, random, engine } = options.worker;
    this.#options = options;
    this.#publisher = publisher;
    this.#epoch = random.instanceId();
    engine.onPasses?.((pass) => this.#note(pass));
    this.report();
    this.#timer = clock.every(options.settings.rollupIntervalMs, () => this.report());
  }

  report(): void {
    const { worker, card, instanceId, traffic, load, isDraining } = this.#options;
    const { engine, clock, address, host, plannerOutbox } = worker;
    const hasPasses = engine.onPasses !== undefined;
    const latency = engine.tokenLatency?.();
    const totals = traffic.totals;
    const rollup: PlannerEventOf<'worker.rollup'> = {
      type: 'worker.rollup',
      v: PLANNER_EVENT_VERSION,
      namespace: address.namespace,
      model: card.display_name,
      component: poolOf(card),
      worker_id: instanceId,
      epoch: this.#epoch,
      seq: this.#sequence++,
      at: clock.wallMs(),
      totals:
        latency === undefined
          ? totals
          : { ...totals, itl_sum_s: latency.sumSeconds, itl_count: Math.round(latency.count) },
      ranks: load().map((each) => this.#rankOf(each, hasPasses)),
      engine: this.#facts(),
      has_passes: hasPasses,
      ...(host === undefined ? {} : { host }),
      ...(isDraining() ? { draining: true } : {}),
    };
    this.#publisher.publish(rollup);
    plannerOutbox?.put(rollup);
  }

  stop(): void {
    this.#timer.cancel();
  }

  #note(pass: EnginePass): void {
    const { worker, settings } = this.#options;
    const last = toPassRow(pass);
    const known = this.#passes.get(pass.dpRank) ?? { last, samples: [], nextSampleMs: 0 };
    known.last = last;
    const nowMs = worker.clock.nowMs();
    if (nowMs >= known.nextSampleMs && known.samples.length < PASS_SAMPLES_MAX) {
      known.samples.push(last);
      known.nextSampleMs = nowMs + settings.rollupIntervalMs / PASS_SAMPLES_MAX;
    }
    this.#passes.set(pass.dpRank, known); // bounded by the ranks
  }

  #rankOf(load: EngineLoad, hasPasses: boolean): RankLoadRow {
    const { dpRank, runningRequests, waitingRequests, usedKvBlocks, totalKvBlocks, activePrefillTokens } = load;
    const known = this.#passes.get(dpRank);
    const isIdle = runningRequests === 0 && waitingRequests === 0;
    const samples = known?.samples ?? [];
    if (known !== undefined) known.samples = [];
    return {
      dp_rank: dpRank,
      running: Math.round(runningRequests),
      waiting: Math.round(waitingRequests),
      kv_blocks: usedKvBlocks,
      kv_blocks_max: totalKvBlocks,
      prefill_tokens: activePrefillTokens,
      last: hasPasses && known !== undefined && !isIdle ? known.last : this.#loadAsPass(load),
      ...(samples.length > 0 ? { samples } : {}),
    };
  }

  /**
   * Returns the waiting and decoding work as a pass without a time, for idle engines and engines that do not report
   * their passes.
   */
  #loadAsPass({ runningRequests, waitingRequests, usedKvBlocks, activePrefillTokens }: EngineLoad): PassRow {
    const { kvBlockSizeTokens } = this.#options.engineInfo;
    const decoding = Math.round(runningRequests);
    const kvTokens = decoding === 0 ? 0 : usedKvBlocks * kvBlockSizeTokens;
    return [0, 0, 0, 0, decoding, kvTokens, Math.round(waitingRequests), activePrefillTokens, 0, 0];
  }

  #facts(): PlannerEventOf<'worker.rollup'>['engine'] {
    const { engineInfo, settings } = this.#options;
    const { kvBlockSizeTokens, totalKvBlocks, maxNumSeqs, maxNumBatchedTokens, contextLength } = engineInfo;
    return {
      gpus: settings.gpus,
      kv_block_size: kvBlockSizeTokens,
      ...(maxNumSeqs === undefined ? {} : { max_num_seqs: maxNumSeqs }),
      ...(maxNumBatchedTokens === undefined ? {} : { max_num_batched_tokens: maxNumBatchedTokens }),
      ...(contextLength === undefined ? {} : { context_length: contextLength }),
      ...(totalKvBlocks > 0 ? { max_kv_tokens: totalKvBlocks * kvBlockSizeTokens } : {}),
    };
  }
}

function poolOf({ worker_type: type }: Pick<ModelCard, 'worker_type'>): PoolName {
  return type === 'prefill' || type === 'decode' ? type : 'agg';
}

/** The counts of one request. A token costs nothing here. */
export interface TrafficMeter {
  /** Notes the first output. */
  firstOutput(): void;
  /** Notes how many tokens of its prompt were cached. */
  cached(tokens: number): void;
  /** Notes its end. Only an answer that reached its end counts as complete. */
  end(isComplete: boolean, outputTokens: number): void;
}

/** Counts the requests of a worker for a planner, as sums since the worker began. */
export class TrafficCounter {
  readonly #clock: Clock;
  readonly #totals: Record<keyof TrafficTotals, number> = { ...NO_TRAFFIC };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get totals(): TrafficTotals {
    return { ...this.#totals };
  }

  /** Counts a request that came but was refused. */
  refused(isRetry: boolean): void {
    if (!isRetry) this.#totals.started++;
  }

  /** Begins to count a request. @param isRetry whether it was at another worker before, which counted it */
  begin(promptTokens: number, isRetry: boolean): TrafficMeter {
    const totals = this.#totals;
    const clock = this.#clock;
    const startedMs = clock.nowMs();
    let firstMs: number | undefined;
    if (!isRetry) {
      totals.started++;
      totals.isl_sum += promptTokens;
      totals.isl_count++;
    }
    return {
      firstOutput() {
        firstMs = clock.nowMs();
        totals.ttft_sum_s += (firstMs - startedMs) / 1000;
        totals.ttft_count++;
      },
      cached(tokens) {
        totals.kv_hit_sum += Math.min(tokens, promptTokens);
        totals.kv_hit_count += promptTokens;
      },
      end(isComplete, outputTokens) {
        const nowMs = clock.nowMs();
        if (firstMs !== undefined && outputTokens > 1) {
          totals.itl_sum_s += (nowMs - firstMs) / 1000;
          totals.itl_count += outputTokens - 1;
        }
        if (!isComplete) return;
        totals.completed++;
        totals.osl_sum += outputTokens;
        totals.osl_count++;
        totals.dur_sum_s += (nowMs - startedMs) / 1000;
        totals.dur_count++;
      },
    };
  }
}

/** Meter of requests that are not traffic. */
export const UNSEEN: TrafficMeter = { firstOutput() {}, cached() {}, end() {} };
