import { readFile } from 'node:fs/promises';
import { ConfigError, type Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { type FleetSpec, FleetSpecError, type FleetSpecs, readFleetSpecs } from '../../planner/index.ts';

/** The fleet on EC2 that a planner scales. */
export interface ScaledFleet {
  readonly fleet: FleetSpec;
  /** Most GPUs of all models together. */
  readonly gpusMax: number | undefined;
}

type FleetSettings = Pick<Settings<'planner'>, 'plannerConnector'> &
  Partial<Pick<Settings<'planner'>, 'plannerFleets' | 'namespace' | 'plannerModel'>>;

/**
 * Returns the fleet of `--planner-fleets` that `--namespace` and `--planner-model` choose; undefined without
 * `--planner-connector ec2`.
 *
 * @throws ConfigError if there is not exactly one
 */
export async function scaledFleet(settings: FleetSettings): Promise<ScaledFleet | undefined> {
  const { plannerConnector: connector, plannerFleets: given } = settings;
  if (connector !== 'ec2') {
    if (given === undefined) return undefined;
    throw new ConfigError([`--planner-fleets is for --planner-connector ec2, not ${connector}`]);
  }
  const specs = await readSpecs(settings);
  return { fleet: chooseFleet(specs, settings), gpusMax: specs.gpusMax };
}

/** Reads `--planner-fleets`. @throws ConfigError */
export async function readSpecs({ plannerFleets: given }: Pick<FleetSettings, 'plannerFleets'>): Promise<FleetSpecs> {
  if (given === undefined) {
    throw new ConfigError(['--planner-fleets (STATOR_PLANNER_FLEETS) is missing: it names the Auto Scaling groups']);
  }
  const where = given.kind === 'json' ? '--planner-fleets' : `--planner-fleets ${given.path}`;
  try {
    const text = given.kind === 'json' ? JSON.stringify(given.value) : await readFile(given.path, 'utf8');
    return readFleetSpecs(text, where);
  } catch (thrown) {
    throw new ConfigError([thrown instanceof FleetSpecError ? thrown.message : `${where}: ${reasonOf(thrown)}`]);
  }
}

/** Returns the one fleet of a namespace and model. @throws ConfigError that names the fleets there are */
export function chooseFleet(
  { fleets }: FleetSpecs,
  { namespace, plannerModel: model }: Pick<FleetSettings, 'namespace' | 'plannerModel'>,
): FleetSpec {
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
