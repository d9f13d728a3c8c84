import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** What routers share: load counters, fleet items, leases, snapshot pointers (docs/router-state.md). */
export class RouterStateTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props);
    this.tableName = this.#table.tableName;
  }

  /** Allows a function to read fleet items, and to count how often it does. */
  grantReadFleet(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:UpdateItem');
  }

  /** Allows a worker to report its load, and to withdraw it. */
  grantReport(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }

  /** Allows a router to reserve, to read all loads, and to hold the leases under which it writes for others. */
  grantRoute(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem');
  }
}
