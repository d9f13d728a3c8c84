import type { LaunchFailure, ObservedInstance } from '../live/connector.ts';
import { isActive, type Pod, type Waiting } from './pods.ts';
import type { WorkloadKind } from './workload.ts';

/** A replica of a workload: a pod, or the pods of one group. */
export interface Replica {
  /** Name of its pod, or of the leader of its group. */
  readonly id: string;
  /** Uid of that pod: groups are numbered, so that a new one has the name of one that has ended. */
  readonly uid: string;
  readonly pods: readonly Pod[];
  readonly isActive: boolean;
  readonly isReady: boolean;
  /** Whether it is not ready, but was since its containers have started. */
  readonly wasReady: boolean;
  /** Time of the last change of its readiness in Unix milliseconds. */
  readonly readyChangedMs: number | undefined;
  /** Whether a pod of it has no node because none has room, with the reason of the scheduler. */
  readonly unschedulable: string | undefined;
  /** Why a pod of it does not start, if Kubernetes says so. */
  readonly waiting: Waiting | undefined;
  readonly createdMs: number;
  readonly readySinceMs: number | undefined;
  readonly scheduledMs: number | undefined;
}

/** Returns the replicas of a workload. A group without its leader is not one yet, or not any more. */
export function replicasOf(kind: WorkloadKind, pods: readonly Pod[]): readonly Replica[] {
  if (kind === 'Deployment') return pods.map((pod) => replicaOf([pod], pod));
  const groups = new Map<number | undefined, Pod[]>();
  for (const pod of pods) groups.set(pod.group, [...(groups.get(pod.group) ?? []), pod]);
  return [...groups.values()].flatMap((members) => {
    const leader = members.find((pod) => pod.place === 0 && isActive(pod)) ?? members.find(({ place }) => place === 0);
    return leader === undefined ? [] : [replicaOf(members, leader)];
  });
}

function replicaOf(pods: readonly Pod[], leader: Pod): Replica {
  const isReady = pods.every((pod) => pod.isReady);
  const readyChangedMs = Math.max(...pods.map((pod) => pod.readyChangedMs ?? 0)) || undefined;
  const nodes = pods.map(({ scheduledMs }) => scheduledMs);
  return {
    id: leader.name,
    uid: leader.uid,
    pods,
    isActive: isActive(leader),
    isReady,
    wasReady: !isReady && pods.every((pod) => pod.isReady || pod.wasReady),
    readyChangedMs,
    unschedulable: pods.find(({ unschedulable }) => unschedulable !== undefined)?.unschedulable,
    waiting: pods.find(({ waiting }) => waiting !== undefined)?.waiting,
    createdMs: leader.createdMs,
    readySinceMs: isReady ? readyChangedMs : undefined,
    scheduledMs: nodes.includes(undefined) ? undefined : Math.max(...nodes.map((ms = 0) => ms)),
  };
}

/** Returns whether the workload replaces its replicas by ones of another template. */
export function isRollingOut(replicas: readonly Replica[]): boolean {
  const templates = replicas.filter(({ isActive }) => isActive).flatMap(({ pods }) => pods.map((pod) => pod.template));
  return new Set(templates).size > 1;
}

/** Returns the active replicas in the order in which their controller ends them. */
export function inEndOrder(kind: WorkloadKind, replicas: readonly Replica[], marked: ReadonlySet<string>) {
  const active = replicas.filter((replica) => replica.isActive);
  if (kind === 'LeaderWorkerSet') return active.toSorted((one, other) => placeOf(other) - placeOf(one));
  const rank = ({ id, pods: [pod] }: Replica): readonly number[] => [
    Number(pod?.isAssigned),
    ['Pending', 'Unknown', 'Running'].indexOf(pod?.phase ?? ''),
    Number(pod?.isReady),
    marked.has(id) ? Number.NEGATIVE_INFINITY : (pod?.deletionCost ?? 0),
    -(pod?.readyChangedMs ?? 0),
    -(pod?.createdMs ?? 0),
  ];
  return active.toSorted((one, other) => {
    const [left, right] = [rank(one), rank(other)];
    const at = left.findIndex((value, index) => value !== right[index]);
    return at < 0 ? 0 : (left[at] ?? 0) < (right[at] ?? 0) ? -1 : 1;
  });
}

/** Group of a replica; the last one ends first. */
function placeOf({ pods: [pod] }: Replica): number {
  return pod?.group ?? 0;
}

export interface SeenReplicas {
  readonly instances: readonly ObservedInstance[];
  readonly failing: LaunchFailure | undefined;
}

