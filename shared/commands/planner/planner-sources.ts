import type { Environment, Settings } from '../../config/index.ts';
import type { PlannerRecords, PlannerSource } from '../../console/index.ts';
import type { PlannerStore } from '../../planner/index.ts';
import { openPlannerStore, plannerFolder } from './planner-store.ts';

/** Returns the records that the planners of a fleet keep, as the console of a frontend reads them. */
export function storedPlanners(settings: Settings<'frontend'>, env: Environment): PlannerSource {
  const { plannerTable: table } = settings;
  const place =
    table === undefined
      ? `--planner-dir=${plannerFolder(settings, env)}, or set STATOR_PLANNER_TABLE for both`
      : `STATOR_PLANNER_TABLE=${table}`;
  return {
    howToStart: `Start one with \`stator planner\` and ${place}. This frontend reads what it records there.`,
    open: () => openPlannerStore(settings, env),
  };
}

/** Returns the records of the planner that runs beside the frontend of `stator local`. */
export function localPlanners(hasPlanner: boolean, store: () => PlannerStore | undefined): PlannerSource {
  return {
    howToStart: hasPlanner
      ? 'It begins once the workers are up.'
      : 'Start one beside these workers with `stator local --planner`.',
    open: hasPlanner ? async () => startedOf(store()) : undefined,
  };
}

/** The parts of a planner's store that a page reads. */
export type PlannerRecordStore = Pick<PlannerStore, 'groups' | 'ticks' | 'decisions' | 'readState'>;

/** Returns the records of a store that belongs to its planner, which closes it. */
export function recordsIn(store: PlannerRecordStore): PlannerRecords {
  return {
    groups: (signal) => store.groups(signal),
    ticks: (...args) => store.ticks(...args),
    decisions: (...args) => store.decisions(...args),
    readState: (...args) => store.readState(...args),
    close: async () => {},
  };
}

function startedOf(store: PlannerStore | undefined): PlannerRecords {
  if (store === undefined) throw new Error('the planner has not started yet');
  return recordsIn(store);
}
