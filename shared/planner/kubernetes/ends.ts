import { isActive, LOWEST_COST, type Pod } from './pods.ts';
import { inEndOrder, type Replica } from './replicas.ts';
import type { WorkloadKind } from './workload.ts';

/** Replicas that one call to `apply` marks for their end. The rest are ended by later ones. */
const MARKS_MAX = 32;

export interface Ends {
  /** Number of replicas to set. */
  readonly replicas: number;
  /** Pods that must get the lowest deletion cost before the number falls. */
  readonly marked: readonly Pod[];
  /** Pods that must lose it, because they are to stay. */
  readonly unmarked: readonly Pod[];
}

/**
 * Returns how far the number of replicas may fall now, at most to `wanted`, so that only victims and replicas that have
 * not served yet end. A controller ends pods that are not ready before those that a planner marks: if one of these may
 * have streams, no victim ends in its place.
 */
export function endsOf(kind: WorkloadKind, replicas: readonly Replica[], wish: Wish): Ends {
  const active = replicas.filter((replica) => replica.isActive);
  const ending = endingOf(kind, active, wish);
  const ids = new Set(ending.map(({ id }) => id));
  const isMarked = ({ deletionCost }: Pod): boolean => deletionCost === LOWEST_COST;
  const podsOf = (all: readonly Replica[]): readonly Pod[] =>
    kind === 'Deployment' ? all.flatMap(({ pods }) => pods.filter(isActive)) : [];
  const { current, wanted } = wish;
  const left = active.length - ending.length;
  return {
    replicas: wanted >= current || left <= wanted ? wanted : Math.min(current, left),
    marked: podsOf(ending).filter((pod) => pod.isAssigned && !isMarked(pod)),
    unmarked: podsOf(active.filter(({ id }) => !ids.has(id))).filter(isMarked),
  };
}

/** Returns the replicas that end. Launches are called off in the order in which the controller would end them. */
function endingOf(
  kind: WorkloadKind,
  active: readonly Replica[],
  { current, wanted, victims, served }: Wish,
): readonly Replica[] {
  if (wanted >= current) return [];
  const free = inEndOrder(kind, active, victims).filter(({ id }) => !served(id) && !victims.has(id));
  const surplus = Math.min(active.length - wanted, active.filter(({ id }) => victims.has(id)).length + free.length);
  const called = free.slice(0, Math.max(0, surplus - victims.size)).map(({ id }) => id);
  const chosen = new Set([...victims, ...called]);
  const order = inEndOrder(kind, active, chosen);
  const first = order.slice(0, Math.max(0, surplus));
  if (surplus <= MARKS_MAX && first.every(({ id }) => chosen.has(id) || !served(id))) return first;
  // A part of the victims could be those with streams, so only launches end.
  const servedAt = order.findIndex(({ id }) => served(id) || victims.has(id));
  return order.slice(0, Math.min(surplus, MARKS_MAX, servedAt < 0 ? order.length : servedAt));
}

interface Wish {
  /** Number of replicas that the workload has now. */
  readonly current: number;
  readonly wanted: number;
  /** Names of the replicas that were chosen. */
  readonly victims: ReadonlySet<string>;
  /** Returns whether a replica may have served a request. */
  served(id: string): boolean;
}
