import type { RoutableWorker } from '../types.ts';

/**
 * Ids of the workers that have loaded an adapter, and of `pinnedId`, which is always kept; undefined when no worker says it
 * has, and then any may take the request.
 */
export function adapterHolders(
  workers: readonly RoutableWorker[],
  loraName: string,
  pinnedId: string | undefined,
): ReadonlySet<string> | undefined {
  const holders = workers.filter((worker) => worker.loraNames?.includes(loraName));
  if (holders.length === 0) return undefined;
  const ids = new Set(holders.map(({ id }) => id));
  if (pinnedId !== undefined) ids.add(pinnedId);
  return ids;
}
