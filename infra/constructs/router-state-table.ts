import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** What routers share: load counters, fleet items, leases, snapshot pointers. */
export class RouterStateTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props);
    this.tableName = this.#table.tableName;
  }

  /** Allows a frontend to read loads and fleet items and to add its reservations. */
  grantReserve(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem');
  }
}
