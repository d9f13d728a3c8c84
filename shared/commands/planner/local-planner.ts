import { Lifetime } from '../../concurrency/index.ts';
import type { Settings } from '../../config/index.ts';
import {
  type FleetPlanner,
  KeptDecisions,
  LocalConnector,
  type PlannerStore,
  type ScalableWorkers,
} from '../../planner/index.ts';
import { type FleetDeps, openFleet } from './open-fleet.ts';
import { openPlannerStore } from './planner-store.ts';
import type { LocalPlanning } from './planning.ts';

/** The planner of one `stator local`. */
export interface LocalRun {
  readonly fleet: FleetPlanner;
  /** Records of this run. */
  readonly store: PlannerStore;
  close(): Promise<void>;
}

interface LocalPlannerDeps extends FleetDeps {
  readonly settings: Settings<'local'>;
  readonly planning: LocalPlanning;
  readonly workers: ScalableWorkers;
}

/**
 * Opens the planner of `stator local`, which runs beside the frontend. `stator planner explain` can show its decisions
 * afterwards.
 */
export function openLocalPlanner(deps: LocalPlannerDeps): Promise<LocalRun> {
  const { settings, planning, env, logger, workers, tell } = deps;
  return Lifetime.compose(async (lifetime) => {
    const decisions = await lifetime.use(openPlannerStore(settings, env));
    const store = new KeptDecisions(decisions, logger.for('planner'));
    const { fleet, shown } = await openFleet(lifetime, deps, {
      ...planning,
      gpusOf: () => 1,
      store,
      connector: () => new LocalConnector(workers),
      namespace: settings.namespace ?? 'dynamo',
      group: 'local',
    });
    for (const [name, url] of Object.entries(shown)) tell(`${name} at ${url}`);
    return {
      fleet,
      store,
      close: () => lifetime.close(),
    };
  });
}
