import type { Random } from '../../clock/index.ts';
import type { Candidates } from '../cost/candidates.ts';

/** Which candidate, and whether others were as good. */
export interface Selected {
  /** Position among the candidates. */
  readonly at: number;
  readonly ties: number;
}

/**
 * The lowest cost; of several exactly as low the one with the fewest blocks in its cache when `blocksOf` is given, else any,
 * each with the same chance. Needs at least one candidate.
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
 * A draw by softmax over costs normalised to 0 .. 1: only their spread counts.
 * @param temperature above 0
 * @param weights scratch with room for every candidate; holds the probabilities, not normalised, when done
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

/** Fills `weights` with numbers in proportion to each candidate's chance; returns their sum. */
export function fillWeights(costs: Float64Array, count: number, temperature: number, weights: Float64Array): number {
  let lowest = Number.POSITIVE_INFINITY;
  let highest = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < count; at++) {
    lowest = Math.min(lowest, costs[at] as number);
    highest = Math.max(highest, costs[at] as number);
  }
  // Bounded, so that the lowest cost keeps its weight of 1 at the smallest temperatures.
  const scale = highest > lowest ? Math.min(Number.MAX_VALUE, 1 / ((highest - lowest) * temperature)) : 0;
  let total = 0;
  for (let at = 0; at < count; at++) {
    const weight = Math.exp(-((costs[at] as number) - lowest) * scale);
    weights[at] = weight;
    total += weight;
  }
  return total;
}
