import type { ObservedInstance, ObservedOption } from '../live/connector.ts';
import { BLOCK_ENDS_EARLY_MS } from '../signals/eventbridge-events.ts';
import type { Victim } from '../store/types.ts';
import { type OptionSpec, type PoolSpec, type Unit, unitOf } from './fleet-spec.ts';

/** One option within a plan. Counts are in instances. */
export interface OptionState {
  readonly spec: OptionSpec;
  readonly seen: ObservedOption;
  readonly unit: Unit;
  /** GPUs of an instance: as the environment shows them, otherwise as the fleet states them. */
  readonly gpus: number;
  /** GPUs that all its instances use together. */
  readonly sharedGpus: number;
  /** Place in the list of options. */
  readonly at: number;
  /** Instances that serve or start, and that no decision ends. */
  readonly live: readonly ObservedInstance[];
  /** Instances whose end was decided, and whose end the environment does not show yet. */
  readonly doomed: readonly ObservedInstance[];
  /** Launches that the environment was asked for and does not show. */
  readonly onOrder: number;
  /** The environment replaces instances by itself, so nothing may be ended here. */
  readonly isBusy: boolean;
  /** It ends soon: its workers do not count, and its instances must end from `endFromMs` on. */
  readonly isLeaving: boolean;
  readonly endFromMs: number | undefined;
  /** Number that the environment is going to have, once what was decided earlier is done. */
  count: number;
  /** Launches on order that will not come, because the option fails. */
  lost: number;
  /** Launches that this plan adds. */
  launched: number;
}

export interface OptionFacts {
  readonly pool: PoolSpec;
  readonly isRefreshing: boolean;
  readonly victims: ReadonlyMap<string, Victim>;
  readonly nowMs: number;
}

/** Returns an option as a plan finds it. */
export function optionState(
  spec: OptionSpec,
  at: number,
  seen: ObservedOption,
  { pool, isRefreshing, victims, nowMs }: OptionFacts,
): OptionState {
  const present = seen.instances.filter(({ state }) => state !== 'draining');
  const live = present.filter(({ id }) => !victims.has(id));
  const doomed = present.filter(({ id }) => victims.has(id));
  const onOrder = Math.max(0, seen.desired - present.length);
  const isBusy = isRefreshing || seen.isRebalancing === true;
  const endFromMs = endOf(spec, pool);
  const isLeaving = endFromMs !== undefined && nowMs >= endFromMs - pool.startSecs * 1000;
  // While instances are replaced, there may be more of them than will stay.
  const count = isBusy ? Math.max(0, seen.desired - doomed.length) : live.length + onOrder;
  const unit = unitOf(spec, pool);
  const { gpus = spec.gpusPerInstance, sharedGpus = 0 } = seen.unit ?? {};
  return {
    spec,
    seen,
    unit,
    gpus,
    sharedGpus,
    at,
    live,
    doomed,
    onOrder,
    isBusy,
    isLeaving,
    endFromMs,
    count,
    lost: 0,
    launched: 0,
  };
}

/** Returns when the instances of a capacity block begin to drain, so that they end before EC2 ends them. */
function endOf({ endsAt }: OptionSpec, { drainSecs }: PoolSpec): number | undefined {
  return endsAt === undefined ? undefined : Date.parse(endsAt) - BLOCK_ENDS_EARLY_MS - drainSecs * 1000;
}

/** Returns the workers that an option has or will have. */
export function replicasOf({ count, unit, isLeaving, isBusy, lost }: OptionState): number {
  if (isLeaving) return 0;
  const coming = isBusy ? Math.max(0, count - lost) : count;
  return Math.floor(coming / unit.instances) * unit.replicas;
}

/** Returns the instances of an option that exist or are on order, with those that drain. */
export function heldOf({ seen: { instances }, onOrder }: OptionState): number {
  return instances.length + onOrder;
}

/** Returns the GPUs of that many instances of an option. */
export function gpusOf({ gpus, sharedGpus }: OptionState, instances: number): number {
  return instances === 0 ? 0 : instances * gpus + sharedGpus;
}

/** Returns whether an option has more instances than its number, which nothing but a change by hand explains. */
export function isBelow({ seen, live, doomed, isBusy }: OptionState): boolean {
  return !isBusy && seen.desired < Math.min(seen.max, live.length + doomed.length);
}

/** Returns the units of an option beyond its maximum. */
export function beyondMaxOf({ count, seen, unit, isBusy, isLeaving }: OptionState): number {
  if (isBusy || isLeaving) return 0;
  return Math.ceil(Math.max(0, Math.min(count, seen.desired) - seen.max) / unit.instances);
}

/** Calls off launches of whole units, so that no more than `surplus` workers go. Returns how many go. */
export function callOff(option: OptionState, surplus: number, isBad: boolean): number {
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
