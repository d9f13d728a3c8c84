import { type AggregatedPool, unpackSortedKeys, unpackWorkerKeys, workerKey } from '../../protocol/index.ts';

/** Returns the keys of workers: of those on a known instance, and of the others. */
export function keysOfWorkers(
  workers: readonly string[],
  instances: readonly (string | null)[] = [],
): { readonly hosted: readonly number[]; readonly others: readonly number[] } {
  const hosted: number[] = [];
  const others: number[] = [];
  for (const [at, id] of workers.entries()) {
    const instance = instances[at] ?? undefined;
    (instance === undefined ? others : hosted).push(workerKey(id, instance));
  }
  return { hosted, others };
}

/** Returns the keys of all workers that an aggregated message names. */
export function keysOfPool({
  workers,
  instances,
  worker_keys: packed = '',
  hosted_keys: packedHosted = '',
}: Pick<AggregatedPool, 'workers' | 'instances' | 'worker_keys' | 'hosted_keys'>): readonly number[] {
  if (workers === undefined) return [...unpackWorkerKeys(packed), ...unpackSortedKeys(packedHosted)];
  const instanceOf = new Map(workers.map((id, at) => [id, instances?.[at] ?? undefined])); // an id counts once
  return [...instanceOf].map(([id, instance]) => workerKey(id, instance));
}

/** Whether `keys` has the worker. A process that aggregates may know its instance or not. */
export function hasWorker(keys: ReadonlySet<number>, id: string, instanceId: string | undefined): boolean {
  return keys.has(workerKey(id)) || (instanceId !== undefined && keys.has(workerKey(id, instanceId)));
}
