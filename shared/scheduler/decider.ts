import type { Clock } from '../clock/index.ts';
import { describeFailure, RoutingError } from '../router/index.ts';
import type { Choice, Chooser, ChooserOptions, WeighedRequest } from './chooser.ts';
import { hitsBeyond, uncachedTokens } from './cost.ts';
import { DecisionLog, explanationOf, type RecordedChoice, recordOf } from './decision-log.ts';
import type { ExplanationRecord, SecondLookRecord } from './explanation-record.ts';
import type { ActiveLoad } from './load/active-load.ts';
import type { Decision, PrefillDurationModel, SchedulerObserver, SchedulingRequest } from './types.ts';

export interface DeciderOptions extends ChooserOptions {
  readonly chooser: Chooser;
  readonly prefillDuration: PrefillDurationModel | undefined;
  readonly observer: SchedulerObserver | undefined;
  /** Number of decisions kept for `explained`. */
  readonly explainedMax: number;
}

/** Turns a choice into a decision: books it, records the reasons, and tells the observers. */
export class Decider {
  readonly #options: DeciderOptions;
  readonly #chooser: Chooser;
  readonly #load: ActiveLoad;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #log: DecisionLog;

  constructor(options: DeciderOptions) {
    this.#options = options;
    this.#chooser = options.chooser;
    this.#load = options.load;
    this.#clock = options.clock;
    this.#log = new DecisionLog(options.explainedMax);
  }

  /**
   * Chooses among the chooser's candidates and books. Returns undefined if a request of that id is already booked.
   * @param matchMs duration of the index look-up
   */
  decide(weighed: WeighedRequest, waitedMs: number, matchMs: number, look?: SecondLookRecord): Decision | undefined {
    const { request } = weighed;
    if (this.#load.has(request.id)) return undefined;
    const { observer, index } = this.#options;
    const startMs = observer === undefined ? 0 : this.#clock.nowMs();
    const choice = this.#chooser.choose(weighed, look === undefined ? 'first' : 'second');
    const decision = this.#describe(weighed, choice, waitedMs);
    if (this.#log.isOn) this.#log.add(recorded(weighed, choice, waitedMs, look), this.#chooser.candidates);
    this.#book(weighed, decision);
    this.#credit(weighed, choice);
    index?.decided?.(request.id, decision.rank, request.hashes, request.cacheTtlMs);
    if (observer !== undefined) this.#tell(observer, decision, request, matchMs, startMs);
    return decision;
  }

  /**
   * Chooses and books for now: the request will be decided again, and only that decision counts for metrics,
   * explanations and predicting indexes. Returns undefined if a request of that id is already booked.
   */
  decideForNow(weighed: WeighedRequest, waitedMs: number): Decision | undefined {
    if (this.#load.has(weighed.request.id)) return undefined;
    const decision = this.#describe(weighed, this.#chooser.choose(weighed), waitedMs);
    this.#book(weighed, decision);
    return decision;
  }

  #book({ request, weights }: WeighedRequest, { rank, prefillTokens, prefillMs }: Decision): void {
    const { config } = this.#options;
    this.#load.add(
      {
        id: request.id,
        rank,
        promptTokens: request.promptTokens,
        hashes: config.trackActiveBlocks ? (request.activeHashes ?? request.hashes.sequence) : undefined,
        isReusing: weights.assumeKvReuse,
        prefillTokens,
        prefillMs,
        expectedOutputTokens: request.expectedOutputTokens,
      },
      this.#clock.nowMs(),
    );
  }

  /** Counts the choice for the credits of copies, if the cost made it. */
  #credit({ costModel }: WeighedRequest, { at, reason }: Choice): void {
    const isByCost = reason === 'lowest-cost' || reason === 'tie' || reason === 'drawn';
    if (costModel === 'stator' && isByCost) this.#chooser.credits.chose(at, this.#clock.nowMs());
  }

