import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** What routers share: leases and snapshot pointers (docs/router-state.md). */
export class RouterStateTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props);
    this.tableName = this.#table.tableName;
  }

  /** Allows a router to hold the leases under which it writes for others, and to move and drop snapshot pointers. */
  grantRoute(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}
