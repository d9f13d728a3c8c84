/** Bounds of the GPUs of all pools together; a negative one is off. */
export interface GpuBounds {
  readonly min: number;
  readonly max: number;
}

/** Counts of the two pools of a disaggregated fleet. */
export interface PoolPair {
  readonly prefill: number;
  readonly decode: number;
}

/** Limits of a pair: the GPUs of a worker of each pool, and the fewest workers. */
export interface PairLimits {
  readonly gpus: PoolPair;
  readonly bounds: GpuBounds;
  readonly endpointsMin: PoolPair;
}

export type BudgetReason = 'gpu_budget_guard_hold' | 'gpu_budget_reconcile';

interface GuardedPair {
  readonly counts: PoolPair;
  readonly reason?: BudgetReason;
}

const NO_WORKERS: PoolPair = { prefill: 0, decode: 0 };

export function gpusOf(counts: PoolPair, gpus: PoolPair): number {
  return counts.prefill * gpus.prefill + counts.decode * gpus.decode;
}

function isKnown(gpus: PoolPair): boolean {
  return gpus.prefill > 0 && gpus.decode > 0;
}

/** Engines of several GPUs cannot meet both bounds to the GPU: the floor gives way by one engine. */
function toleranceOf(gpus: PoolPair, bounds: GpuBounds): number {
  return bounds.min >= 0 && bounds.max >= 0 ? Math.max(gpus.prefill, gpus.decode) : 0;
}

function isInBand(total: number, { min, max }: GpuBounds, tolerance: number): boolean {
  return (max < 0 || total <= max) && (min < 0 || total >= min - tolerance);
}

/** Returns whether a number of GPUs is within the bounds, to an engine of the largest size. */
export function fitsBudget(total: number, gpusOfEngine: number, bounds: GpuBounds): boolean {
  return isInBand(total, bounds, bounds.min >= 0 && bounds.max >= 0 ? gpusOfEngine : 0);
}

/**
 * Returns one pool's count within the bounds: cut to the ceiling or raised to the floor; 0 if not even the minimum
 * fits.
 */
export function clampSingle(count: number, gpus: number, { min, max }: GpuBounds, endpointsMin: number): number {
  if (gpus <= 0) return count;
  const total = count * gpus;
  if (max >= 0 && total > max) return endpointsMin * gpus > max ? 0 : Math.max(endpointsMin, Math.floor(max / gpus));
  const tolerance = min >= 0 && max >= 0 ? gpus : 0;
  if (min >= 0 && total < min - tolerance) return Math.max(endpointsMin, Math.ceil(min / gpus));
  return count;
}

/** Returns two pools' counts within the bounds, kept in proportion; zeros if not even the minimums fit. */
export function clampPair(counts: PoolPair, limits: PairLimits): PoolPair {
  const { gpus, bounds } = limits;
  if (!isKnown(gpus)) return counts;
  const total = gpusOf(counts, gpus);
  if (bounds.max >= 0 && total > bounds.max) return cutToCeiling(counts, total, limits);
  if (bounds.min >= 0 && total < bounds.min - toleranceOf(gpus, bounds)) return raiseToFloor(counts, total, limits);
  return counts;
}

function cutToCeiling(counts: PoolPair, total: number, { gpus, bounds: { max }, endpointsMin }: PairLimits): PoolPair {
  if (gpusOf(endpointsMin, gpus) > max) return NO_WORKERS;
  const fits = Math.floor((max - endpointsMin.decode * gpus.decode) / gpus.prefill);
  const share = Math.floor(counts.prefill * (max / total));
  const prefill = Math.max(endpointsMin.prefill, Math.min(fits, share));
  const decode = Math.max(endpointsMin.decode, Math.floor((max - prefill * gpus.prefill) / gpus.decode));
  return { prefill, decode };
}

function raiseToFloor(counts: PoolPair, total: number, limits: PairLimits): PoolPair {
  const { gpus, bounds, endpointsMin } = limits;
  const share = total === 0 ? bounds.min / 2 / gpus.prefill : (counts.prefill * bounds.min) / total;
  const prefill = Math.max(endpointsMin.prefill, Math.ceil(share));
  const rest = Math.ceil(Math.max(0, bounds.min - prefill * gpus.prefill) / gpus.decode);
  const wanted = Math.max(endpointsMin.decode, rest);
  const raised = { prefill, decode: Math.max(counts.decode, wanted) }; // more prefill must not mean less decode
  if (bounds.max < 0 || gpusOf(raised, gpus) <= bounds.max) return raised;
  return wanted < counts.decode ? fitDirectional(counts, { prefill, decode: counts.decode }, limits) : counts;
}

/**
 * Returns the pair between `current` and `proposal` that is nearest to the proposal within the bounds. Ties go to the
 * pair that moves both pools alike, then to the one that moves most, then to the smaller prefill and decode. If the
 * proposal grows one pool and shrinks the other, both move or none. Returns `current` if there is no such pair.
 */
