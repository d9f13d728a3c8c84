import { KubeFailure } from '../../discovery/index.ts';
import type { Pool } from '../types.ts';
import type { ClusterFleet, PodOption } from './cluster-fleet.ts';
import { type Replica, replicasOf } from './replicas.ts';
import type { Scale, WorkloadCalls } from './workload-calls.ts';

/** A workload as it was observed last. */
export interface SeenWorkload {
  readonly option: PodOption;
  readonly scale: Scale;
  readonly replicas: readonly Replica[];
}

/** Calls that read workloads. */
export type ReadCalls = Pick<WorkloadCalls, 'scaleOf' | 'podsOf' | 'where'>;

/** Returns the key of an option in what was seen. */
export function keyOf(pool: Pool, option: string): string {
  return `${pool}/${option}`;
}

/**
 * Reads all workloads of a fleet, with their pods. Returns those that exist, by pool and option.
 *
 * @throws KubeFailure that names the workload and, if a right is missing, where the rights are listed
 */
export async function readWorkloads(
  { workloads: pools }: Pick<ClusterFleet, 'workloads'>,
  calls: ReadCalls,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, SeenWorkload>> {
  const seen = new Map<string, SeenWorkload>();
  for (const [pool, workloads] of Object.entries(pools)) {
    for (const [id, option] of workloads) {
      const found = await look(option, calls, signal);
      if (found !== undefined) seen.set(keyOf(pool as Pool, id), found);
    }
  }
  return seen;
}

async function look(option: PodOption, calls: ReadCalls, signal: AbortSignal): Promise<SeenWorkload | undefined> {
  // The version is that of before the pods were read, so that a number is never set on newer facts than were seen.
  const scale = await explained(option, calls, () => calls.scaleOf(option.workload, signal));
  if (scale === undefined) return undefined;
  const pods = await explained(option, calls, () => calls.podsOf(scale.selector, signal));
  return { option, scale, replicas: replicasOf(option.workload.kind, pods) };
}

/** Adds to a failure what was asked for, and which right it needs. */
async function explained<T>(
  { workload: { kind, name } }: PodOption,
  { where }: ReadCalls,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    if (!(thrown instanceof KubeFailure)) throw thrown;
    const { isForbidden, status } = thrown;
    const hint = isForbidden ? '. Give the planner the rights that docs/planner.md lists' : '';
    throw new KubeFailure(status, `${kind}/${name} in ${where} cannot be read: ${thrown.message}${hint}`, thrown);
  }
}
