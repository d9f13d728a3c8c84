import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import {
  type FleetSpec,
  type FleetSpecs,
  missingRates,
  type OptionSpec,
  type PoolSpec,
  parsePlannerConfig,
} from '../../../shared/planner/index.ts';
import {
  type CapacityOption,
  type Ec2FleetSettings,
  groupNameOf,
  holdSecsOf,
  marketOf,
  optionIdOf,
  replicasMinOf,
  replicasPerInstance,
  type Settings,
  typeOf,
} from '../../settings/index.ts';

/** Namespace of workers without a generation (`DYN_NAMESPACE`). */
const NAMESPACE = 'dynamo';

type Named = readonly [name: string, fleet: Ec2FleetSettings];

/**
 * Returns the fleets on EC2 as a planner reads them (`STATOR_PLANNER_FLEETS`): one entry for each model and generation,
 * with the pools that fleets of the settings make up. Workers that do all of a request are the pool `decode`.
 */
export function plannerFleetsOf(settings: Settings): FleetSpecs {
  const byModel = new Map<string, Named[]>();
  for (const [name, fleet] of Object.entries(settings.fleets)) {
    if (fleet.kind !== 'ec2') continue;
    const key = JSON.stringify([namespaceOf(fleet), fleet.model]);
    byModel.set(key, [...(byModel.get(key) ?? []), [name, fleet]]);
  }
  const { gpusMax } = settings.planner;
  const fleets = [...byModel.values()].map((each) => fleetSpecOf(each, settings));
  return { ...(gpusMax === undefined ? {} : { gpusMax }), fleets };
}

/** Warns of models whose law lacks a measured rate: vLLM and SGLang do not report how long their passes take. */
export function warnOfRates(scope: Construct, { fleets }: FleetSpecs): void {
  for (const { namespace, model, planner = {} } of fleets) {
    const missing = missingRates(parsePlannerConfig(planner));
    if (missing.length === 0) continue;
    const why =
      `models.${model}.planner lacks ${missing.join(' and ')}, the requests a second that one worker serves: ` +
      'without that, the law rate starts the first worker and then changes nothing (stator profile measures it)';
    Annotations.of(scope).addWarningV2(`stator:rates:${namespace}#${model}`, why);
  }
}

/** Returns the names of the Auto Scaling groups of fleets. */
export function groupNamesOf(fleets: readonly FleetSpec[]): readonly string[] {
  return fleets.flatMap(({ pools }) =>
    Object.values(pools).flatMap((pool) => pool?.options.map(({ group }) => group) ?? []),
  );
}

function namespaceOf({ generation }: Ec2FleetSettings): string {
  return generation === undefined ? NAMESPACE : `${NAMESPACE}-${generation}`;
}

function fleetSpecOf(fleets: readonly Named[], settings: Settings): FleetSpec {
  const [[, first] = []] = fleets;
  if (first === undefined) throw new Error('a model of the planner has a fleet');
  const isAgg = first.pool === 'agg';
  const fewest = fleets.map(([, fleet]): [string, number] => [
    isAgg ? 'min_endpoint' : `${fleet.pool}_min_endpoint`,
    replicasMinOf(fleet),
  ]);
  return {
    namespace: namespaceOf(first),
    model: first.model,
    pools: Object.fromEntries(
      fleets.map(([name, fleet]) => [
        fleet.pool === 'prefill' ? 'prefill' : 'decode',
        poolSpecOf(name, fleet, settings),
      ]),
    ),
    planner: {
      mode: isAgg ? 'agg' : 'disagg',
      ...Object.fromEntries(fewest),
      // The edges hold the first request ever, which is what starts the first machine.
      ...(fewest.every(([, count]) => count === 0) && holdSecsOf(settings) > 0 && { start_at_zero: true }),
      max_gpu_budget: fleets.reduce((sum, [, { replicas, engine }]) => sum + replicas.max * engine.gpusPerReplica, 0),
      ...settings.models[first.model]?.planner,
    },
  };
}

function poolSpecOf(name: string, fleet: Ec2FleetSettings, settings: Settings): PoolSpec {
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
