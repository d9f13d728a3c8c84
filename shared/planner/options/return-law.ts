import type { Pool } from '../types.ts';
import type { BadPair, FleetMemory, Returning } from './memory.ts';
import type { OptionState } from './option-state.ts';

/** Milliseconds for which an earlier option has had room before anything moves back to it. */
const ROOM_MS = 900_000;

/** State of a move back to an earlier option. */
export interface Return {
  readonly returning: Returning | undefined;
  /** Workers beyond the target that must not go yet. */
  readonly extra: number;
  /** Option whose launch is on its way. */
  readonly coming: OptionState | undefined;
  /** Place of the option after which instances may end; -1 = everywhere. */
  readonly after: number;
}

interface ReturnInput {
  readonly pool: Pool;
  readonly decisionId: number;
  readonly memory: FleetMemory;
}

/** Returns how far a move back is. Another decision, or an option that fails, ends it. */
export function continueReturn(
  options: readonly OptionState[],
  bad: ReadonlyMap<OptionState, BadPair>,
  { pool, decisionId, memory }: ReturnInput,
): Return {
  const returning = memory.returning[pool];
  const to = options.find(({ spec }) => spec.id === returning?.option);
  if (
    returning === undefined ||
    to === undefined ||
    returning.decisionId !== decisionId ||
    bad.has(to) ||
    to.isLeaving
  ) {
    return { returning: undefined, extra: 0, coming: undefined, after: -1 };
  }
  const isComing = to.onOrder > 0 || to.live.some(({ state }) => state === 'starting');
  if (isComing) return { returning, extra: returning.replicas, coming: to, after: -1 };
  return { returning, extra: 0, coming: undefined, after: to.at };
}

export interface Room {
  readonly room: { readonly option: string; readonly sinceMs: number };
  readonly to: OptionState;
  readonly from: OptionState;
}

/** Returns the first option that has room while a later one is in use. */
export function roomOf(
  options: readonly OptionState[],
  bad: ReadonlyMap<OptionState, BadPair>,
  before: FleetMemory['room'][Pool],
  nowMs: number,
): Room | undefined {
  const from = options.findLast(({ live, isLeaving }) => !isLeaving && live.some(({ state }) => state === 'ready'));
  const to = options.find((option) => {
    const { count, unit, seen, isLeaving, isBusy } = option;
    return !isLeaving && !isBusy && !bad.has(option) && count + unit.instances <= seen.max;
  });
  if (from === undefined || to === undefined || to.at >= from.at) return undefined;
  const sinceMs = before?.option === to.spec.id ? before.sinceMs : nowMs;
  return { room: { option: to.spec.id, sinceMs }, to, from };
}

/** Returns the units to launch so that one unit of the later option may end; undefined while it is too early. */
export function beginReturn(
  { room, to, from }: Room,
  nowMs: number,
): { readonly to: OptionState; readonly units: number } | undefined {
  if (nowMs - room.sinceMs < ROOM_MS || from.isBusy) return undefined;
  return { to, units: Math.ceil(from.unit.replicas / to.unit.replicas) };
}
