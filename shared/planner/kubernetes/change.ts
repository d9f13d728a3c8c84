import { KubeFailure } from '../../discovery/index.ts';
import type { Applied, Step } from '../live/connector.ts';
import { endsOf } from './ends.ts';
import type { Pod } from './pods.ts';
import { keyOf, type SeenWorkload } from './read-workloads.ts';
import { isRollingOut } from './replicas.ts';

/** Steps of one option. */
export interface OptionSteps {
  /** Ids of the replicas that end. */
  readonly victims: ReadonlySet<string>;
  /** Number of replicas; undefined: those that the victims leave. */
  readonly desired: number | undefined;
}

/** Change of one workload. */
interface Change {
  /** Number of replicas to set now. */
  readonly number: number;
  /** Pods that get the lowest deletion cost before the number falls. */
  readonly marked: readonly Pod[];
  /** Pods that lose it. */
  readonly unmarked: readonly Pod[];
  /** Whether that is all that the steps ask for. */
  readonly isSettled: boolean;
}

/** Characters of a refusal that the decision keeps: enough for the right that is missing, and whose. */
const REASON_CHARACTERS_MAX = 300;

/** Codes of the refusals that a planner may meet, by their status. */
const CODES: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  405: 'MethodNotAllowed',
  422: 'Invalid',
};

/** Returns the steps of each option, by pool and option. */
export function byOption(steps: readonly Step[]): ReadonlyMap<string, OptionSteps> {
  const options = new Map<string, { readonly victims: Set<string>; desired: number | undefined }>();
  for (const step of steps) {
    if (step.kind === 'targets') continue; // for environments that scale by themselves
    const key = keyOf(step.pool, step.option);
    const option = options.get(key) ?? { victims: new Set<string>(), desired: undefined };
    options.set(key, option);
    if (step.kind === 'terminate') option.victims.add(step.instanceId);
    else option.desired = step.desired;
  }
  return options;
}

/**
 * Returns how a workload changes.
 * @param streaming ids of the replicas that may have streams
 */
export function changeOf(
  { option, scale, replicas }: SeenWorkload,
  { victims, desired }: OptionSteps,
  streaming: ReadonlySet<string>,
): Change {
  const current = scale.replicas;
  const left = Math.max(0, current - replicas.filter(({ id, isActive }) => isActive && victims.has(id)).length);
  const wanted = desired ?? left;
  // The victims go first: a number that takes them and their replacements together would end none of them. No launch
  // is called off meanwhile, because it is a replacement.
  const isReplacing = left < current && wanted > left;
  const served = (id: string): boolean => isReplacing || streaming.has(id);
  const wish = { current, wanted: isReplacing ? left : wanted, victims, served };
  const ends = endsOf(option.workload.kind, replicas, wish);
  const isHeld = ends.replicas < current && isRollingOut(replicas);
  const number = isHeld ? current : ends.replicas;
  return {
    // If no victim can end yet, its replacement starts all the same.
    number: isReplacing && number >= current ? Math.max(wanted, current) : number,
    marked: isHeld ? [] : ends.marked,
    unmarked: ends.unmarked,
    isSettled: number === wanted && !isReplacing,
  };
}

/**
 * Returns what a failed change means. If a pod or the workload is gone, the next round reads and plans anew.
 * @throws the failure, if it may pass
 */
export function outcomeOf(thrown: unknown): Applied {
  if (!(thrown instanceof KubeFailure) || thrown.mayPass) throw thrown;
  if (thrown.isAbsent) return 'waiting';
  const reason = thrown.message.replaceAll(/\s+/g, ' ').slice(0, REASON_CHARACTERS_MAX);
  return { failed: CODES[thrown.status] ?? `Status${thrown.status}`, reason };
}
