import { readFile } from 'node:fs/promises';
import { ConfigError, type Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { type FleetSpec, FleetSpecError, type FleetSpecs, readFleetSpecs } from './fleet-spec.ts';

type FleetSettings = Pick<Settings<'planner'>, 'plannerFleets' | 'namespace' | 'plannerModel'>;

type GivenFleets = Partial<Pick<FleetSettings, 'plannerFleets'>>;

/** Reads the fleets on EC2 of `--planner-fleets`. @throws ConfigError */
export function readFleets(given: GivenFleets): Promise<FleetSpecs> {
  return readFleetsWith(given, 'Auto Scaling groups', readFleetSpecs);
}

/**
 * Reads `--planner-fleets`.
 * @param named what the fleets name, for the message
 * @param read reads the JSON, and throws a FleetSpecError for what it cannot use
 * @throws ConfigError
 */
export async function readFleetsWith<T>(
  { plannerFleets: given }: GivenFleets,
  named: string,
  read: (text: string, where: string) => T,
): Promise<T> {
  if (given === undefined) {
    throw new ConfigError([`--planner-fleets (STATOR_PLANNER_FLEETS) is missing: it names the ${named}`]);
  }
  const where = given.kind === 'json' ? '--planner-fleets' : `--planner-fleets ${given.path}`;
  try {
    const text = given.kind === 'json' ? JSON.stringify(given.value) : await readFile(given.path, 'utf8');
    return read(text, where);
  } catch (thrown) {
    throw new ConfigError([thrown instanceof FleetSpecError ? thrown.message : `${where}: ${reasonOf(thrown)}`]);
  }
}

/** Returns the one fleet of a namespace and model. @throws ConfigError that names the fleets there are */
export function chooseFleet<T extends Pick<FleetSpec, 'namespace' | 'model'>>(
  { fleets }: { readonly fleets: readonly T[] },
  { namespace, plannerModel: model }: Partial<Pick<FleetSettings, 'namespace' | 'plannerModel'>>,
): T {
  const matching = fleets.filter(
    (fleet) =>
      (namespace ?? fleet.namespace) === fleet.namespace &&
      (model ?? fleet.model).toLowerCase() === fleet.model.toLowerCase(),
  );
  const [only, ...others] = matching;
  if (only !== undefined && others.length === 0) return only;
  const known = fleets.map((fleet) => `${fleet.namespace}#${fleet.model}`).join(', ') || 'none';
  const what = only === undefined ? 'names no fleet of that namespace and model' : 'names several fleets';
  throw new ConfigError([`--planner-fleets ${what}: choose one with --namespace and --planner-model; known: ${known}`]);
}

/** Returns what the spec of a fleet says about its law. `--planner-config` wins over it. */
export function fleetPreset({ pools, planner = {} }: Pick<FleetSpec, 'pools' | 'planner'>): object {
  const { prefill, decode } = pools;
  const onlyPrefill = decode === undefined ? 'prefill' : 'agg';
  return {
    mode: prefill !== undefined && decode !== undefined ? 'disagg' : onlyPrefill,
    start_seconds: Math.max(prefill?.startSecs ?? 0, decode?.startSecs ?? 0),
    ...(prefill === undefined ? {} : { prefill_engine_num_gpu: prefill.gpusPerReplica }),
    ...(decode === undefined ? {} : { decode_engine_num_gpu: decode.gpusPerReplica }),
    ...planner,
  };
}
