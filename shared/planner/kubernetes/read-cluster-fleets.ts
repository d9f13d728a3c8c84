import { ConfigError, type Settings } from '../../config/index.ts';
import { readFleetsWith } from '../options/read-fleets.ts';
import { type ClusterFleet, readClusterFleets } from './cluster-fleet.ts';

/** Fleets of pods that a planner scales. */
export interface ClusterFleets {
  /** Most GPUs of all models together. */
  readonly gpusMax?: number | undefined;
  readonly fleets: readonly ClusterFleet[];
}

/**
 * Reads the fleets of pods out of `--planner-fleets`.
 * @throws ConfigError also for a fleet in a cluster of another kind than the connector's
 */
export async function readPodFleets(
  settings: Partial<Pick<Settings<'planner'>, 'plannerFleets'>>,
  connector: 'eks' | 'kubernetes',
): Promise<ClusterFleets> {
  const read = await readFleetsWith(settings, 'Deployments of each fleet', readClusterFleets);
  const other = read.fleets.find(({ cluster }) => cluster.kind !== connector);
  if (other === undefined) return read;
  const { model, cluster } = other;
  throw new ConfigError([`--planner-connector ${connector}: the cluster of ${model} has the kind ${cluster.kind}`]);
}
