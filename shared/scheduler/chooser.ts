import type { RankTable } from '../block-index/index.ts';
import { Overlaps, type PrefixIndex } from '../block-index/index.ts';
import type { Clock, Random } from '../clock/index.ts';
import { roomy } from '../records/index.ts';
import type { RoutingFailure } from '../router/index.ts';
import { keyOfText, seedOf, weightOf } from '../router/index.ts';
import { CopyCredits } from './copy-credits.ts';
import { Candidates, type CostInputs, type DynamoWeights, fillDynamoCosts, type ReplicaShare } from './cost.ts';
import { fillEligible, taintFactor } from './eligibility.ts';
import type { KvRouterConfig } from './kv-config.ts';
import { asksForDynamo, weightsFor } from './kv-config-sources.ts';
import type { ActiveLoad } from './load/active-load.ts';
import type { RankSpeeds } from './load/rank-speeds.ts';
import type { UnseenLoad } from './load/unseen-load.ts';
import { addShareCosts, addUnseenCosts, fillStatorCosts, laterWeight, subtractHomeSaving } from './stator-cost.ts';
import type { DecisionReason, SchedulingRequest } from './types.ts';
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
  readonly pace: RankSpeeds;
  readonly share: ReplicaShare | undefined;
  readonly unseen: UnseenLoad;
}

/** A request with the weights that it sets, on top of those of the router. */
export interface WeighedRequest {
  readonly request: SchedulingRequest;
  readonly weights: DynamoWeights;
  /** Formula of the cost: the router's, or Dynamo's for a request that sets a weight of Dynamo's formula. */
  readonly costModel: KvRouterConfig['costModel'];
}

/** Position of the chosen worker among `Chooser.candidates`, and the reason. */
export interface Choice {
  readonly at: number;
  readonly reason: DecisionReason;
  /** Values from which the formula computed the costs. */
  readonly inputs: CostInputs;
}

/**
 * Choice for the router's own request, for one that it decides again, or for one of another router, whose choice it
 * foresees. The last two must be what every router with the same knowledge would choose.
 */
export type ChoiceKind = 'first' | 'second' | 'peer';

const NO_HASHES = new Uint32Array(0);
/**
 * Finds the worker for a request, in three steps that share scratch arrays: `look` asks the index, `narrow` filters,
 * and `choose` compares costs. Books nothing.
 */
export class Chooser {
  /** Blocks that each rank has cached of the prompt that `look` took last. */
  readonly overlaps: Overlaps;
  /** Ranks that may take the request that `narrow` took last, and, after `choose`, the cost of each. */
  readonly candidates = new Candidates();
  /** Credits for copies, for the request that `choose` took last. */
  readonly credits = new CopyCredits();
  readonly #options: ChooserOptions;
  readonly #weights: DynamoWeights;
  readonly #blocksOf: ((rank: number) => number) | undefined;
  #chances = new Float64Array(64);

  constructor(options: ChooserOptions) {
    const { config, ranks, index, isDecodePool } = options;
    this.#options = options;
    this.#weights = { ...config, isDecodePool };
    this.overlaps = new Overlaps(ranks.capacity);
    const blocksOf = index?.blocksOf?.bind(index);
    this.#blocksOf = config.tieBreak === 'fewest-blocks' ? blocksOf : undefined;
  }

