import type { Shortage } from '../live/connector.ts';
import type { Pool } from '../types.ts';
import type { BadPair } from './memory.ts';
import type { OptionState } from './option-state.ts';

interface Missing {
  readonly pool: Pool;
  /** Workers that no option can start; at least one. */
  readonly missing: number;
  readonly target: number;
}

/** Returns why workers are missing although every option was tried: the failure of the option that failed last. */
export function shortageOf({ pool, missing, target }: Missing, bad: ReadonlyMap<OptionState, BadPair>): Shortage {
  const what = `${pool}: ${missing} of ${target} workers are missing`;
  const last = [...bad].toSorted(([, one], [, other]) => other.failedAtMs - one.failedAtMs)[0];
  if (last === undefined) {
    return { code: 'MaximumReached', problem: `${what}, and every option is as large as it may be` };
  }
  const [{ spec, seen }, { code, reason }] = last;
  const zone = seen.failing?.zone ?? spec.zone;
  const where = `${(spec.shownTypes ?? spec.types).join(', ')}${zone === undefined ? '' : ` in ${zone}`}`;
  const told = reason === undefined ? '' : `: ${reason}`;
  const problem = `${what}, and no option has room; ${spec.id} failed last: ${code} (${where})${told}`;
  return { code, option: spec.id, problem };
}
