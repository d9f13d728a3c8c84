import { StreamViewType } from 'aws-cdk-lib/aws-dynamodb';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { HELD_PREFIX } from '../../../shared/planner/index.ts';
import { KeyedTable, type KeyedTableProps } from '../keyed-table.ts';

/** Notes of held requests, which functions write. */
const HELD = `${HELD_PREFIX}*`;

/** State of the planner: what it knows of each model, its decisions, its leases and the GPUs that it has given out. */
export class PlannerTable extends KeyedTable {
  /** Stream of the keys that were written. */
  readonly streamArn: string;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id, props, { stream: StreamViewType.KEYS_ONLY });
    const { tableStreamArn } = this.table;
    if (tableStreamArn === undefined) throw new Error('the table of the planner has no stream');
    this.streamArn = tableStreamArn;
  }

  /** Allows a planner to decide, to act and to tell what it did. Its transactions have only updates. */
  grantPlan(grantee: IGrantable): void {
    this.allow(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem');
  }

  /** Allows a function to note which requests it holds, and nothing else of the table. */
  grantNote(grantee: IGrantable): void {
    this.allowOn(grantee, HELD, 'dynamodb:PutItem', 'dynamodb:DeleteItem');
  }

  /** Allows a console to show what the planner saw and decided. */
  grantShow(grantee: IGrantable): void {
    this.allow(grantee, 'dynamodb:GetItem', 'dynamodb:Query');
  }

  /**
   * Allows a function to read those notes, and Lambda to hand it the stream ("AWSLambdaDynamoDBExecutionRole"). The
   * list of streams knows no narrower resource.
   */
  grantSum(grantee: IGrantable): void {
    this.allowOn(grantee, HELD, 'dynamodb:Query');
    const actions = ['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator'];
    Grant.addToPrincipal({ grantee, actions, resourceArns: [this.streamArn] });
    Grant.addToPrincipal({ grantee, actions: ['dynamodb:ListStreams'], resourceArns: ['*'] });
  }
}
