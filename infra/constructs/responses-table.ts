import type { Table } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** Answers of the Responses API, for `previous_response_id` and for reading them again, until their time is over. */
export class ResponsesTable extends Construct {
  readonly tableName: string;
  readonly #table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.#table = createKeyedTable(this, props);
    this.tableName = this.#table.tableName;
  }

  /** Allows a frontend to keep, read and forget responses. */
  grantKeep(grantee: IGrantable): Grant {
    return this.#table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:PutItem', 'dynamodb:DeleteItem');
  }
}
