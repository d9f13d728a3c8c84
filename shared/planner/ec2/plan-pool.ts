import type { ObservedPool, PlanContext, PoolGpus, Shortage, Step } from '../live/connector.ts';
import type { Victim } from '../store/types.ts';
import type { Pool } from '../types.ts';
import type { PoolSpec } from './fleet-spec.ts';
import { askedKey, type BadPair, badPairOf, type FleetMemory, noteAsked, notePairs, type Returning } from './memory.ts';
import { heldOf, isBelow, type OptionState, optionState, replicasOf } from './option-state.ts';
import { beginReturn, continueReturn, type Return, roomOf } from './return-law.ts';
import { chooseVictims, servingOf } from './scale-in-victims.ts';

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

export interface PoolPlan {
  readonly steps: readonly Step[];
  /** Instances that this plan chooses. */
  readonly chosen: readonly Victim[];
  readonly isDone: boolean;
  readonly shortage: Shortage | undefined;
  readonly note: string | undefined;
  readonly gpus: PoolGpus;
  readonly memory: FleetMemory;
}

/** Code of a launch that was asked for, does not come, and whose failure the environment does not tell. */
const NO_ANSWER = 'NoAnswer';
/** Seconds that an instance serves before it may end, unless the settings say otherwise. */
const MIN_INSTANCE_S = 180;

/** Returns the plan of one pool. */
export function planPool(input: PoolInput): PoolPlan {
  const { pool, spec, seen, target, context, memory } = input;
  const victims = new Map(context.victims.map((victim) => [victim.instanceId, victim]));
  const facts = { pool: spec, isRefreshing: seen.refreshing, victims, nowMs: context.nowMs };
  const options = spec.options.flatMap((each, at) => {
    const found = seen.options.find(({ id }) => id === each.id);
    return found === undefined ? [] : [optionState(each, at, found, facts)];
  });
  const { bad, asked, badOptions } = noteFailures(options, input);
  const noted = { ...memory, bad, asked };
  if (target === undefined) return unchanged(options, noted);
  const work = new PoolWork(options, badOptions, input);
  work.launch();
  work.shrink();
  work.trim();
  work.leave();
  work.moveBack();
  const { room, returning, ...rest } = work.result();
  return {
    ...rest,
    memory: {
      ...noted,
      room: withPool(memory.room, pool, room),
      returning: withPool(memory.returning, pool, returning),
    },
  };
}

/** Notes which options fail, and takes launches that will not come out of their counts. */
function noteFailures(options: readonly OptionState[], { pool, spec, memory, context: { nowMs } }: PoolInput) {
  let { bad } = memory;
  const asked: Record<string, FleetMemory['asked'][string]> = Object.fromEntries(
    Object.entries(memory.asked).filter(([key]) => !key.startsWith(`${pool}/`)),
  );
  for (const option of options) {
    const { spec: each, seen, live, onOrder } = option;
    const note = noteAsked(memory.asked, { pool, option: each.id }, { live: live.length, onOrder }, nowMs);
    const isTold = seen.failing !== undefined && seen.failing.atMs >= (note?.sinceMs ?? 0);
    const isSilent = note !== undefined && !isTold && nowMs - note.sinceMs >= 2000 * spec.startSecs;
    const silence = { code: NO_ANSWER, types: [], atMs: nowMs };
    bad = notePairs(bad, option, isSilent ? silence : seen.failing, nowMs);
    if (note !== undefined && !isSilent) asked[askedKey(pool, each.id)] = note;
  }
  const badOptions = new Map<OptionState, BadPair>();
  for (const option of options) {
    const pair = badPairOf(bad, option.spec, nowMs);
    if (pair === undefined) continue;
    badOptions.set(option, pair);
    delete asked[askedKey(pool, option.spec.id)];
    option.lost = option.onOrder; // otherwise they would come when there is capacity again, beside their replacements
    if (!option.isBusy) option.count -= option.onOrder;
  }
  return { bad, asked, badOptions };
}

function unchanged(options: readonly OptionState[], memory: FleetMemory): PoolPlan {
  const held = options.reduce((total, each) => total + heldOf(each) * each.spec.gpusPerInstance, 0);
  const gpus = { held, planned: held, settled: held };
  return { steps: [], chosen: [], isDone: true, shortage: undefined, note: undefined, gpus, memory };
}

function withPool<T>(all: Readonly<Partial<Record<Pool, T>>>, pool: Pool, value: T | undefined) {
  const { [pool]: _, ...others } = all;
  return (value === undefined ? others : { ...others, [pool]: value }) as Readonly<Partial<Record<Pool, T>>>;
}

