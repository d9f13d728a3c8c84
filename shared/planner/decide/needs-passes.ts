import type { PlannerSignal } from '../../protocol/index.ts';
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
  if (config.law !== 'rate' || config.rateRequestsPerSecond != null) return undefined;
  return `${what}: --planner-config '{"rate_requests_per_second": N}' says what one serves (stator profile measures it)`;
}
