import type { LaunchFailure, ObservedOption, ObservedPool } from '../live/connector.ts';
import type { OptionSpec } from '../options/fleet-spec.ts';
import { type PodOption, START_FACTOR } from './cluster-fleet.ts';
import type { SeenWorkload } from './read-workloads.ts';
import { isRollingOut, type Replica, seenReplicas } from './replicas.ts';

/** Facts that pods do not state. */
export interface PodFacts {
  readonly nowMs: number;
  /** Seconds from a new pod to a worker that serves, if starts were measured. */
  readonly startSeconds: number | undefined;
  /** Returns KV blocks in use on a replica; undefined if no worker of it was heard. */
  blocksOf(id: string): number | undefined;
  /** Returns whether a replica serves, or did. */
  hasServed(replica: Replica): boolean;
  /** Returns whether a replica may still have streams. */
  mayStream(replica: Replica, option: PodOption): boolean;
  /** Remembers the failure of an option, if there is one, and returns the newest that was seen. */
  lastFailure(option: string, failing: LaunchFailure | undefined): LaunchFailure | undefined;
}

/** Returns a pool as its workloads are. A workload that does not exist is an option without room. */
export function observePool(
  options: readonly OptionSpec[],
  seenOf: (option: string) => SeenWorkload | undefined,
  facts: PodFacts,
): ObservedPool {
  const total = { ready: 0, starting: 0, draining: 0, desired: 0, refreshing: false };
  const observed = options.map(({ id, min, max, gpusPerInstance: gpus }): ObservedOption => {
    const found = seenOf(id);
    const { own = gpus, shared } = found?.gpus ?? {};
    const unit = { replicas: 1, instances: 1, gpus: own, sharedGpus: shared };
    const none = { ready: 0, starting: 0, draining: 0, desired: 0, instances: [] };
    if (found === undefined) return { id, ...none, min: 0, max: 0, isAbsent: true, unit };
    const isRefreshing = isRollingOut(found.replicas);
    const option = { id, ...observeOption(id, found, isRefreshing, facts), min, max, unit };
    total.refreshing ||= isRefreshing;
    for (const count of ['ready', 'starting', 'draining', 'desired'] as const) total[count] += option[count];
    return option;
  });
  return { ...total, options: observed };
}

function observeOption(
  id: string,
  { option, scale, replicas }: SeenWorkload,
  isRefreshing: boolean,
  { startSeconds = 0, mayStream, lastFailure, ...facts }: PodFacts,
) {
  const { workload, unschedulableMs, startMsMax, optionCount } = option;
  const { instances, failing } = seenReplicas(replicas, {
    ...facts,
    kind: workload.kind,
    desired: scale.replicas,
    unschedulableMs,
    startMsMax: Math.max(startMsMax, 1000 * START_FACTOR * startSeconds),
    optionCount,
    isRefreshing,
    mayStream: (replica) => mayStream(replica, option),
  });
  const count = (state: string): number => instances.filter((each) => each.state === state).length;
  const counts = { ready: count('ready'), starting: count('starting'), draining: count('draining') };
  return { ...counts, desired: scale.replicas, failing, lastFailure: lastFailure(id, failing), instances };
}
