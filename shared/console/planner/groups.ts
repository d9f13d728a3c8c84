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

/** Returns the name of a model at its workers, which planners know. @param model its name for clients */
export type OwnNameOf = (model: string) => string;

/** Group that a viewer wants. */
export interface WantedGroup {
  /** Its id, or a name of its model; empty = the group that ticked last. */
  readonly name: string;
  readonly ownNameOf: OwnNameOf;
}

/** Returns the group that an id or the name of a model means: that for clients before that at workers. */
export async function chooseGroup(
  store: PlannerRecords,
  groups: readonly string[],
  { name, ownNameOf }: WantedGroup,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (name === '') return latestGroup(store, groups, signal);
  return groups.find((id) => id === name) ?? groupOf(groups, ownNameOf(name)) ?? groupOf(groups, name);
}

function groupOf(groups: readonly string[], model: string): string | undefined {
  return groups.find((id) => groupRow(id).model.toLowerCase() === model.toLowerCase());
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
