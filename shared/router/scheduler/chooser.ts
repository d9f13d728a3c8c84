import type { Clock, Random } from '../../clock/index.ts';
import type { KvRouterConfig } from '../config/kv-config.ts';
import { asksForDynamo, weightsFor } from '../config/request-weights.ts';
import { Candidates } from '../cost/candidates.ts';
import type { CostInputs } from '../cost/cost-inputs.ts';
import { type DynamoWeights, fillDynamoCosts } from '../cost/dynamo-cost.ts';
import { fillStatorCosts, type ReplicaShare } from '../cost/stator-cost.ts';
import { fillEligible, taintFactor } from '../eligibility/eligibility.ts';
import type { ActiveLoad } from '../load/active-load.ts';
import { growNumbers } from '../load/grow.ts';
import type { PrefillPace } from '../load/prefill-duration.ts';
import { Overlaps } from '../overlaps.ts';
import type { RankTable } from '../rank-table.ts';
import type { RoutingFailure } from '../routing-error.ts';
import type { DecisionReason, PrefixIndex, SchedulingRequest } from './scheduler-types.ts';
import { drawByCost, selectLowest } from './selection.ts';
import type { WorkerSet } from './worker-set.ts';

export interface ChooserOptions {
  readonly config: KvRouterConfig;
  readonly blockSizeTokens: number;
  readonly ranks: RankTable;
  readonly index: PrefixIndex | undefined;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly random: Random;
  readonly isDecodePool: boolean;
  readonly workers: WorkerSet;
  readonly load: ActiveLoad;
  readonly pace: PrefillPace;
  readonly share: ReplicaShare | undefined;
}

/** A request with its own weights over the router's. */
export interface WeighedRequest {
  readonly request: SchedulingRequest;
  readonly weights: DynamoWeights;
  /** The formula that scores it: the router's, or Dynamo's for a request that sets a weight of that one. */
  readonly costModel: KvRouterConfig['costModel'];
}

/** Position among `Chooser.candidates`, and why that one. */
export interface Choice {
  readonly at: number;
  readonly reason: DecisionReason;
}

const NO_HASHES = new Uint32Array(0);
/**
 * Works out who should take a request, in three steps that share scratch arrays: `look` asks the index, `narrow` filters,
 * `choose` weighs. Books nothing.
 */
export class Chooser {
  /** What each rank has cached of the prompt last looked at. */
  readonly overlaps: Overlaps;
  /** Who may take the request last narrowed to, and what each would cost once chosen from. */
  readonly candidates = new Candidates();
  readonly #options: ChooserOptions;
  readonly #weights: DynamoWeights;
  readonly #blocksOf: ((rank: number) => number) | undefined;
  #inputs: CostInputs | undefined;
  #chances = new Float64Array(64);

  constructor(options: ChooserOptions) {
    const { config, ranks, index, isDecodePool } = options;
    this.#options = options;
    this.#weights = { ...config, isDecodePool };
    this.overlaps = new Overlaps(ranks.capacity);
    const blocksOf = index?.blocksOf?.bind(index);
    this.#blocksOf = config.tieBreak === 'fewest-blocks' ? blocksOf : undefined;
  }

