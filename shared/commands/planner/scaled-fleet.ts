import { ConfigError, type Settings } from '../../config/index.ts';
import { type ClusterFleet, chooseFleet, type FleetSpec, readFleets, readPodFleets } from '../../planner/index.ts';

/** The fleet that a planner scales on EC2 or in a cluster. */
export interface ScaledFleet {
  readonly fleet: FleetSpec | ClusterFleet;
  /** Most GPUs of all models together. */
  readonly gpusMax: number | undefined;
}

type FleetSettings = Pick<Settings<'planner'>, 'plannerConnector'> &
  Partial<Pick<Settings<'planner'>, 'plannerFleets' | 'namespace' | 'plannerModel'>>;

/** All fleets of `--planner-fleets`. */
interface ScaledFleets {
  readonly fleets: readonly (FleetSpec | ClusterFleet)[];
  readonly gpusMax?: number | undefined;
}

/**
 * Returns the fleets of `--planner-fleets` as the connector scales them; undefined if it scales none of a file.
 * @throws ConfigError
 */
export async function scaledFleets(settings: FleetSettings): Promise<ScaledFleets | undefined> {
  const { plannerConnector: connector, plannerFleets: given } = settings;
  if (connector === 'ec2') return await readFleets(settings);
  if (connector === 'eks' || connector === 'kubernetes') return await readPodFleets(settings, connector);
  if (given === undefined) return undefined;
  throw new ConfigError([`--planner-fleets is for --planner-connector ec2, kubernetes or eks, not ${connector}`]);
}

/**
 * Returns the fleet of `--planner-fleets` that `--namespace` and `--planner-model` choose; undefined if the connector
 * scales none of a file.
 *
 * @throws ConfigError if there is not exactly one
 */
export async function scaledFleet(settings: FleetSettings): Promise<ScaledFleet | undefined> {
  const specs = await scaledFleets(settings);
  return specs === undefined ? undefined : { fleet: chooseFleet(specs, settings), gpusMax: specs.gpusMax };
}
