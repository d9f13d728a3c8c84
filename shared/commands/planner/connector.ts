import type { Clock } from '../../clock/index.ts';
import type { Environment, Settings } from '../../config/index.ts';
import {
  type Connector,
  FolderKeys,
  LocalConnector,
  type PlannerConfig,
  type ScalableWorkers,
  VirtualConnector,
} from '../../planner/index.ts';
import { plannerFolder } from './planner-store.ts';

export interface ConnectorDeps {
  readonly settings: Settings<'planner'>;
  readonly env: Environment;
  readonly clock: Clock;
  /** Opens at most `workersMax` workers that join the fleet of `namespace`; with `--planner-connector local`. */
  readonly workersOf?:
    | ((fleet: { readonly namespace: string; readonly workersMax: number }) => ScalableWorkers)
    | undefined;
}

/** Opens what carries out decisions: the workers of this machine if there are any, else files for another scaler. */
export function openConnector(
  { settings, env, clock, workersOf }: ConnectorDeps,
  namespace: string,
  config: PlannerConfig,
): Connector {
  if (workersOf !== undefined) return new LocalConnector(workersOf({ namespace, workersMax: workersMax(config) }));
  const keys = new FolderKeys(plannerFolder(settings, env), namespace);
  return new VirtualConnector({ keys, clock, waitMsMax: settings.scalingMaxWaitTimeSecs * 1000 });
}

/** Returns how many workers may run at once. Without a budget that is at least two. */
function workersMax({ maxGpuBudget: gpusMax, decodeEngineNumGpu: gpus }: PlannerConfig): number {
  return gpusMax < 0 ? 2 : Math.floor(gpusMax / Math.max(1, gpus ?? 1));
}
