import { StreamViewType, type Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

const READ = ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'] as const;

/** Who serves what: leases with their records and loads, model cards, and the view of all of it. Its stream tells long-running processes of changes. */
export class DiscoveryTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props, StreamViewType.NEW_AND_OLD_IMAGES);
    this.tableName = this.#table.tableName;
  }

  /** Allows a function to read the view of the fleet, and the leases where the view is too old. */
  grantLookUp(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, ...READ);
  }

  /** Allows a process that lasts to register, renew its lease, withdraw, gather the view, and clear what dead ones left. */
  grantRegister(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, ...READ, 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}
