import { ConfigError, type Settings } from '../../config/index.ts';
import { chooseFleet, type FleetSpec, readFleets } from '../../planner/index.ts';

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
  const specs = await readFleets(settings);
  return { fleet: chooseFleet(specs, settings), gpusMax: specs.gpusMax };
}