  /** Returns the request with its weights. @throws ServeError `invalid_value` for an override out of range */
  weigh(request: SchedulingRequest): WeighedRequest {
    const { override } = request;
    const { config } = this.#options;
    if (override === undefined) return { request, weights: this.#weights, costModel: config.costModel };
    const weights = { ...this.#weights, ...weightsFor(config, override) };
    return { request, weights, costModel: asksForDynamo(override) ? 'dynamo' : config.costModel };
  }

  /** Fills `overlaps` for the request's prompt. */
  look({ hashes }: Pick<SchedulingRequest, 'hashes'>): void {
    const { ranks, index } = this.#options;
    this.overlaps.reset(ranks.capacity);
    if (hashes.sequence.length > 0) index?.match(hashes, this.overlaps);
  }

  /** Fills `candidates` with the ranks that may take the request. Returns the reason if no rank may. */
  narrow(request: SchedulingRequest): RoutingFailure | undefined {
    return fillEligible(request, this.#options.workers, this.candidates);
  }

  /**
   * Computes the costs of the candidates, at least one, and chooses.
   * @param kind says whether every router with the same knowledge must choose the same
   */
  choose(weighed: WeighedRequest, kind: ChoiceKind = 'first'): Choice {
    this.#fillPrefill(weighed);
    const { request, weights } = weighed;
    const inputs = this.#inputsOf(weighed);
    if (weighed.costModel === 'dynamo') fillDynamoCosts(this.candidates, inputs, weights);
    else this.#fillStator(weighed, inputs, kind);
    this.#applyPreferences(request);
    this.#favourHome(weighed);
    return this.#select(request, weights.routerTemperature, inputs, kind !== 'first');
  }

  #fillStator({ request, weights }: WeighedRequest, inputs: CostInputs, kind: ChoiceKind): void {
    const { load, pace: speeds, workers, share, unseen, random, clock } = this.#options;
    const { contextTokens } = load;
    const { requestsMax } = workers;
    const { promptTokens, expectedOutputTokens, hashes } = request;
    const facts = { contextTokens, requestsMax, expectedOutputTokens, speeds };
    fillStatorCosts(this.candidates, inputs, facts, weights);
    if (kind === 'peer') this.credits.skip();
    else this.credits.apply(this.candidates, hashes.sequence, inputs, clock.nowMs());
    const isAgreed = kind !== 'first';
    if (isAgreed || share === undefined || share.routers === 1) return;
    addShareCosts(this.candidates, promptTokens, speeds.msPerToken, share);
    const { prefillTokens, count } = this.candidates;
    if (share.routers < count) return; // their shares keep them apart
    if (unseen.draw(prefillTokens, count, random)) addUnseenCosts(this.candidates, speeds, unseen.tokens);
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

  /** Returns the prompt tokens that a rank still has to prefill, decayed to `nowMs` by the rule of the cost model. */
  prefillTokensAt(rank: number, nowMs: number, costModel: KvRouterConfig['costModel']): number {
    const { load, pace } = this.#options;
    if (costModel === 'dynamo') return load.prefillTokensAt(rank, nowMs);
    const sum = load.prefillSum[rank] as number;
    if (sum === 0) return 0;
    const done = (nowMs - (load.oldestSinceMs[rank] as number)) / pace.msPerTokenOf(rank);
    return sum - Math.min(done, load.oldestTokens[rank] as number);
  }

  /** Returns the most prompt tokens that a candidate has cached; 0 if there are no candidates. */
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

  /** Returns the factor by which preferred taints multiply the cost of a rank; 1 for a pinned request. */
  factorOf(rank: number, { constraints, pinned }: SchedulingRequest): number {
    const preferred = constraints?.preferred_taints;
    if (preferred === undefined || pinned !== undefined) return 1;
    return taintFactor(preferred, this.#options.workers.ofRank(rank)?.taints ?? []);
  }

  #applyPreferences(request: SchedulingRequest): void {
    if (request.constraints?.preferred_taints === undefined) return;
    const { ranks, costs, count } = this.candidates;
    for (let at = 0; at < count; at++) costs[at]! *= this.factorOf(ranks[at] as number, request);
  }

  /**
   * Lowers the cost of the rank that is the prompt's home, as if it had cached the tokens of the home: other routers
   * have probably sent them there, and later prompts will find them there.
   */
  #favourHome({ request: { home }, weights, costModel }: WeighedRequest): void {
    if (home === undefined) return;
    const { blockSizeTokens, pace } = this.#options;
    const { costs, count } = this.candidates;
    let [at, heaviest] = [0, -1];
    for (let candidate = 0; candidate < count; candidate++) {
      const weight = weightOf(home.key, this.#seedAt(candidate));
      if (weight > heaviest) [at, heaviest] = [candidate, weight];
    }
    if (costModel === 'dynamo') costs[at]! -= (weights.prefillLoadScale / blockSizeTokens) * home.tokens;
    else subtractHomeSaving(this.candidates, at, (1 + laterWeight(this.candidates)) * pace.msPerToken * home.tokens);
  }

  /** Returns the one of the cheapest candidates that every router takes for the request. */
  #agreedAt(requestId: string, cheapestAt: number): number {
    const { costs, count } = this.candidates;
    const key = keyOfText(requestId);
    const blocks = this.#blocksAt(cheapestAt);
    let [at, heaviest] = [cheapestAt, -1];
    for (let candidate = 0; candidate < count; candidate++) {
      if (costs[candidate] !== costs[cheapestAt] || this.#blocksAt(candidate) !== blocks) continue;
      const weight = weightOf(key, this.#seedAt(candidate));
      if (weight > heaviest) [at, heaviest] = [candidate, weight];
    }
    return at;
  }

  /** Returns the blocks in a candidate's cache; 0 if ties do not depend on them. */
  #blocksAt(candidate: number): number {
    return this.#blocksOf?.(this.candidates.ranks[candidate] as number) ?? 0;
  }

  /** Returns a seed that is the same for this rank in every router. */
  #seedAt(candidate: number): number {
    const { ranks: table } = this.#options;
    const rank = this.candidates.ranks[candidate] as number;
    return seedOf(`${table.workerIdOf(rank)}/${table.dpRankOf(rank)}`);
  }

  /**
   * Returns the position of the rank that the request's session prefers; -1 if it prefers none or that rank is not a
   * candidate.
   */
  #preferredAt({ preferredWorker }: SchedulingRequest): number {
    if (preferredWorker === undefined) return -1;
    const rank = this.#options.ranks.find(preferredWorker.workerId, preferredWorker.dpRank);
    return rank === undefined ? -1 : this.candidates.ranks.subarray(0, this.candidates.count).indexOf(rank);
  }

  #select(request: SchedulingRequest, temperature: number, inputs: CostInputs, isAgreed: boolean): Choice {
    const { random } = this.#options;
    const { count } = this.candidates;
    if (request.pinned !== undefined && count === 1) return { at: 0, reason: 'pinned', inputs };
    if (count === 1) return { at: 0, reason: 'only', inputs };
    const preferredAt = this.#preferredAt(request);
    if (preferredAt !== -1) return { at: preferredAt, reason: 'session', inputs };
    if (temperature > 0) {
      this.#chances = roomy(this.#chances, count);
      return { at: drawByCost(this.candidates, temperature, random, this.#chances), reason: 'drawn', inputs };
    }
    const { at, ties } = selectLowest(this.candidates, random, this.#blocksOf);
    const isTie = ties > 1;
    return {
      at: isTie && isAgreed ? this.#agreedAt(request.id, at) : at,
      reason: isTie ? 'tie' : 'lowest-cost',
      inputs,
    };
  }
}

/** Position of the chosen candidate, and the number of candidates that cost as little. */
export interface Selected {
  /** Position among the candidates. */
  readonly at: number;
  readonly ties: number;
}

/**
 * Returns the candidate with the lowest cost. If several cost exactly as little, `blocksOf` decides: the one with the
 * fewest blocks in its cache wins. Without `blocksOf` each of them has the same chance. Needs at least one candidate.
 */
export function selectLowest(candidates: Candidates, random: Random, blocksOf?: (rank: number) => number): Selected {
  const { costs, count } = candidates;
  let chosen = 0;
  let lowest = costs[0] as number;
  let ties = 1;
  for (let at = 1; at < count; at++) {
    const cost = costs[at] as number;
    if (cost > lowest) continue;
    if (cost < lowest) {
      lowest = cost;
      chosen = at;
      ties = 1;
    } else {
      ties++;
      if (blocksOf === undefined && random.below(ties) === 0) chosen = at;
    }
  }
  if (ties > 1 && blocksOf !== undefined) chosen = fewestBlocks(candidates, lowest, blocksOf);
  return { at: chosen, ties };
}

function fewestBlocks({ costs, count, ranks }: Candidates, lowest: number, blocksOf: (rank: number) => number): number {
  let chosen = -1;
  let fewest = Number.POSITIVE_INFINITY;
  for (let at = 0; at < count; at++) {
    if (costs[at] !== lowest) continue;
    const blocks = blocksOf(ranks[at] as number);
    if (blocks >= fewest) continue;
    fewest = blocks;
    chosen = at;
  }
  return chosen;
}

/**
 * Draws a candidate by softmax over costs normalised to 0 .. 1, so that only their spread counts.
 * @param temperature above 0
 * @param weights scratch with room for every candidate; afterwards it holds the probabilities, not normalised
 */
export function drawByCost(
  { costs, count }: Candidates,
  temperature: number,
  random: Random,
  weights: Float64Array,
): number {
  let total = fillWeights(costs, count, temperature, weights);
  const drawn = random.next() * total;
  total = 0;
  for (let at = 0; at < count; at++) {
    total += weights[at] as number;
    if (drawn <= total) return at;
  }
  return count - 1;
}

/** Fills `weights` with numbers in proportion to each candidate's chance. Returns their sum. */
export function fillWeights(costs: Float64Array, count: number, temperature: number, weights: Float64Array): number {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < count; at++) {
    lowest = Math.min(lowest, costs[at] as number);
    highest = Math.max(highest, costs[at] as number);
  }
  // The scale has a bound, so that the lowest cost keeps its weight of 1 at the smallest temperatures.
  const scale = highest > lowest ? Math.min(Number.MAX_VALUE, 1 / ((highest - lowest) * temperature)) : 0;
  let total = 0;
  for (let at = 0; at < count; at++) {
    const weight = Math.exp(-((costs[at] as number) - lowest) * scale);
    weights[at] = weight;
    total += weight;
  }
  return total;
}
