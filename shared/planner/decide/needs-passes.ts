import type { PlannerSignal } from '../../protocol/index.ts';
import type { PlannerConfig } from '../config.ts';
import { poolsOf } from '../laws/pools.ts';
import { measuredCapacity } from '../laws/rate.ts';
import type { Planner } from '../planner.ts';

/** Returns why a law cannot work with the engines of a report; undefined if it can, or if nothing serves. */
export function missingPasses(planner: Planner, signal: PlannerSignal): string | undefined {
  if (signal.type === 'worker.rollup') {
    return signal.has_passes ? undefined : refusalOf(planner, `the engine of worker ${signal.worker_id} does not say`);
  }
  if (signal.type !== 'model.rollup') return undefined;
  const silent = Object.entries(signal.pools).find(
    ([, { has_passes: hasPasses, workers, worker_keys: keys = '' }]) => !hasPasses && (workers ?? keys).length > 0,
  );
  return silent && refusalOf(planner, `engines of the pool ${silent[0]} do not say`);
}

function refusalOf({ config }: Planner, who: string): string | undefined {
  const what = `${who} how long its passes take`;
  if (config.law === 'sla') {
    return `law sla asks for that, and ${what}; allowed for such engines: rate, throughput, latency, load`;
  }
  const missing = missingRates(config).map((key) => `"${key}": N`);
  if (missing.length === 0) return undefined;
  return `${what}: --planner-config '{${missing.join(', ')}}' says what one serves (stator profile measures it)`;
}

/**
 * Returns the keys of the configuration that the law `rate` lacks to know a measured rate for each pool. If it lacks
 * any, it works only with engines that report how long their passes take.
 */
export function missingRates(config: PlannerConfig): readonly string[] {
  if (config.law !== 'rate') return [];
  const pools = poolsOf(config).filter((pool) => measuredCapacity(pool, config) == null);
  return pools.map((pool) => (config.mode === 'agg' ? 'rate_requests_per_second' : `rate_${pool}_requests_per_second`));
}
