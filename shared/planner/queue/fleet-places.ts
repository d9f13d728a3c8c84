import type { Observed } from '../live/connector.ts';
import type { FleetSpec } from '../options/fleet-spec.ts';
import type { FleetPlaces } from '../signals/eventbridge-events.ts';
import type { Pool } from '../types.ts';

/**
 * Returns the places of the groups and instances of one fleet. Events about groups and instances of others say nothing.
 * An event that names only a capacity reservation means all instances of the options in it.
 * @param observed the fleet as it was seen last; without it no instance is known
 */
export function placesOf({ namespace, model, pools }: FleetSpec, observed: Observed = {}): FleetPlaces {
  const poolOf = new Map<string, Pool>();
  const groupOf = new Map<string, string>();
  const inReservation = new Map<string, string[]>();
  for (const [name, spec] of Object.entries(pools)) {
    const pool = name as Pool;
    for (const { id, group, reservation } of spec?.options ?? []) {
      poolOf.set(group, pool);
      const seen = observed.pools?.[pool]?.options.find((option) => option.id === id);
      const ids = (seen?.instances ?? []).map((instance) => instance.id);
      for (const instanceId of ids) groupOf.set(instanceId, group);
      if (reservation !== undefined)
        inReservation.set(reservation, [...(inReservation.get(reservation) ?? []), ...ids]);
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
    inReservation: (reservationId) => inReservation.get(reservationId) ?? [],
  };
}
