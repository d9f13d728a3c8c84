import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { KeyedTable } from '../keyed-table.ts';

/** State of the planner: what it knows of each model, its decisions, its leases and the GPUs that it has given out. */
export class PlannerTable extends KeyedTable {
  /** Allows a planner to decide, to act and to tell what it did. Its transactions have only updates. */
  grantPlan(grantee: IGrantable): void {
    this.allow(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem');
  }
}
