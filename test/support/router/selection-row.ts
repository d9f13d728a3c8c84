import { Overlaps } from '../../../shared/block-index/prefix-index.ts';
import { RankTable } from '../../../shared/block-index/rank-table.ts';
import { describeFailure } from '../../../shared/router/router.ts';
import { fillWeights } from '../../../shared/scheduler/chooser.ts';
import { Candidates, type CostInputs, type DynamoWeights, fillDynamoCosts } from '../../../shared/scheduler/cost.ts';
import { fillEligible, taintFactor } from '../../../shared/scheduler/eligibility.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { readGivenConfig, weightsFor } from '../../../shared/scheduler/kv-config-sources.ts';
import type { SchedulingRequest } from '../../../shared/scheduler/types.ts';
import { WorkerSet } from '../../../shared/scheduler/worker-set.ts';
import { difference } from './row.ts';

type Rank = readonly [worker: number, rank: number];

/** A line of selection.jsonl: one decision of release 1.6.1. */
export interface SelectionCase {
  readonly id: string;
  readonly note?: string;
  readonly block_size: number;
  readonly isl: number;
  readonly workers: readonly { id: number; dp_start: number; dp_size: number; taints: readonly string[] }[];
  readonly loads: readonly {
    readonly id: number;
    readonly rank: number;
    readonly active_prefill_tokens: number;
    readonly active_decode_blocks: number;
    readonly additional_active_blocks: number;
    readonly active_requests: number;
  }[];
  readonly overlap: readonly { id: number; rank: number; device: number; host: number; disk: number }[];
  readonly config: Readonly<Record<string, unknown>>;
  readonly override?: SchedulingRequest['override'];
  readonly label?: string;
  readonly overloaded?: readonly number[];
  readonly pinned?: Rank;
  readonly allowed?: readonly number[];
  readonly required?: readonly string[];
  readonly preferred?: Readonly<Record<string, number>>;
  readonly shared?: readonly (readonly [number, number])[];
  readonly track_prefill_tokens?: boolean;
  readonly expect: {
    readonly costs?: readonly (readonly [number, number, number])[];
    readonly chosen_any_of?: readonly Rank[];
    readonly probabilities?: readonly (readonly [number, number, number])[];
    readonly error?: string;
    readonly overload?: boolean;
    readonly config_error?: string;
    readonly selected_meta?: {
      readonly cached_tokens: number;
      readonly effective_overlap_blocks: number;
      readonly required_blocks: number;
    };
  };
}

const hex = (id: number | string): string => BigInt(id).toString(16);
const ids = (numbers: readonly number[] | undefined) => numbers && new Set(numbers.map(hex));

function requestOf({ override, overloaded, pinned, allowed, required, preferred, shared, isl }: SelectionCase) {
  const constraints = {
    ...(required && { required_taints: required }),
    ...(preferred && { preferred_taints: preferred }),
  };
  const request: SchedulingRequest = {
    id: 'r',
    promptTokens: isl,
    hashes: { local: new Uint32Array(0), sequence: new Uint32Array(0) },
    override,
    busyWorkers: ids(overloaded),
    allowedWorkers: ids(allowed),
    pinned: pinned && { workerId: hex(pinned[0]), dpRank: pinned[1] },
    constraints,
    sharedRanges: shared,
  };
  return request;
}

function decide(selection: SelectionCase) {
  const ranks = new RankTable();
  const workers = new WorkerSet(ranks);
  workers.replace(
    selection.workers.map(({ id, dp_start, dp_size, taints }) => ({
      id: hex(id),
      dataParallelStartRank: dp_start,
      dataParallelSize: dp_size,
      taints,
      totalKvBlocks: undefined,
      maxNumBatchedTokens: undefined,
    })),
  );
  const request = requestOf(selection);
  const candidates = new Candidates();
  const failure = fillEligible(request, workers, candidates);
  if (failure !== undefined) return { failure };

  const config = kvRouterConfig(readGivenConfig(selection.config));
  const weights: DynamoWeights = {
    ...config,
    ...weightsFor(config, selection.override),
    ...(selection.track_prefill_tokens === false && { trackPrefillTokens: false }),
    isDecodePool: selection.label === 'decode',
  };
  fillDynamoCosts(candidates, inputsOf(selection, ranks, candidates), weights);
  const preferred = selection.pinned === undefined ? (selection.preferred ?? {}) : {};
  for (let at = 0; at < candidates.count; at++) {
    const worker = workers.ofRank(candidates.ranks[at]!);
    candidates.costs[at]! *= taintFactor(preferred, worker?.taints ?? []);
  }
  return { candidates, ranks, temperature: weights.routerTemperature };
}

