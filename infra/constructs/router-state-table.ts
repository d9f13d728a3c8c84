import { Construct } from 'constructs';
import { createKeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** What routers share: load counters, fleet items, leases, snapshot pointers. */
export class RouterStateTable extends Construct {
  readonly tableName: string;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    this.tableName = createKeyedTable(this, props).tableName;
  }
}