export interface ReplicaFacts {
  readonly kind: WorkloadKind;
  /** Replicas that the workload works towards. */
  readonly desired: number;
  readonly nowMs: number;
  readonly unschedulableMs: number;
  /** Milliseconds that a replica may take to start. */
  readonly startMsMax: number;
  /** Options of the pool. */
  readonly optionCount: number;
  /** Whether the controller replaces replicas, so that it has more of them for a while. */
  readonly isRefreshing: boolean;
  /** Returns KV blocks in use on a replica; undefined if no worker of it was heard. */
  blocksOf(id: string): number | undefined;
  /** Returns whether a replica serves, or did. */
  hasServed(replica: Replica): boolean;
  /** Returns whether a replica may still have streams. */
  mayStream(replica: Replica): boolean;
}

/** Code of a replica that no node has room for. */
export const UNSCHEDULABLE = 'Unschedulable';
/** Code of a replica that does not start although its containers run. */
const NOT_READY = 'NotReady';
const REASON_CHARACTERS_MAX = 200;

/**
 * Returns the instances of an option. A replica that has waited too long for a node, or has started for too long, is no
 * instance but a failed launch. Replicas beyond the desired number end as soon as their controller looks.
 */
export function seenReplicas(replicas: readonly Replica[], facts: ReplicaFacts): SeenReplicas {
  const { kind, desired, isRefreshing } = facts;
  const order = inEndOrder(kind, replicas, new Set());
  const surplus = isRefreshing ? 0 : Math.max(0, order.length - desired);
  const ending = new Set(order.slice(0, surplus).map(({ id }) => id));
  const instances: ObservedInstance[] = [];
  let failing: LaunchFailure | undefined;
  for (const replica of kind === 'LeaderWorkerSet' ? withAgeAbove(replicas) : replicas) {
    const state = stateOf(replica, ending, facts);
    if (state === undefined) continue;
    const failure = state === 'starting' ? failureOf(replica, facts) : undefined;
    if (failure === undefined) instances.push(instanceOf(replica, state, facts));
    else if (failure.atMs >= (failing?.atMs ?? 0)) failing = failure;
  }
  return { instances, failing };
}

/** Returns the failure of a replica that starts; undefined while it has time. */
function failureOf(
  { unschedulable, waiting, createdMs, scheduledMs, readyChangedMs }: Replica,
  { nowMs, unschedulableMs, startMsMax, optionCount }: ReplicaFacts,
): LaunchFailure | undefined {
  const hasNode = unschedulable === undefined;
  // A pod that has served starts anew from the time at which it was no longer ready.
  const sinceMs = hasNode ? Math.max(createdMs, scheduledMs ?? 0, readyChangedMs ?? 0) : createdMs;
  const waitMs = hasNode ? startMsMax : unschedulableMs;
  const atMs = sinceMs + waitMs;
  if (nowMs < atMs) return undefined;
  const code = hasNode ? (waiting?.code ?? NOT_READY) : UNSCHEDULABLE;
  const reason = (hasNode ? waiting?.message : unschedulable)?.replaceAll(/\s+/g, ' ').slice(0, REASON_CHARACTERS_MAX);
  return { code, types: [], atMs, reason, pauseMs: optionCount * waitMs };
}

/** Gives each group the age of the youngest one above it: as long as that must stay, no group below it can end. */
function withAgeAbove(groups: readonly Replica[]): readonly Replica[] {
  let youngestMs = 0;
  return groups
    .toSorted((one, other) => placeOf(other) - placeOf(one))
    .map((group) => {
      if (!group.isActive || group.readySinceMs === undefined) return group;
      youngestMs = Math.max(youngestMs, group.readySinceMs);
      return { ...group, readySinceMs: youngestMs };
    });
}

function stateOf(
  replica: Replica,
  ending: ReadonlySet<string>,
  { hasServed }: ReplicaFacts,
): ObservedInstance['state'] | undefined {
  const { id, pods } = replica;
  if (pods.some(({ isTerminating }) => isTerminating) || ending.has(id)) return 'draining';
  if (!replica.isActive) return undefined; // it has failed, and its controller replaces it
  return hasServed(replica) ? 'ready' : 'starting';
}

function instanceOf(replica: Replica, state: ObservedInstance['state'], facts: ReplicaFacts): ObservedInstance {
  const { id, uid, isReady, readySinceMs, createdMs } = replica;
  if (facts.kind === 'LeaderWorkerSet') {
    // The set ends its last group whatever the loads are: the generation states that order.
    return { id, uid, state, createdMs, readySinceMs, generation: String(1_000_000_000 - placeOf(replica)) };
  }
  const activeBlocks = facts.blocksOf(id);
  // Discovery may hide the worker of a pod that is not ready, so a load that was not heard does not mean an idle pod.
  const isIdle = activeBlocks === 0 || !facts.mayStream(replica);
  const isUnhealthy = state === 'ready' && !isReady && isIdle;
  return { id, uid, state, createdMs, readySinceMs, activeBlocks, isUnhealthy };
}
