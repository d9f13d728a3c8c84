import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, BillingMode, type StreamViewType, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import type { Construct } from 'constructs';

/** What the tables of this product can be given from outside. */
export interface KeyedTableProps {
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
export function createKeyedTable(scope: Construct, props: KeyedTableProps, stream?: StreamViewType): Table {
  const removalPolicy = props.removalPolicy ?? RemovalPolicy.DESTROY;
  return new Table(scope, 'Table', {
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
}