  /** @throws ServeError `invalid_value` for an override out of range */
  weigh(request: SchedulingRequest): WeighedRequest {
    const { override } = request;
    const { config } = this.#options;
    if (override === undefined) return { request, weights: this.#weights, costModel: config.costModel };
    const weights = { ...this.#weights, ...weightsFor(config, override) };
    return { request, weights, costModel: asksForDynamo(override) ? 'dynamo' : config.costModel };
  }

  /** Fills `overlaps` for the request's prompt. */
  look({ hashes }: SchedulingRequest): void {
    const { ranks, index } = this.#options;
    this.overlaps.reset(ranks.capacity);
    if (hashes.local.length > 0) index?.match(hashes, this.overlaps);
  }

  /** Fills `candidates` with the ranks that may take the request; returns why there is none. */
  narrow(request: SchedulingRequest): RoutingFailure | undefined {
    return fillEligible(request, this.#options.workers, this.candidates);
  }

  /** Weighs the candidates, of which there is at least one. */
  choose(weighed: WeighedRequest): Choice {
    this.#fillPrefill(weighed);
    this.#fillCosts(weighed);
    const { request, weights } = weighed;
    this.#applyPreferences(request);
    return this.#select(request, weights.routerTemperature);
  }

  /** What the formulas saw at the last `choose`. */
  get inputs(): CostInputs {
    if (this.#inputs === undefined) throw new Error('nothing was chosen yet');
    return this.#inputs;
  }

  #inputsOf({ request, weights }: WeighedRequest): CostInputs {
    const { config, blockSizeTokens, load } = this.#options;
    const tracksBlocks = config.trackActiveBlocks;
    const activeHashes = request.activeHashes ?? request.hashes.sequence;
    load.uses.matchDepths(tracksBlocks && weights.assumeKvReuse ? activeHashes : NO_HASHES);
    return {
      blockSizeTokens,
      promptTokens: request.promptTokens,
      hashedBlocks: tracksBlocks ? request.hashes.sequence.length >> 1 : 0,
      overlaps: this.overlaps,
      activeBlocks: load.activeBlocks,
      sharedDepths: load.uses.depths,
      activeRequests: load.requests,
      sharedRanges: request.sharedRanges,
    };
  }

  /** Prompt tokens that a rank still has to prefill, decayed to `nowMs` as the formula has it. */
  prefillTokensAt(rank: number, nowMs: number, costModel: KvRouterConfig['costModel']): number {
    const { load, pace } = this.#options;
    if (costModel === 'dynamo') return load.prefillTokensAt(rank, nowMs);
    const sum = load.prefillSum[rank] as number;
    if (sum === 0) return 0;
    const done = (nowMs - (load.oldestSinceMs[rank] as number)) / pace.msPerToken;
    return sum - Math.min(done, load.oldestTokens[rank] as number);
  }

  /** Most prompt tokens that a candidate has cached; 0 without candidates. */
  bestCachedTokens(): number {
    const { config, blockSizeTokens } = this.#options;
    const { device, host, disk } = this.overlaps;
    const { ranks, count } = this.candidates;
    let best = 0;
    for (let at = 0; at < count; at++) {
      const rank = ranks[at] as number;
      const lower =
        config.hostCacheHitWeight * (host[rank] as number) + config.diskCacheHitWeight * (disk[rank] as number);
      best = Math.max(best, (device[rank] as number) + lower);
    }
    return Math.round(best * blockSizeTokens);
  }

  #fillPrefill({ costModel }: WeighedRequest): void {
    const { load, clock } = this.#options;
    const { ranks, count, prefillTokens } = this.candidates;
    if (costModel === 'dynamo' && !load.decays) {
      for (let at = 0; at < count; at++) prefillTokens[at] = load.prefillSum[ranks[at] as number] as number;
      return;
    }
    const nowMs = clock.nowMs();
    for (let at = 0; at < count; at++) {
      prefillTokens[at] = this.prefillTokensAt(ranks[at] as number, nowMs, costModel);
    }
  }

  #fillCosts(weighed: WeighedRequest): void {
    const inputs = this.#inputsOf(weighed);
    this.#inputs = inputs;
    if (weighed.costModel === 'dynamo') fillDynamoCosts(this.candidates, inputs, weighed.weights);
    else fillStatorCosts(this.candidates, inputs, weighed.weights, this.#options.share);
  }

  /** What preferred taints multiply the cost of a rank by; a pinned request has no preferences. */
  factorOf(rank: number, { constraints, pinned }: SchedulingRequest): number {
    const preferred = constraints?.preferred_taints;
    if (preferred === undefined || pinned !== undefined) return 1;
    return taintFactor(preferred, this.#options.workers.ofRank(rank)?.worker.taints ?? []);
  }

  #applyPreferences(request: SchedulingRequest): void {
    if (request.constraints?.preferred_taints === undefined) return;
    const { ranks, costs, count } = this.candidates;
    for (let at = 0; at < count; at++) costs[at]! *= this.factorOf(ranks[at] as number, request);
  }

  /** Position of the rank that the request's session prefers; -1 when it has none or may not go there. */
  #preferredAt({ preferredWorker }: SchedulingRequest): number {
    if (preferredWorker === undefined) return -1;
    const rank = this.#options.ranks.find(preferredWorker.workerId, preferredWorker.dpRank);
    return rank === undefined ? -1 : this.candidates.ranks.subarray(0, this.candidates.count).indexOf(rank);
  }

  #select(request: SchedulingRequest, temperature: number): Choice {
    const { random } = this.#options;
    const { count } = this.candidates;
    if (request.pinned !== undefined && count === 1) return { at: 0, reason: 'pinned' };
    if (count === 1) return { at: 0, reason: 'only' };
    const preferredAt = this.#preferredAt(request);
    if (preferredAt !== -1) return { at: preferredAt, reason: 'session' };
    if (temperature > 0) {
      this.#chances = growNumbers(this.#chances, count);
      return { at: drawByCost(this.candidates, temperature, random, this.#chances), reason: 'drawn' };
    }
    const { at, ties } = selectLowest(this.candidates, random, this.#blocksOf);
    return { at, reason: ties > 1 ? 'tie' : 'lowest-cost' };
  }
}
