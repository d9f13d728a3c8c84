import type { PoolGpus, Shortage, Step } from '../live/connector.ts';
import type { Victim } from '../store/types.ts';
import type { Pool } from '../types.ts';
import { askedKey, type BadPair, badPairOf, type FleetMemory, noteAsked, notePairs } from './memory.ts';
import { gpusOf, heldOf, type OptionState, optionState } from './option-state.ts';
import { type PoolInput, PoolWork } from './pool-work.ts';

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
  const held = options.reduce((total, each) => total + gpusOf(each, heldOf(each)), 0);
  const gpus = { held, planned: held, settled: held };
  return { steps: [], chosen: [], isDone: true, shortage: undefined, note: undefined, gpus, memory };
}

function withPool<T>(all: Readonly<Partial<Record<Pool, T>>>, pool: Pool, value: T | undefined) {
  const { [pool]: _, ...others } = all;
  return (value === undefined ? others : { ...others, [pool]: value }) as Readonly<Partial<Record<Pool, T>>>;
}