/** Work on one pool: each method changes the counts of the options. */
class PoolWork {
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
    const { unit, spec, seen } = option;
    const { gpusMax } = this.#input.context;
    const limit = gpusMax?.[this.#input.pool] ?? Number.POSITIVE_INFINITY;
    const whole = Math.floor(option.count / unit.instances);
    let launched = 0;
    for (; launched < units; launched++) {
      const after = (whole + launched + 1) * unit.instances;
      if (after > seen.max) break;
      const more = after - option.count - option.launched;
      if (this.#gpus().planned + more * spec.gpusPerInstance > limit) {
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
    const gpusOf = (each: typeof all): number =>
      each.reduce((total, { option, instances }) => total + instances.length * option.spec.gpusPerInstance, 0);
    this.#surplusGpus = Math.max(0, gpusOf(all) - gpusOf(chosen));
    for (const { option, instances } of chosen) for (const { id } of instances) this.#choose(option, id);
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
      for (const { instances } of chosen) for (const { id } of instances) this.#choose(option, id);
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
      for (const { id } of ending) this.#choose(option, id);
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
    const steps = this.#steps();
    const { seen } = this.#input;
    const isWaiting = this.#isShrinkLate && seen.refreshing;
    return {
      steps,
      chosen: this.#chosen,
      isDone: steps.length === 0 && this.#missing === 0 && !this.#isShrinkLate && (seen.refreshing || this.#isQuiet()),
      shortage: this.#shortage(),
      note: isWaiting ? 'no instance is ended while an instance refresh is in progress' : undefined,
      gpus: this.#gpus(),
      room: this.#room,
      returning: this.#returning,
    };
  }

  #choose(option: OptionState, instanceId: string): void {
    const { pool, context } = this.#input;
    this.#chosen.push({ instanceId, pool, option: option.spec.id, atMs: context.nowMs });
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
      this.#options.reduce((total, option) => total + read(option) * option.spec.gpusPerInstance, 0);
    const held = sum(heldOf);
    const settled = sum(({ count, isLeaving }) => (isLeaving ? 0 : count)) - this.#surplusGpus;
    return { held, planned: held + sum(({ launched }) => launched), settled };
  }

  /** Ends come first, then lower numbers, then higher ones: an option that fails gives up before another grows. */
  #steps(): readonly Step[] {
    const { pool } = this.#input;
    const ended = this.#options.flatMap((option) => {
      const { spec, seen, doomed } = option;
      // The environment ends nothing below the least number. After a change by hand the number is raised first.
      const ids = isBelow(option) ? [] : [...doomed.map(({ id }) => id), ...this.#chosenOf(option)];
      const possible = ids.slice(0, Math.max(0, seen.desired - seen.min));
      return possible.map((instanceId) => ({ kind: 'terminate', pool, option: spec.id, instanceId }) as const);
    });
    const numbers = this.#options.flatMap((option) => {
      const { seen, doomed, count, spec, live } = option;
      const isRaised = isBelow(option);
      const left = isRaised ? seen.desired : seen.desired - doomed.length - this.#chosenOf(option).length;
      const wanted = isRaised ? Math.max(count, live.length + doomed.length) : count;
      const desired = Math.min(Math.max(seen.max, seen.desired), Math.max(seen.min, wanted));
      const step = { kind: 'desire', pool, option: spec.id, desired } as const;
      return desired === left ? [] : [{ step, by: desired - left }];
    });
    return [
      ...ended,
      ...numbers.toSorted((one, other) => Math.sign(one.by) - Math.sign(other.by)).map(({ step }) => step),
    ];
  }

  #chosenOf({ spec }: OptionState): readonly string[] {
    return this.#chosen.filter(({ option }) => option === spec.id).map(({ instanceId }) => instanceId);
  }

  #shortage(): Shortage | undefined {
    if (this.#missing === 0 || this.#isBoundByBudget) return undefined;
    const { pool } = this.#input;
    const what = `${pool}: ${this.#missing} of ${this.#target} workers are missing`;
    const last = [...this.#bad].toSorted(([, one], [, other]) => other.failedAtMs - one.failedAtMs)[0];
    if (last === undefined) {
      return { code: 'MaximumReached', problem: `${what}, and every option is as large as it may be` };
    }
    const [{ spec, seen }, { code, reason }] = last;
    const zone = seen.failing?.zone ?? spec.zone;
    const where = `${(spec.shownTypes ?? spec.types).join(', ')}${zone === undefined ? '' : ` in ${zone}`}`;
    return {
      code,
      option: spec.id,
      problem: `${what}, and no option has room; ${spec.id} failed last: ${code} (${where})${reason === undefined ? '' : `: ${reason}`}`,
    };
  }
}

/** Returns the time from which on an instance is too young to end. */
function readyBeforeOf({ nowMs, tickSeconds, minInstanceSeconds = MIN_INSTANCE_S }: PlanContext): number {
  return nowMs - 1000 * Math.max(minInstanceSeconds, 3 * tickSeconds);
}

/** Returns the units of an option beyond its maximum. */
function beyondMaxOf({ count, seen, unit, isBusy, isLeaving }: OptionState): number {
  if (isBusy || isLeaving) return 0;
  return Math.ceil(Math.max(0, Math.min(count, seen.desired) - seen.max) / unit.instances);
}

/** Calls off launches of whole units, so that no more than `surplus` workers go. Returns how many go. */
function callOff(option: OptionState, surplus: number, isBad: boolean): number {
  const { live, onOrder, unit, seen } = option;
  const callable = live.filter(({ state }) => state === 'starting').length + (isBad ? 0 : onOrder);
  const spare = Math.max(0, option.count - seen.min);
  const units = Math.min(
    Math.floor(surplus / unit.replicas),
    Math.floor(callable / unit.instances),
    Math.floor(spare / unit.instances),
  );
  if (units <= 0) return 0;
  option.count -= units * unit.instances;
  return units * unit.replicas;
}