export function fitDirectional(current: PoolPair, proposal: PoolPair, limits: PairLimits): PoolPair {
  const { gpus, bounds, endpointsMin } = limits;
  const tolerance = bounds.max >= 0 ? Math.max(gpus.prefill, gpus.decode) : 0;
  const [spanOfPrefill, spanOfDecode] = [proposal.prefill - current.prefill, proposal.decode - current.decode];
  const isOpposed = spanOfPrefill * spanOfDecode < 0;
  let best: { readonly pair: PoolPair; readonly rank: readonly number[] } | undefined;
  for (const prefill of between(current.prefill, proposal.prefill)) {
    for (const decode of between(current.decode, proposal.decode)) {
      if (prefill < endpointsMin.prefill || decode < endpointsMin.decode) continue;
      const pair = { prefill, decode };
      if (!isInBand(gpusOf(pair, gpus), bounds, tolerance)) continue;
      const moved = [Math.abs(prefill - current.prefill), Math.abs(decode - current.decode)] as const;
      if (isOpposed && (moved[0] === 0 || moved[1] === 0)) continue;
      const missing = Math.abs(proposal.prefill - prefill) + Math.abs(proposal.decode - decode);
      const skew = Math.abs(moved[0] * Math.abs(spanOfDecode) - moved[1] * Math.abs(spanOfPrefill));
      const rank = [missing, skew, -(moved[0] + moved[1]), prefill, decode];
      if (best === undefined || isBefore(rank, best.rank)) best = { pair, rank };
    }
  }
  return best?.pair ?? current;
}

function between(from: number, to: number): readonly number[] {
  const step = to < from ? -1 : 1;
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, at) => from + step * at);
}

function isBefore(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at >= 0 && one[at]! < other[at]!;
}

/**
 * Returns a proposal for one pool within the bounds: held if it would leave them, corrected if the pool is outside
 * already.
 */
export function guardSingle(
  current: number,
  proposal: number,
  gpus: number,
  bounds: GpuBounds,
  endpointsMin: number,
): { readonly count: number; readonly reason?: BudgetReason } {
  if (gpus <= 0 || (bounds.min < 0 && bounds.max < 0)) return { count: proposal };
  const total = current * gpus;
  const tolerance = bounds.min >= 0 && bounds.max >= 0 ? gpus : 0;
  if (!isInBand(total, bounds, tolerance)) {
    return { count: clampSingle(current, gpus, bounds, endpointsMin), reason: 'gpu_budget_reconcile' };
  }
  const held = { count: current, reason: 'gpu_budget_guard_hold' } as const;
  if (bounds.min >= 0 && total <= bounds.min && proposal < current) return held;
  if (bounds.max >= 0 && total >= bounds.max && proposal > current) return held;
  const count = clampSingle(proposal, gpus, bounds, endpointsMin);
  return count < Math.min(current, proposal) || count > Math.max(current, proposal) ? held : { count };
}

/** The same for two pools at once. */
export function guardPair(current: PoolPair, proposal: PoolPair, limits: PairLimits): GuardedPair {
  const { gpus, bounds } = limits;
  if (!isKnown(gpus) || (bounds.min < 0 && bounds.max < 0)) return { counts: proposal };
  const tolerance = bounds.max >= 0 ? Math.max(gpus.prefill, gpus.decode) : 0;
  const total = gpusOf(current, gpus);
  if (!isInBand(total, bounds, tolerance))
    return { counts: clampPair(current, limits), reason: 'gpu_budget_reconcile' };
  const held = { counts: current, reason: 'gpu_budget_guard_hold' } as const;
  const moves = [Math.sign(proposal.prefill - current.prefill), Math.sign(proposal.decode - current.decode)] as const;
  const isOpposed = moves.includes(1) && moves.includes(-1);
  const isAtFloor = bounds.min >= 0 && total <= bounds.min;
  const isAtCeiling = bounds.max >= 0 && total >= bounds.max;
  if (isAtFloor && moves.includes(-1) && !isOpposed) return held;
  if (isAtCeiling && moves.includes(1) && !isOpposed) return held;
  if ((isAtFloor || isAtCeiling) && isOpposed) {
    const counts = fitDirectional(current, proposal, limits); // one pool gives to the other, or neither moves
    return isSame(counts, current) ? held : { counts };
  }
  const counts = clampPair(proposal, limits);
  const isFaithful =
    isOnTheWay(counts.prefill, current.prefill, proposal.prefill) &&
    isOnTheWay(counts.decode, current.decode, proposal.decode) &&
    isInBand(gpusOf(counts, gpus), bounds, tolerance);
  return isFaithful ? { counts } : held;
}

/**
 * Does the same as `guardPair`, but first raises a pool to its minimum, at the cost of the other pool if there is no
 * other room.
 */
export function settlePair(current: PoolPair, proposal: PoolPair, limits: PairLimits): GuardedPair {
  if (!isShort(current, limits)) return guardPair(current, proposal, limits);
  return { counts: clampPair(atLeast(proposal, limits.endpointsMin), limits), reason: 'gpu_budget_reconcile' };
}

/** Returns a pair of least counts, within the ceiling only. */
export function fitCeiling(current: PoolPair, proposal: PoolPair, limits: PairLimits): PoolPair {
  const ceiling = { ...limits, bounds: { min: -1, max: limits.bounds.max } };
  return isShort(current, limits)
    ? clampPair(atLeast(proposal, limits.endpointsMin), ceiling)
    : fitDirectional(current, proposal, ceiling);
}

function isShort(counts: PoolPair, { endpointsMin }: PairLimits): boolean {
  return counts.prefill < endpointsMin.prefill || counts.decode < endpointsMin.decode;
}

function atLeast(counts: PoolPair, least: PoolPair): PoolPair {
  return { prefill: Math.max(counts.prefill, least.prefill), decode: Math.max(counts.decode, least.decode) };
}

function isOnTheWay(count: number, current: number, proposal: number): boolean {
  return count >= Math.min(current, proposal) && count <= Math.max(current, proposal);
}

function isSame(one: PoolPair, other: PoolPair): boolean {
  return one.prefill === other.prefill && one.decode === other.decode;
}
