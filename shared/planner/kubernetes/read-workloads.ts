import { KubeFailure } from '../../discovery/index.ts';
import type { Pool } from '../types.ts';
import type { ClusterFleet, PodOption } from './cluster-fleet.ts';
import { type ClaimGpus, gpusOfClaims, gpusOfReplica, type WorkloadGpus } from './gpus.ts';
import type { Pod } from './pods.ts';
import { type Replica, replicasOf } from './replicas.ts';
import { isSelected, joinedSelectors, type Selector } from './selectors.ts';
import type { Scale, WorkloadCalls } from './workload-calls.ts';

/** A workload as it was observed last. */
export interface SeenWorkload {
  readonly option: PodOption;
  readonly scale: Scale;
  readonly replicas: readonly Replica[];
  /** GPUs of its replicas, as the pods state them; undefined: none states any, or they are not known yet. */
  readonly gpus: WorkloadGpus | undefined;
}

/** Calls that read workloads. */
export type ReadCalls = Pick<WorkloadCalls, 'scaleOf' | 'podsOf' | 'claims' | 'where'>;

/** Returns the key of an option in what was seen. */
export function keyOf(pool: Pool, option: string): string {
  return `${pool}/${option}`;
}

/**
 * Reads all workloads of a fleet, with their pods. Returns those that exist, by pool and option. It asks for all scales
 * at once, and then for the pods of all workloads together.
 *
 * @throws KubeFailure that says what cannot be read and, if a right is missing, where the rights are listed
 */
export async function readWorkloads(
  { workloads: pools }: Pick<ClusterFleet, 'workloads'>,
  calls: ReadCalls,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, SeenWorkload>> {
  const options = Object.entries(pools).flatMap(([pool, workloads]) =>
    [...workloads].map(([id, option]) => [keyOf(pool as Pool, id), option] as const),
  );
  // The versions are those of before the pods were read, so that a number is never set on newer facts than were seen.
  const scales = await Promise.all(
    options.map(async ([key, option]) => {
      const { kind, name } = option.workload;
      const scale = await explained(`${kind}/${name}`, calls, () => calls.scaleOf(option.workload, signal));
      return scale === undefined ? [] : [{ key, option, scale }];
    }),
  );
  const found = scales.flat();
  const pods = await readPods(
    found.map(({ scale }) => scale.selector),
    calls,
    signal,
  );
  const claims = await readClaims(pods, calls, signal);
  const counted = new Set<string>();
  return new Map(
    found.map(({ key, option, scale }) => {
      const own = pods.filter(({ labels }) => isSelected(labels, scale.selector));
      const replicas = replicasOf(option.workload.kind, own);
      return [key, { option, scale, replicas, gpus: gpusOf(replicas, claims, counted) }];
    }),
  );
}

/**
 * Reads a workload again that has another version than was seen. Returns undefined if someone has changed its number.
 */
export async function readAgain(
  { option, scale }: SeenWorkload,
  calls: ReadCalls,
  signal: AbortSignal,
): Promise<SeenWorkload | undefined> {
  const seen = await readWorkloads({ workloads: { decode: new Map([['again', option]]) } }, calls, signal);
  const now = seen.get(keyOf('decode', 'again'));
  return now?.scale.uid === scale.uid && now.scale.replicas === scale.replicas ? now : undefined;
}

/** Asks for claims only if pods have some, because it needs a right of its own. */
async function readClaims(pods: readonly Pod[], calls: ReadCalls, signal: AbortSignal): Promise<ClaimGpus> {
  if (pods.every(({ gpus }) => gpus.claims.length + gpus.sharedClaims.length === 0)) return new Map();
  return await explained('the resource claims', calls, () => calls.claims(signal));
}

/**
 * Returns the GPUs of the replicas of a workload. During a rollout, the larger template counts: the cluster may have to
 * hold both. Claims of other devices say nothing about GPUs.
 * @param counted claims that an earlier workload shares with this one; they count there
 */
function gpusOf(replicas: readonly Replica[], claims: ClaimGpus, counted: Set<string>): WorkloadGpus | undefined {
  const active = replicas.filter(({ isActive }) => isActive).map(({ pods }) => pods.map((pod) => pod.gpus));
  const known = active.flatMap((pods) => gpusOfReplica(pods, claims) ?? []);
  if (known.length === 0) return undefined;
  const own = Math.max(...known);
  const names = new Set(active.flatMap((pods) => pods.flatMap(({ sharedClaims }) => sharedClaims)));
  const shared = gpusOfClaims(new Set([...names].filter((name) => !counted.has(name))), claims);
  for (const name of names) counted.add(name);
  return shared === undefined || (own === 0 && gpusOfClaims(names, claims) === 0) ? undefined : { own, shared };
}

/** Returns the pods that the selectors choose, and perhaps others. A pod that several lists have counts once. */
async function readPods(selectors: readonly Selector[], calls: ReadCalls, signal: AbortSignal) {
  const pods = new Map<string, Pod>();
  for (const selector of joinedSelectors(selectors)) {
    const listed = await explained('the pods of workers', calls, () => calls.podsOf(selector, signal));
    for (const pod of listed) pods.set(pod.uid, pod);
  }
  return [...pods.values()];
}

/** Adds to a failure what was asked for, and where the rights are listed if one is missing. */
async function explained<T>(what: string, { where }: ReadCalls, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    if (!(thrown instanceof KubeFailure)) throw thrown;
    const { isForbidden, status } = thrown;
    const hint = isForbidden ? '. Give the planner the rights that docs/planner.md lists' : '';
    throw new KubeFailure(status, `${what} in ${where} cannot be read: ${thrown.message}${hint}`, thrown);
  }
}
