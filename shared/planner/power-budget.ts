import { clampPair, fitDirectional, gpusOf, type PairLimits, type PoolPair } from './gpu-budget.ts';

export type PowerReason = 'power_budget_clamped' | 'power_budget_scale_up_suppressed' | 'power_rebalance_staged';

interface Limited {
  readonly proposal: Partial<PoolPair>;
  readonly reason?: PowerReason;
}

/** Limits of power. */
export interface PowerLimits {
  /** Watts of one worker; 0 for a pool whose watts are not stated. */
  readonly watts: PoolPair;
  readonly wattsMax: number;
  readonly endpointsMin: PoolPair;
}

/**
 * Limits a proposal to the watts, and never adds workers to it. A pool without a proposal counts with its current
 * workers and stays. If one pool grows and the other shrinks, and both together would draw too much on the way, the
 * shrinking comes first.
 */
export function limitPower(proposal: Partial<PoolPair>, current: PoolPair, limits: PowerLimits): Limited {
  const { watts, wattsMax } = limits;
  const wanted = { ...current, ...proposal };
  const isPair = isAdjustable('prefill', proposal, limits) && isAdjustable('decode', proposal, limits);
  const staged = isPair ? staging(wanted, current, limits) : undefined;
  if (staged !== undefined) return staged;
  if (gpusOf(wanted, watts) <= wattsMax) return { proposal };
  if (isPair) return shrinkPair(wanted, current, limits);
  const pools = (['prefill', 'decode'] as const).filter((pool) => isAdjustable(pool, proposal, limits));
  const [only] = pools;
  return only === undefined ? { proposal } : shrinkSingle(only, proposal, current, limits);
}

function isAdjustable(pool: keyof PoolPair, proposal: Partial<PoolPair>, { watts }: PowerLimits): boolean {
  return proposal[pool] !== undefined && watts[pool] > 0;
}

/**
 * Returns the proposal in which one pool shrinks and the other waits for its room; undefined if both may move at once.
 */
function staging(wanted: PoolPair, current: PoolPair, { watts, wattsMax }: PowerLimits): Limited | undefined {
  const moves = [wanted.prefill - current.prefill, wanted.decode - current.decode] as const;
  if (moves[0] * moves[1] >= 0) return undefined;
  const peak = {
    prefill: Math.max(wanted.prefill, current.prefill),
    decode: Math.max(wanted.decode, current.decode),
  };
  if (gpusOf(peak, watts) <= wattsMax) return undefined;
  const proposal = {
    prefill: Math.min(wanted.prefill, current.prefill),
    decode: Math.min(wanted.decode, current.decode),
  };
  return { proposal, reason: 'power_rebalance_staged' };
}

/**
 * Limits two pools. Pools within the watts move as far as they ask and can; pools that draw too much are cut in
 * proportion.
 */
function shrinkPair(wanted: PoolPair, current: PoolPair, limits: PowerLimits): Limited {
  const { watts, wattsMax, endpointsMin } = limits;
  const pair: PairLimits = { gpus: watts, bounds: { min: -1, max: wattsMax }, endpointsMin };
  if (gpusOf(current, watts) <= wattsMax) {
    return { proposal: fitDirectional(current, wanted, pair), reason: 'power_budget_clamped' };
  }
  const cut = clampPair(wanted, pair);
  const fitted = { prefill: Math.min(cut.prefill, wanted.prefill), decode: Math.min(cut.decode, wanted.decode) };
  return staging(fitted, current, limits) ?? { proposal: fitted, reason: 'power_budget_clamped' };
}

/**
 * Limits one pool beside another that stays. If that one leaves no room for the minimum, the proposal waits, and the
 * pool does not shrink.
 */
function shrinkSingle(
  pool: keyof PoolPair,
  proposal: Partial<PoolPair>,
  current: PoolPair,
  { watts, wattsMax, endpointsMin }: PowerLimits,
): Limited {
  const wanted = proposal[pool] ?? 0;
  const other = pool === 'prefill' ? 'decode' : 'prefill';
  const roomWatts = wattsMax - (proposal[other] ?? current[other]) * watts[other];
  const isCrowdedOut = roomWatts < endpointsMin[pool] * watts[pool];
  const count = isCrowdedOut
    ? Math.min(wanted, current[pool])
    : Math.max(endpointsMin[pool], Math.min(wanted, Math.floor(roomWatts / watts[pool])));
  if (count === wanted) return { proposal };
  const reason = isCrowdedOut ? 'power_budget_scale_up_suppressed' : 'power_budget_clamped';
  return { proposal: { ...proposal, [pool]: count }, reason };
}
