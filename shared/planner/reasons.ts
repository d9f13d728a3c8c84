import type { RateDecision, RateOutcome } from './laws/rate.ts';
import type { LoopOutcome } from './loops.ts';
import type { PerPool, PoolCounts } from './types.ts';

const LOAD_SENTENCES: Readonly<Record<string, string>> = {
  disabled: 'the load loop is off',
  no_fpm_data: 'no engine has reported its passes',
  scaling_in_progress: 'an earlier decision is still being carried out',
  worker_count_mismatch: 'other workers report than are ready',
  insufficient_data: 'too few passes are known to tell how long they take',
  no_change: 'the load is between its thresholds',
  scale_up: 'the load is above its threshold',
  scale_down: 'the load would stay below its threshold with one worker less',
  scale_down_capped_by_throughput: 'one worker less would do now, but not for the traffic that is expected',
  scale_down_refused_consolidation: 'one worker less would bring the others too near to their targets',
  gpu_budget_guard_hold: 'the GPU budget leaves no room for the change',
  gpu_budget_reconcile: 'the pools are outside the GPU budget and are brought back into it',
};

const THROUGHPUT_SENTENCES: Readonly<Record<string, string>> = {
  no_traffic_data: 'no traffic was measured',
  model_not_ready: 'too few passes are known to tell what an engine serves',
  set_lower_bound: 'the expected traffic sets the least number of workers',
  scale: 'the expected traffic needs another number of workers',
  no_change: 'the expected traffic needs as many workers as there are',
  gpu_budget_guard_hold: 'the GPU budget leaves no room for what the expected traffic needs',
  gpu_budget_reconcile: 'the pools are outside the GPU budget and are brought back into it',
};

/** Why Dynamo's loops decided as they did, in a sentence. */
export function explainLoops({ targets, load, throughput }: LoopOutcome, counts: PerPool<PoolCounts>): string {
  const parts = [
    load?.reason && load.reason !== 'disabled' ? LOAD_SENTENCES[load.reason] : undefined,
    throughput && THROUGHPUT_SENTENCES[throughput.reason],
  ].filter((part) => part !== undefined);
  const why = parts.length > 0 ? parts.join('; ') : 'no loop is due';
  return `${moves(targets ?? {}, counts)}: ${why}`;
}

/** Why the rate law did. */
export function explainRate({ targets, pools, unknown }: RateOutcome, counts: PerPool<PoolCounts>): string {
  const what = moves(targets ?? {}, counts);
  if (unknown === 'demand') return `${what}: nobody who counts requests was heard, so the demand is unknown`;
  if (unknown === 'capacity') return `${what}: nothing is known yet of what a worker serves`;
  const sentences = Object.entries(pools).map(([pool, decision]) => {
    const { need, perEngine, held, behind, limitedBy } = decision;
    const name = Object.keys(pools).length > 1 ? `${pool} ` : '';
    const waiting = held > 0 ? ` and ${held} wait` : '';
    const late = behind > 0 ? ` and ${behind} will not have caught up` : '';
    const limit = limitedBy === undefined ? '' : `, ${LIMITS[limitedBy]}`;
    return `${name}${demandOf(decision)}${waiting}, a worker serves ${shown(perEngine)}${late}: ${need} needed${limit}`;
  });
  return `${what}: ${sentences.join('; ') || 'nothing was asked'}`;
}

function demandOf({ rate, arrivals, forecast, surge, isForSurge, isPassing }: RateDecision): string {
  const now = `${shown(arrivals)} requests/s begin`;
  if (isForSurge) return `a burst of ${shown(surge)} requests/s may come (${shown(arrivals)} now)`;
  if (isPassing) return `${now}, a burst that will be over before a worker serves`;
  if (rate < Math.max(arrivals, forecast)) return `${now}, ${shown(rate)} for as long as counts`;
  return forecast > arrivals ? `${shown(forecast)} requests/s are expected (${shown(arrivals)} now)` : now;
}

const LIMITS = {
  budget: 'within the GPU budget',
  step: 'as far as one step goes',
  'down window': 'and what was needed a short while ago is kept',
  minimum: 'and the minimum is kept',
} as const;

function moves(targets: PerPool<number>, counts: PerPool<PoolCounts & { readonly starting?: number }>): string {
  const changed = Object.entries(targets).flatMap(([pool, target]) => {
    const now = counts[pool as keyof typeof counts];
    const have = (now?.ready ?? 0) + (now?.starting ?? 0);
    return target === have ? [] : [`${pool} ${have} -> ${target}`];
  });
  return changed.length === 0 ? 'no change' : changed.join(', ');
}

function shown(rate: number): string {
  return rate >= 10 ? rate.toFixed(0) : rate.toFixed(1);
}
