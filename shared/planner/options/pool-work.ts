import type { ObservedInstance, ObservedPool, PlanContext, PoolGpus } from '../live/connector.ts';
import type { Victim } from '../store/types.ts';
import type { Pool } from '../types.ts';
import type { PoolSpec } from './fleet-spec.ts';
import type { BadPair, FleetMemory, Returning } from './memory.ts';
import { beyondMaxOf, callOff, gpusOf, heldOf, isBelow, type OptionState, replicasOf } from './option-state.ts';
import { stepsOf } from './pool-steps.ts';
import { beginReturn, continueReturn, type Return, roomOf } from './return-law.ts';
import { chooseVictims, servingOf } from './scale-in-victims.ts';
import { shortageOf } from './shortage.ts';

/** Seconds that an instance serves before it may end, unless the settings say otherwise. */
const MIN_INSTANCE_S = 180;

/** Facts from which the plan of one pool follows. */
export interface PoolInput {
  readonly pool: Pool;
  readonly spec: PoolSpec;
  readonly seen: ObservedPool;
  /** Workers; undefined: the pool stays as it is. */
  readonly target: number | undefined;
  readonly decisionId: number;
  readonly memory: FleetMemory;
  readonly context: PlanContext;
  /** Instances that may still be chosen in this round. */
  readonly victimsMax: number;
}

/** Work on one pool: each method changes the counts of the options. */
export class PoolWork {
  readonly #options: readonly OptionState[];
  readonly #bad: ReadonlyMap<OptionState, BadPair>;
  readonly #input: PoolInput;
  readonly #target: number;
  readonly #return: Return;
  readonly #chosen: Victim[] = [];
  #missing = 0;
  #isBoundByBudget = false;
  /** GPUs of surplus instances that cannot go in this round. */
  #surplusGpus = 0;
  #isShrinkLate = false;
  #room: FleetMemory['room'][Pool];
  #returning: Returning | undefined;

  constructor(options: readonly OptionState[], bad: ReadonlyMap<OptionState, BadPair>, input: PoolInput) {
    this.#options = options;
    this.#bad = bad;
    this.#input = input;
    this.#target = input.target ?? 0;
    this.#return = continueReturn(options, bad, input);
    this.#returning = this.#return.returning;
  }

