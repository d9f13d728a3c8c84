import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, BillingMode, type StreamViewType, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import { Grant, type IGrantable, type PolicyDocument } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Construct } from 'constructs';

/** Rights to read a table. */
export const READ = ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'] as const;

/** Rights on a key that users of a table need if the key is not the account's own. */
export const KEY_RIGHTS = ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey'] as const;

/** Properties of a table that the deployment chooses. */
export interface KeyedTableProps {
  /**
   * Fate of the table when the stack is deleted. A table that stays is also protected against deletion by hand.
   * @default RemovalPolicy.DESTROY: workers and routers write their state again
   */
  readonly removalPolicy?: RemovalPolicy;
  /** Key that encrypts it. @default the account's own for tables */
  readonly encryptionKey?: IKey | undefined;
}

/** Properties of a kind of table beside its shape. */
interface TableKind {
  /** Policy of the table itself, which counts beside the roles of callers. */
  readonly resourcePolicy?: PolicyDocument;
  /** Part of each written item that the stream of the table has. @default it has no stream */
  readonly stream?: StreamViewType;
}

/**
 * The shape that all tables have, whatever their kind. `ttl` holds Unix seconds after which an item may go; readers
 * never rely on it.
 */
export function tableShape({ removalPolicy = RemovalPolicy.DESTROY }: KeyedTableProps) {
  return {
    partitionKey: { name: 'pk', type: AttributeType.STRING },
    sortKey: { name: 'sk', type: AttributeType.STRING },
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    timeToLiveAttribute: 'ttl',
    removalPolicy,
    deletionProtection: removalPolicy !== RemovalPolicy.DESTROY,
  };
}

/**
 * A table in the form that all state of this product has. It has string keys `pk` and `sk`, is paid by use, is
 * encrypted with a key of the account, can be restored to any second, and collects expired items by `ttl`.
 */
export abstract class KeyedTable extends Construct {
  readonly tableName: string;
  protected readonly table: Table;
  readonly #key: IKey | undefined;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}, kind: TableKind = {}) {
    super(scope, id);
    const { encryptionKey } = props;
    this.table = new Table(this, 'Table', {
      ...tableShape(props),
      billingMode: BillingMode.PAY_PER_REQUEST,
      ...(encryptionKey === undefined
        ? { encryption: TableEncryption.AWS_MANAGED }
        : { encryption: TableEncryption.CUSTOMER_MANAGED, encryptionKey }),
      ...kind,
    });
    this.tableName = this.table.tableName;
    this.#key = encryptionKey;
  }

  /** Gives rights on the table, and on the key of yours that encrypts it: DynamoDB uses that as its caller. */
  protected allow(grantee: IGrantable, ...actions: readonly string[]): Grant {
    this.#key?.grant(grantee, ...KEY_RIGHTS);
    return this.table.grant(grantee, ...actions);
  }

  /** Gives rights on items whose partition key matches, as `HELD#*`. The key of yours counts as with `allow`. */
  protected allowOn(grantee: IGrantable, partition: string, ...actions: readonly string[]): void {
    this.#key?.grant(grantee, ...KEY_RIGHTS);
    Grant.addToPrincipal({
      grantee,
      actions: [...actions],
      resourceArns: [this.table.tableArn],
      conditions: { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': [partition] } },
    });
  }
}
