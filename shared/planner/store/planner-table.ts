import type { Clock } from '../../clock/index.ts';
import { createTable, type TableOptions, type TablePlace } from '../../discovery/table/index.ts';
import { PlannerStoreError } from './types.ts';

/** The table of planners as its messages name it. */
export function plannerTablePlace({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'planner table',
    setting: 'STATOR_PLANNER_TABLE',
    alternative: ', or keep decisions in a folder (--planner-dir)',
    toError: (code, message, cause) => new PlannerStoreError(code, message, cause),
    isOwnError: (thrown) => thrown instanceof PlannerStoreError,
  };
}

/** Creates the table of planners, for emulators and first trials; a deployment creates its tables by itself. */
export function createPlannerTable(options: TableOptions, clock?: Clock): Promise<void> {
  return createTable(plannerTablePlace(options), clock);
}
