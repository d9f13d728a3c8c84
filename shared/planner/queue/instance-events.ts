import type { QueueRecord } from '../decide/queue-batch.ts';
import type { FleetSpec } from '../options/fleet-spec.ts';
import { namedBy } from '../signals/eventbridge-events.ts';

/** Message group of events that name instances, or a reservation, and no Auto Scaling group: their model is unknown. */
export const INSTANCE_EVENTS_GROUP = 'instances';

interface RouteOptions {
  readonly models: readonly { readonly group: string; readonly fleet: FleetSpec }[];
  /** Returns the names of the Auto Scaling groups of instances, for those that are in one. */
  groupsOf(instanceIds: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
}

/**
 * Puts each event about instances into the message group of each model that it is about. An event of the account that
 * is about no instance of a fleet is left out, because that is no fault. Other messages stay as they are. Rejects if
 * the groups of the instances cannot be looked up.
 */
export async function routeInstanceEvents(
  records: readonly QueueRecord[],
  { models, groupsOf }: RouteOptions,
  signal: AbortSignal,
): Promise<readonly QueueRecord[]> {
  const named = records.map(({ group, body }) => (group === INSTANCE_EVENTS_GROUP ? namedBy(parsed(body)) : undefined));
  const instances = [...new Set(named.flatMap((each) => each?.instances ?? []))];
  const scalingGroups = instances.length === 0 ? new Map<string, string>() : await groupsOf(instances, signal);
  const modelsOf = modelsBy(models);
  return records.flatMap((record, at) => {
    const names = named[at];
    if (names === undefined) return [record];
    const { reservationId } = names;
    const keys = [
      ...names.instances.map((id) => `group ${scalingGroups.get(id)}`),
      ...(reservationId === undefined ? [] : [`reservation ${reservationId}`]),
    ];
    const groups = new Set(keys.flatMap((key) => [...(modelsOf.get(key) ?? [])]));
    return [...groups].map((group) => ({ ...record, group }));
  });
}

/** Returns the message groups of the models that use an Auto Scaling group or a reservation. */
function modelsBy(models: RouteOptions['models']): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  const note = (key: string, group: string): void => {
    found.set(key, (found.get(key) ?? new Set()).add(group));
  };
  for (const { group, fleet } of models) {
    for (const pool of Object.values(fleet.pools)) {
      for (const option of pool?.options ?? []) {
        note(`group ${option.group}`, group);
        if (option.reservation !== undefined) note(`reservation ${option.reservation}`, group);
      }
    }
  }
  return found;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // names no instance
  }
}
