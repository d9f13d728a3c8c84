import type { OptionView } from '../record/option-view.ts';
import type { Pool } from '../types.ts';
import type { Observed, ObservedOption, ObservedPool } from './connector.ts';

/** Returns the options of a fleet as its environment lists them; undefined if it counts no workers. */
export function viewOf({ pools }: Observed): readonly OptionView[] | undefined {
  if (pools === undefined) return undefined;
  return Object.entries(pools).flatMap(([name, pool]) => {
    const of = name as Pool;
    return pool.options.length === 0 ? [viewOfPool(of, pool)] : pool.options.map((option) => viewOfOption(of, option));
  });
}

function viewOfPool(pool: Pool, { ready, starting, draining, desired }: ObservedPool): OptionView {
  const ordered = Math.max(0, desired - ready - starting);
  return { pool, key: pool, serving: ready, starting, draining, ordered };
}

function viewOfOption(pool: Pool, option: ObservedOption): OptionView {
  const { id, ready, starting, draining, desired, instances, failing, lastFailure, unit } = option;
  const workersPerInstance = unit === undefined ? 1 : unit.replicas / unit.instances;
  const workers = (count: number): number => count * workersPerInstance;
  const gpusPerInstance = (unit?.gpus ?? 0) + (unit?.sharedGpus ?? 0) / Math.max(1, instances.length);
  return {
    pool,
    key: `${pool}/${id}`,
    serving: workers(ready),
    starting: workers(starting),
    draining: workers(draining),
    ordered: workers(Math.max(0, desired - ready - starting)),
    startingIds: instances.flatMap((each) => (each.state === 'starting' ? [each.id] : [])),
    gpusPerWorker: unit === undefined ? undefined : gpusPerInstance / workersPerInstance,
    failure: failing ?? lastFailure,
  };
}