function inputsOf(selection: SelectionCase, ranks: RankTable, candidates: Candidates): CostInputs {
  const capacity = ranks.capacity;
  const overlaps = new Overlaps(capacity);
  const activeBlocks = new Float64Array(capacity);
  const activeRequests = new Float64Array(capacity);
  const added = new Float64Array(capacity);
  const prefill = new Float64Array(capacity);
  const rankOf = (id: number, dpRank: number) => ranks.find(hex(id), dpRank);
  for (const load of selection.loads) {
    const rank = rankOf(load.id, load.rank);
    if (rank === undefined) continue;
    activeBlocks[rank] = load.active_decode_blocks;
    activeRequests[rank] = load.active_requests;
    added[rank] = load.additional_active_blocks;
    prefill[rank] = load.active_prefill_tokens;
  }
  for (const held of selection.overlap) {
    const rank = rankOf(held.id, held.rank);
    if (rank === undefined) continue;
    overlaps.touch(rank);
    overlaps.device[rank] = held.device;
    overlaps.host[rank] = held.host;
    overlaps.disk[rank] = held.disk;
  }
  for (let at = 0; at < candidates.count; at++) candidates.prefillTokens[at] = prefill[candidates.ranks[at]!]!;
  const hashedBlocks = Math.max(0, ...added);
  const sharedDepths = Uint32Array.from(added, (blocks) => hashedBlocks - blocks);
  return {
    blockSizeTokens: selection.block_size,
    promptTokens: selection.isl,
    hashedBlocks,
    overlaps,
    activeBlocks,
    sharedDepths,
    activeRequests,
    sharedRanges: selection.shared,
  };
}

/** Failures that mean a full fleet, not a missing one. */
const OVERLOADS = ['AllEligibleWorkersOverloaded', 'PinnedWorkerOverloaded', 'QueueRejected'];

/** Scores and draws for a case. Returns the differences from the record. */
export function playSelection(selection: SelectionCase): readonly string[] {
  const { expect: wanted } = selection;
  if (wanted.config_error !== undefined) return refusedConfig(selection, wanted.config_error);
  const { failure, candidates, ranks, temperature } = decide(selection);
  if (wanted.error !== undefined || candidates === undefined) {
    return [
      ...difference('error', wanted.error, failure && describeFailure(failure)),
      ...difference('overload', wanted.overload, failure && OVERLOADS.includes(failure.kind)),
    ];
  }
  const { costs, count } = candidates;
  const found = Array.from({ length: count }, (_, at) => candidates.ranks[at]!).map(
    (rank) => `${ranks.workerIdOf(rank)} ${ranks.dpRankOf(rank)}`,
  );
  const nameOf = ([id, rank]: Rank): string => `${hex(id)} ${rank}`;
  const failures = [...difference('candidates', wanted.costs?.length, count)];
  for (const [id, rank, cost] of wanted.costs ?? []) {
    const mine = costs[found.indexOf(nameOf([id, rank]))];
    const isSame = mine !== undefined && Math.abs(mine - cost) <= COST_TOLERANCE * Math.abs(cost);
    if (!isSame) failures.push(`cost of ${nameOf([id, rank])}: expected ${cost}, got ${mine}`);
  }
  if (wanted.chosen_any_of !== undefined) {
    const least = Math.min(...costs.subarray(0, count));
    const cheapest = found.filter((_, at) => costs[at] === least);
    failures.push(...difference('chosen', wanted.chosen_any_of.map(nameOf).sort(), cheapest.sort()));
  }
  const chances = new Float64Array(count);
  const total = fillWeights(costs, count, temperature, chances);
  for (const [id, rank, chance] of wanted.probabilities ?? []) {
    const mine = chances[found.indexOf(nameOf([id, rank]))]! / total;
    if (!(Math.abs(mine - chance) <= CHANCE_TOLERANCE)) {
      failures.push(`probability of ${nameOf([id, rank])}: expected ${chance}, got ${mine}`);
    }
  }
  return failures;
}

/** Relative tolerance. Costs were recorded exactly. */
const COST_TOLERANCE = 1e-9;
/** Tolerance of probabilities, which were recorded to six digits. */
const CHANCE_TOLERANCE = 5e-7;

function refusedConfig({ config }: SelectionCase, wanted: string): readonly string[] {
  try {
    kvRouterConfig(readGivenConfig(config));
    return [`configuration: expected "${wanted}", but it was accepted`];
  } catch (thrown) {
    const { message } = thrown as Error;
    return message.includes(wanted) ? [] : difference('configuration', wanted, message);
  }
}
