import type { FleetSpec, FleetSpecs, OptionSpec, PoolSpec } from '../../../shared/planner/index.ts';
import {
  type CapacityOption,
  type Ec2FleetSettings,
  groupNameOf,
  marketOf,
  optionIdOf,
  replicasPerInstance,
  type Settings,
  typeOf,
} from '../../settings/index.ts';
import { type Named, plannedModels } from '../planned-models.ts';

/**
 * Returns the fleets on EC2 as a planner reads them (`STATOR_PLANNER_FLEETS`): one entry for each model and generation,
 * with the pools that fleets of the settings make up. Workers that do all of a request are the pool `decode`.
 */
export function plannerFleetsOf(settings: Settings): FleetSpecs {
  const { gpusMax } = settings.planner;
  const fleets = plannedModels<Ec2FleetSettings, PoolSpec>(settings, 'ec2', (named) => poolSpecOf(named, settings));
  return { ...(gpusMax === undefined ? {} : { gpusMax }), fleets };
}

/** Returns the names of the Auto Scaling groups of fleets. */
export function groupNamesOf(fleets: readonly FleetSpec[]): readonly string[] {
  return fleets.flatMap(({ pools }) =>
    Object.values(pools).flatMap((pool) => pool?.options.map(({ group }) => group) ?? []),
  );
}

function poolSpecOf([name, fleet]: Named<Ec2FleetSettings>, settings: Settings): PoolSpec {
  return {
    options: fleet.options.map((option, at) => optionSpecOf(option, at, { name, fleet, settings })),
    gpusPerReplica: fleet.engine.gpusPerReplica,
    startSecs: fleet.startSecs,
    drainSecs: fleet.drainSecs,
  };
}

interface Around {
  readonly name: string;
  readonly fleet: Ec2FleetSettings;
  readonly settings: Settings;
}

function optionSpecOf(option: CapacityOption, at: number, { name, fleet, settings }: Around): OptionSpec {
  const id = optionIdOf(option, at);
  const [type = ''] = option.types;
  const [zone, ...others] = option.zones ?? [];
  const { warmPool, endsAt, reservationId } = option;
  return {
    id,
    group: groupNameOf(settings.name, name, fleet, id),
    types: [...option.types],
    market: marketOf(option),
    ...(zone === undefined || others.length > 0 ? {} : { zone }),
    gpusPerInstance: typeOf(type, settings.instanceTypes)?.gpus ?? 1,
    replicasPerInstance: replicasPerInstance(option, fleet, settings.instanceTypes),
    min: 0,
    max: option.max,
    ...(warmPool === undefined ? {} : { warmPool: { min: warmPool.min, state: warmPool.state } }),
    ...(reservationId === undefined ? {} : { reservation: reservationId }),
    ...(endsAt === undefined ? {} : { endsAt }),
  };
}
