import type { FleetSpec } from '../ec2/fleet-spec.ts';
import type { Observed } from '../live/connector.ts';
import type { FleetPlaces } from '../signals/eventbridge-events.ts';
import type { Pool } from '../types.ts';

/**
 * Returns the places of the groups and instances of one fleet. Events about groups and instances of others say nothing.
 * No option names its capacity reservation, so no instance is found by one: instances of a capacity block are known to
 * end from `endsAt` of their option, and from events that name them.
 * @param observed the fleet as it was seen last; without it no instance is known
 */
export function placesOf({ namespace, model, pools }: FleetSpec, observed: Observed = {}): FleetPlaces {
  const poolOf = new Map<string, Pool>();
  const groupOf = new Map<string, string>();
  for (const [name, spec] of Object.entries(pools)) {
    const pool = name as Pool;
    for (const { id, group } of spec?.options ?? []) {
      poolOf.set(group, pool);
      const seen = observed.pools?.[pool]?.options.find((option) => option.id === id);
      for (const instance of seen?.instances ?? []) groupOf.set(instance.id, group);
    }
  }
  const isAggregated = pools.prefill === undefined;
  return {
    ofGroup: (group) => {
      const pool = poolOf.get(group);
      const component = pool === 'decode' && isAggregated ? 'agg' : pool;
      return component === undefined ? undefined : { namespace, model, component };
    },
    groupOf: (instanceId) => groupOf.get(instanceId),
    inReservation: () => [],
  };
}
