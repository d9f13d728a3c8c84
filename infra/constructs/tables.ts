import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, BillingMode, StreamViewType, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';

const READ = ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'] as const;

/** What the tables of this product can be given from outside. */
interface KeyedTableProps {
  /**
   * What happens to the table when the stack is deleted. `RETAIN` also protects it against deletion by hand.
   * @default RemovalPolicy.DESTROY: workers and routers write their state anew
   */
  readonly removalPolicy?: RemovalPolicy;
}

/**
 * A table in the shape that all state of this product has: string keys `pk` and `sk`, paid by use, encrypted with a key of
 * the account, restorable to any second, expired items collected by `ttl` (Unix seconds; readers never rely on it).
 */
abstract class KeyedTable extends Construct {
  readonly tableName: string;
  protected readonly table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}, stream?: StreamViewType) {
    super(scope, id);
    const removalPolicy = props.removalPolicy ?? RemovalPolicy.DESTROY;
    this.table = new Table(this, 'Table', {
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      sortKey: { name: 'sk', type: AttributeType.STRING },
      billingMode: BillingMode.PAY_PER_REQUEST,
      encryption: TableEncryption.AWS_MANAGED,
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      timeToLiveAttribute: 'ttl',
      removalPolicy,
      deletionProtection: removalPolicy === RemovalPolicy.RETAIN,
      ...(stream === undefined ? {} : { stream }),
    });
    this.tableName = this.table.tableName;
  }
}

/** Who serves what: leases with their records and loads, model cards, and the view of all of it. Its stream tells long-running processes of changes. */
export class DiscoveryTable extends KeyedTable {
  constructor(scope: Construct, id: string, props?: KeyedTableProps) {
    super(scope, id, props, StreamViewType.NEW_AND_OLD_IMAGES);
  }

  /** Allows a function to read the view of the fleet, and the leases where the view is too old. */
  grantLookUp(grantee: IGrantable): Grant {
    return this.table.grant(grantee, ...READ);
  }

  /** Allows a process that lasts to register, renew its lease, withdraw, gather the view, and clear what dead ones left. */
  grantRegister(grantee: IGrantable): Grant {
    return this.table.grant(grantee, ...READ, 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}

/** What routers share: leases and snapshot pointers (docs/router-state.md). */
export class RouterStateTable extends KeyedTable {
  /** Allows a router to hold the leases under which it writes for others, and to move and drop snapshot pointers. */
  grantRoute(grantee: IGrantable): Grant {
    return this.table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}

/** Answers of the Responses API, for `previous_response_id` and for reading them again, until their time is over. */
export class ResponsesTable extends KeyedTable {
  /** Allows a frontend to keep, read and forget responses. */
  grantKeep(grantee: IGrantable): Grant {
    return this.table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:PutItem', 'dynamodb:DeleteItem');
  }
}

/** API keys, by their digests: read by frontends, written by whoever runs `stator keys`. */
export class KeysTable extends KeyedTable {
  /** Allows a frontend to look a key up by its id; not to list them, and not to change one. */
  grantCheck(grantee: IGrantable): Grant {
    return this.table.grant(grantee, 'dynamodb:GetItem');
  }

  /** Allows an operator to make, list, change and delete keys. */
  grantManage(grantee: IGrantable): Grant {
    const rights = ['GetItem', 'Scan', 'UpdateItem', 'DeleteItem'].map((right) => `dynamodb:${right}`);
    return this.table.grant(grantee, ...rights);
  }
}