  /** Asks for missing workers along the list of options. */
  launch(): void {
    let missing = this.#target - this.#replicas() + this.#beyondMax();
    for (const option of this.#options) {
      if (missing <= 0) break;
      if (option.isLeaving || this.#bad.has(option)) continue;
      missing -= this.#launchAt(option, Math.ceil(missing / option.unit.replicas)) * option.unit.replicas;
    }
    this.#missing = Math.max(0, missing);
  }

  /** Returns how many units of an option are launched, of `units`: as its bounds and the GPUs allow. */
  #launchAt(option: OptionState, units: number): number {
    const { unit, seen } = option;
    const { gpusMax } = this.#input.context;
    const limit = gpusMax?.[this.#input.pool] ?? Number.POSITIVE_INFINITY;
    const whole = Math.floor(option.count / unit.instances);
    let launched = 0;
    for (; launched < units; launched++) {
      const after = (whole + launched + 1) * unit.instances;
      if (after > seen.max) break;
      const more = after - option.count - option.launched;
      const first = heldOf(option) + option.launched === 0 ? option.sharedGpus : 0;
      if (this.#gpus().planned + more * option.gpus + first > limit) {
        this.#isBoundByBudget = true;
        break;
      }
      option.launched += more;
    }
    option.count += option.launched;
    return launched;
  }

  /** Takes away surplus workers: launches first that have not served yet, then instances. */
  shrink(): void {
    const { seen, context, victimsMax } = this.#input;
    let surplus = this.#replicas() - this.#beyondMax() - this.#target - this.#return.extra;
    for (const option of this.#options.toReversed()) {
      if (option.isBusy || option.isLeaving || option === this.#return.coming || option.launched > 0) continue;
      surplus -= callOff(option, surplus, this.#bad.has(option));
    }
    if (surplus <= 0) {
      if (this.#return.after >= 0) this.#returning = undefined; // it is done
      return;
    }
    const candidates = this.#options.filter(({ at }) => at > this.#return.after);
    const readyBeforeMs = readyBeforeOf(context);
    // What serves stays while its replacements start: until then, the target would not be served.
    const serving = servingOf(this.#options) - this.#target;
    const now = { surplus, serving, countMax: victimsMax, readyBeforeMs, withBusy: false };
    const isHeld = seen.refreshing || this.#options.some(isBelow);
    const chosen = isHeld ? [] : chooseVictims(candidates, now);
    const no = Number.POSITIVE_INFINITY;
    const all = chooseVictims(candidates, { surplus, serving: no, countMax: no, readyBeforeMs: no, withBusy: true });
    this.#isShrinkLate = all.length > chosen.length;
    const ownOf = (each: typeof all): number =>
      each.reduce((total, { option, instances }) => total + instances.length * option.gpus, 0);
    this.#surplusGpus = Math.max(0, ownOf(all) - ownOf(chosen));
    for (const { option, instances } of chosen) for (const each of instances) this.#choose(option, each);
    if (this.#return.after >= 0 && all.length === 0) this.#returning = undefined; // it is done
  }

  /**
   * Takes away what is beyond the maximum of an option, if that was lowered. What serves the target stays until its
   * replacements serve, unless none can come.
   */
  trim(): void {
    const { seen, context, victimsMax } = this.#input;
    const options = this.#options.filter((option) => beyondMaxOf(option) > 0);
    for (const option of options) callOff(option, beyondMaxOf(option) * option.unit.replicas, this.#bad.has(option));
    let serving = servingOf(this.#options) - (this.#target - this.#missing);
    // A round that ends surplus workers leaves these for the next one.
    const isHeld = seen.refreshing || this.#options.some(isBelow) || this.#chosen.length > 0;
    for (const option of isHeld ? [] : options) {
      const surplus = beyondMaxOf(option) * option.unit.replicas;
      const countMax = victimsMax - this.#chosen.length;
      const now = { surplus, serving, countMax, readyBeforeMs: readyBeforeOf(context), withBusy: false };
      const chosen = chooseVictims([option], now);
      for (const { instances } of chosen) for (const each of instances) this.#choose(option, each);
      serving -= chosen.length * option.unit.replicas;
    }
    this.#isShrinkLate ||= this.#beyondMax() > 0;
  }

  /** Ends the instances of capacity blocks that are about to end. */
  leave(): void {
    const { nowMs } = this.#input.context;
    for (const option of this.#options) {
      if (!option.isLeaving) continue;
      option.count = option.live.length;
      if (nowMs < (option.endFromMs ?? 0)) continue;
      const rest = Math.max(0, this.#input.victimsMax - this.#chosen.length);
      const ending = option.live.slice(0, Math.min(rest, Math.max(0, option.count - option.seen.min)));
      for (const each of ending) this.#choose(option, each);
    }
  }

  /** Replaces one unit of a later option by an earlier option that has had room for long enough. */
  moveBack(): void {
    const { decisionId, memory, pool, context } = this.#input;
    const found = roomOf(this.#options, this.#bad, memory.room[pool], context.nowMs);
    this.#room = found?.room;
    if (found === undefined || this.#returning !== undefined || this.#isShrinkLate || !this.#isQuiet()) return;
    const begun = beginReturn(found, context.nowMs);
    if (begun === undefined) return;
    const before = found.to.count;
    if (this.#launchAt(begun.to, begun.units) < begun.units) {
      // Only a part would fit, which would free no instance.
      found.to.count = before;
      found.to.launched = 0;
      return;
    }
    const replicas = begun.units * begun.to.unit.replicas;
    this.#returning = { option: begun.to.spec.id, decisionId, replicas };
  }

  result() {
    const { pool, seen } = this.#input;
    const steps = stepsOf(pool, this.#options, this.#chosen);
    const [missing, target] = [this.#missing, this.#target];
    const isShort = missing > 0 && !this.#isBoundByBudget;
    const isWaiting = this.#isShrinkLate && seen.refreshing;
    const waiting = isWaiting ? 'no instance is ended while an instance refresh is in progress' : undefined;
    return {
      steps,
      chosen: this.#chosen,
      isDone: steps.length === 0 && missing === 0 && !this.#isShrinkLate && (seen.refreshing || this.#isQuiet()),
      shortage: isShort ? shortageOf({ pool, missing, target }, this.#bad) : undefined,
      note: waiting ?? gpuNote(pool, this.#options),
      gpus: this.#gpus(),
      room: this.#room,
      returning: this.#returning,
    };
  }

  #choose(option: OptionState, { id: instanceId, uid }: ObservedInstance): void {
    const { pool, context } = this.#input;
    const named = uid === undefined ? { instanceId } : { instanceId, uid };
    this.#chosen.push({ ...named, pool, option: option.spec.id, atMs: context.nowMs });
    option.count--;
  }

  #replicas(): number {
    return this.#options.reduce((total, each) => total + replicasOf(each), 0);
  }

  /** Returns the workers beyond the maxima of their options. */
  #beyondMax(): number {
    return this.#options.reduce((total, option) => total + beyondMaxOf(option) * option.unit.replicas, 0);
  }

  /** Nothing starts, ends or is missing. */
  #isQuiet(): boolean {
    const isStill = this.#options.every(({ live, onOrder, lost, doomed, launched }) => {
      return (
        onOrder - lost === 0 && doomed.length === 0 && launched === 0 && live.every(({ state }) => state === 'ready')
      );
    });
    return isStill && this.#missing === 0 && this.#chosen.length === 0 && !this.#input.seen.refreshing;
  }

  #gpus(): PoolGpus {
    const sum = (read: (option: OptionState) => number): number =>
      this.#options.reduce((total, option) => total + gpusOf(option, read(option)), 0);
    const settled = sum(({ count, isLeaving }) => (isLeaving ? 0 : count)) - this.#surplusGpus;
    return { held: sum(heldOf), planned: sum((option) => heldOf(option) + option.launched), settled };
  }
}

/** Says which option has other GPUs than the fleet states, because the demand for workers follows what it states. */
function gpuNote(pool: Pool, options: readonly OptionState[]): string | undefined {
  const wrong = options.find(({ gpus, spec }) => gpus !== spec.gpusPerInstance);
  if (wrong === undefined) return undefined;
  const { gpus, sharedGpus, spec } = wrong;
  const shared = sharedGpus === 0 ? '' : ` and shares ${sharedGpus} with the others`;
  return `${pool}: an instance of ${spec.id} has ${gpus} GPUs${shared}, but the fleet states ${spec.gpusPerInstance}`;
}

/** Returns the time from which on an instance is too young to end. */
function readyBeforeOf({ nowMs, tickSeconds, minInstanceSeconds = MIN_INSTANCE_S }: PlanContext): number {
  return nowMs - 1000 * Math.max(minInstanceSeconds, 3 * tickSeconds);
}
