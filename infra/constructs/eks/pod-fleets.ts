import {
  type EksFleetSettings,
  marketOf,
  optionIdOf,
  placeOf,
  type Settings,
  workloadNamesOf,
} from '../../settings/index.ts';
import { type Named, type PlannedModel, plannedModels } from '../planned-models.ts';
import { clusterNameOf } from './eks-cluster.ts';
import { referenceOf } from './workload.ts';

/** Pool of a fleet of pods, as a planner reads it. */
interface PodPool {
  readonly options: readonly object[];
  readonly gpusPerReplica: number;
  readonly startSecs: number;
  readonly drainSecs: number;
  readonly unschedulableSecs: number;
}

/** Fleets of pods, as a planner reads them (`STATOR_PLANNER_FLEETS`). */
export interface PodFleets {
  readonly gpusMax?: number;
  readonly fleets: readonly (PlannedModel<PodPool> & { readonly cluster: object })[];
}

/** Least seconds that a pod may wait for a node: most nodes take one or two minutes to start. */
const UNSCHEDULABLE_SECS_MIN = 300;
/**
 * Share of a usual start that a pod may wait for a node. Nodes with many GPUs, and those without a hypervisor, take
 * many minutes. If the planner gave their pods up before, no node would ever get a pod.
 */
const NODE_SHARE = 0.5;

/** Returns the fleets on EKS as a planner reads them. It asks EKS for the address of the cluster. */
export function podFleetsOf(settings: Settings): PodFleets {
  const { eks, planner } = settings;
  const { namespace } = eks;
  const cluster = { kind: 'eks', namespace, name: clusterNameOf(settings.name, eks) };
  const models = plannedModels<EksFleetSettings, PodPool>(settings, 'eks', (named) => poolOf(named, settings));
  return {
    ...(planner.gpusMax === undefined ? {} : { gpusMax: planner.gpusMax }),
    fleets: models.map((model) => ({ ...model, cluster })),
  };
}

function poolOf([name, fleet]: Named<EksFleetSettings>, { instanceTypes }: Settings): PodPool {
  const names = workloadNamesOf(name, fleet);
  return {
    options: fleet.options.map((option, at) => ({
      id: optionIdOf(option, at),
      workload: referenceOf({ name: names[at] ?? '', nodes: placeOf(option, fleet, instanceTypes).nodes }),
      market: marketOf(option),
      types: [...option.types],
      min: 0,
      max: option.max,
      ...(option.reservationId === undefined ? {} : { reservation: option.reservationId }),
      ...(option.endsAt === undefined ? {} : { endsAt: option.endsAt }),
    })),
    gpusPerReplica: fleet.engine.gpusPerReplica,
    startSecs: fleet.startSecs,
    drainSecs: fleet.drainSecs,
    unschedulableSecs: Math.max(UNSCHEDULABLE_SECS_MIN, Math.ceil(NODE_SHARE * fleet.startSecs)),
  };
}
