import { StreamViewType, type Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** Who serves what: instances, model cards, leases. Its stream tells long-running processes of changes. */
export class DiscoveryTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props, StreamViewType.NEW_AND_OLD_IMAGES);
    this.tableName = this.#table.tableName;
  }

  /** Allows a frontend to look up instances, model cards and leases. */
  grantLookUp(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:Query');
  }

  /** Allows a worker to register, renew its lease, withdraw, and clear what dead workers left. */
  grantRegister(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:Query', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}
