import type { Activity, AutoScalingGroup } from '@aws-sdk/client-auto-scaling';
import { AutoScalingError } from './auto-scaling-error.ts';
import { stateOf } from './observed-option.ts';

/** Launches that one lower number abandons. The group takes the rest by its own termination policy. */
const ABANDONED_MAX = 8;
/** Instances that are remembered; the oldest is forgotten first. */
const REMEMBERED_MAX = 256;

export interface CallOff {
  readonly group: AutoScalingGroup;
  /** Number of instances that the group is about to get. */
  readonly desired: number;
  /** Instances whose end was asked for since the group was observed. */
  readonly ended: ReadonlySet<string>;
  /** Returns since when an instance starts, in Unix milliseconds; undefined if it is unknown. */
  readonly startingSinceMs: (instanceId: string) => number | undefined;
}

/**
 * Launches that a planner calls off while their instances wait in the launch hook. AWS does not document whether a
 * lower desired capacity ends such an instance before it serves, and a start of a GPU worker takes minutes. The
 * activity of an abandoned launch fails, so its instance is remembered: nothing is wrong with its option. After a
 * restart of the planner it counts as one failed start.
 */
export class CalledOffLaunches {
  readonly #ids = new Set<string>();

  /**
   * Abandons surplus launches, the newest first, so that no instance starts for nothing. A launch that is over by now
   * is left to the group. A warm pool takes its instances back by itself.
   *
   * @throws AutoScalingError if the caller may not complete lifecycle actions
   */
  async abandon(
    { group, desired, ended, startingSinceMs }: CallOff,
    abandonLaunch: (instanceId: string) => Promise<void>,
  ): Promise<void> {
    if (group.WarmPoolConfiguration !== undefined) return;
    const present = (group.Instances ?? []).flatMap((instance) => {
      const { InstanceId: id, LifecycleState: lifecycle } = instance;
      const state = stateOf(instance);
      if (id === undefined || ended.has(id) || (state !== 'ready' && state !== 'starting')) return [];
      return [{ id, isWaiting: lifecycle === 'Pending:Wait', sinceMs: startingSinceMs(id) ?? 0 }];
    });
    const waiting = present
      .filter(({ isWaiting }) => isWaiting)
      .toSorted((one, other) => other.sinceMs - one.sinceMs || (one.id < other.id ? 1 : -1));
    const count = Math.max(0, Math.min(present.length - desired, ABANDONED_MAX));
    for (const { id } of waiting.slice(0, count)) {
      this.#remember(id);
      if (!(await isAbandoned(abandonLaunch(id)))) return;
    }
  }

  /** Whether an activity is the launch of an instance that was called off. */
  includes({ Description: description = '' }: Activity): boolean {
    const id = description.split(' ').at(-1);
    return id !== undefined && this.#ids.has(id);
  }

  #remember(id: string): void {
    this.#ids.delete(id);
    this.#ids.add(id);
    const [oldest] = this.#ids;
    if (this.#ids.size > REMEMBERED_MAX && oldest !== undefined) this.#ids.delete(oldest);
  }
}

/** Returns whether more launches may be abandoned: not while AWS throttles or gives no answer. */
async function isAbandoned(call: Promise<void>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (thrown) {
    if (!(thrown instanceof AutoScalingError)) throw thrown;
    const isOver = thrown.kind === 'gone' || thrown.code === 'Validation';
    if (thrown.kind === 'refused' && !isOver) throw thrown;
    return isOver; // the lower desired capacity that follows calls off the rest
  }
}
