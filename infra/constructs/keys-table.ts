import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** API keys, by their digests: read by frontends, written by whoever runs `stator keys`. */
export class KeysTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props);
    this.tableName = this.#table.tableName;
  }

  /** Allows a frontend to look a key up by its id; not to list them, and not to change one. */
  grantCheck(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:GetItem');
  }

  /** Allows an operator to make, list, change and delete keys. */
  grantManage(grantee: IGrantable): Grant {
    const rights = ['GetItem', 'Scan', 'UpdateItem', 'DeleteItem'].map((right) => `dynamodb:${right}`);
    return this.#table.grant(grantee, ...rights);
  }
}