  /** Returns the explanation of what `decide` would choose now among the chooser's candidates. Books nothing. */
  explain(weighed: WeighedRequest): ExplanationRecord {
    const record = recordOf(recorded(weighed, this.#chooser.choose(weighed), 0), this.#chooser.candidates);
    return explanationOf(record, this.#options.ranks);
  }

  /** Returns the explanation for a request that no worker can take. */
  explainFailure(
    { request, weights, costModel }: WeighedRequest,
    failure: Parameters<typeof describeFailure>[0],
  ): ExplanationRecord {
    const { code, message, param } = new RoutingError(failure);
    return {
      request_id: request.id,
      cost_model: costModel,
      prompt_tokens: request.promptTokens,
      blocks: request.hashes.local.length >> 1,
      temperature: weights.routerTemperature,
      waited_ms: 0,
      chosen: null,
      failure: describeFailure(failure),
      rejection: { code, message, ...(param === undefined ? {} : { param }) },
      candidates: [],
    };
  }

  explained(requestId: string): ExplanationRecord | undefined {
    const record = this.#log.find(requestId);
    if (record === undefined) return undefined;
    return explanationOf(record, this.#options.ranks);
  }

  #describe(weighed: WeighedRequest, { at, reason }: Choice, waitedMs: number): Decision {
    const { request } = weighed;
    const { config, ranks, blockSizeTokens } = this.#options;
    const { candidates, overlaps } = this.#chooser;
    const rank = candidates.ranks[at] as number;
    const cachedTokens = candidates.cachedTokens[at] as number;
    const deviceBlocks = overlaps.device[rank] as number;
    const hostBlocks = overlaps.host[rank] as number;
    const diskBlocks = overlaps.disk[rank] as number;
    const hashedBlocks = config.trackActiveBlocks ? request.hashes.sequence.length >> 1 : 0;
    const addedBlocks = Math.max(0, hashedBlocks - (this.#load.uses.depths[rank] as number));
    const { uncachedTokens: left, prefillTokens, prefillMs } = this.#prefillOf(weighed, cachedTokens);
    return {
      requestId: request.id,
      workerId: ranks.workerIdOf(rank) ?? '',
      dpRank: ranks.dpRankOf(rank),
      rank,
      cost: candidates.costs[at] as number,
      deviceBlocks,
      hostBlocks,
      diskBlocks,
      effectiveOverlapBlocks:
        deviceBlocks + config.hostCacheHitWeight * hostBlocks + config.diskCacheHitWeight * diskBlocks,
      cachedTokens,
      uncachedTokens: left,
      prefillTokens,
      prefillMs,
      potentialDecodeBlocks:
        (this.#load.activeBlocks[rank] as number) + addedBlocks + Math.ceil(request.promptTokens / blockSizeTokens),
      reason,
      waitedMs,
    };
  }

  #prefillOf({ request, weights, costModel }: WeighedRequest, cachedTokens: number) {
    const { promptTokens } = request;
    const left =
      costModel === 'stator' ? uncachedTokens(promptTokens, cachedTokens) : Math.max(0, promptTokens - cachedTokens);
    const prefillTokens = weights.trackPrefillTokens ? left : 0;
    const isPredicted = prefillTokens > 0;
    const prefillMs = isPredicted ? this.#options.prefillDuration?.durationMs(left, promptTokens - left) : undefined;
    return { uncachedTokens: left, prefillTokens, prefillMs };
  }

  #tell(
    observer: SchedulerObserver,
    { deviceBlocks, cachedTokens }: Decision,
    { promptTokens, sharedRanges }: SchedulingRequest,
    matchMs: number,
    startMs: number,
  ): void {
    const { ranks, cachedTokens: cached, count } = this.#chooser.candidates;
    const { device } = this.#chooser.overlaps;
    let bestDeviceBlocks = 0;
    let bestCachedTokens = 0;
    for (let at = 0; at < count; at++) {
      bestDeviceBlocks = Math.max(bestDeviceBlocks, device[ranks[at] as number] as number);
      bestCachedTokens = Math.max(bestCachedTokens, cached[at] as number);
    }
    observer.decided({
      promptTokens,
      cachedTokens,
      bestCachedTokens,
      blocksLost: bestDeviceBlocks - deviceBlocks,
      sharedBeyondBlocks: sharedRanges === undefined ? 0 : hitsBeyond(sharedRanges, deviceBlocks),
      matchMs,
      schedulingMs: this.#clock.nowMs() - startMs,
    });
  }
}

function recorded(
  { request, weights, costModel }: WeighedRequest,
  { at: chosenAt, reason, inputs }: Choice,
  waitedMs: number,
  secondLook?: SecondLookRecord,
): RecordedChoice {
  const blocks = request.hashes.local.length >> 1;
  return { requestId: request.id, blocks, inputs, weights, costModel, waitedMs, chosenAt, reason, secondLook };
}
