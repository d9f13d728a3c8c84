import { Construct } from 'constructs';
import type { Settings } from '../../settings/index.ts';
import type { PlannerTable } from '../planner/planner-table.ts';
import { Alarms } from './alarms.ts';
import { throttleWatch } from './data-watches.ts';

interface PlannerObservabilityProps {
  readonly table: PlannerTable;
  readonly settings: Settings;
}

/** The alarms of the planner. */
export class PlannerObservability extends Construct {
  constructor(scope: Construct, id: string, { table, settings }: PlannerObservabilityProps) {
    super(scope, id);
    const alarms = new Alarms(this, settings.alarms);
    alarms.add(throttleWatch([table]));
  }
}
