import { namesOf } from '../../planner/index.ts';
import type { PlannerRecords } from './reader.ts';
import type { ConsolePlannerHead } from './wire.ts';

type Group = ConsolePlannerHead['groups'][number];

/** Models that are listed. */
export const GROUPS_MAX = 256;
/** Models among which the one that ticked last is sought. */
const SOUGHT_MAX = 16;

/** Returns a group as it is listed. */
export function groupRow(id: string): Group {
  const [namespace = '', model = ''] = namesOf(id);
  return { id, namespace, model };
}

/** Returns the group that an id or the name of a model means. @param wanted empty = the group that ticked last */
export async function chooseGroup(
  store: PlannerRecords,
  groups: readonly string[],
  wanted: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (wanted === '') return latestGroup(store, groups, signal);
  const name = wanted.toLowerCase();
  return groups.find((id) => id === wanted) ?? groups.find((id) => groupRow(id).model.toLowerCase() === name);
}

async function latestGroup(
  store: PlannerRecords,
  groups: readonly string[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const [only, ...others] = groups;
  if (others.length === 0) return only;
  let latest: { readonly id: string; readonly atMs: number } | undefined;
  for (const id of groups.slice(0, SOUGHT_MAX)) {
    const [tick] = await store.ticks(id, { sinceMs: 0, countMax: 1 }, signal);
    if (latest === undefined || (tick?.atMs ?? 0) > latest.atMs) latest = { id, atMs: tick?.atMs ?? 0 };
  }
  return latest?.id;
}
