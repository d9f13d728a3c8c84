import { Billing, CfnGlobalTable, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Construct } from 'constructs';
import { KEY_RIGHTS, type KeyedTableProps, tableShape } from './keyed-table.ts';

/**
 * API keys, by their digests. Frontends read them; the operator writes them with `stator keys`.
 *
 * The table has the form of all tables, but is of the kind that can have replicas in other regions. A key that clients
 * hold must work in whichever region answers them, and a table of the other kind could not become one without being
 * created again. All other state belongs to one region.
 */
export class KeysTable extends Construct {
  readonly tableName: string;
  readonly #table: TableV2;
  readonly #key: IKey | undefined;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}) {
    super(scope, id);
    const { encryptionKey } = props;
    this.#table = new TableV2(this, 'Table', {
      ...tableShape(props),
      billing: Billing.onDemand(),
      encryption: TableEncryptionV2.awsManagedKey(),
    });
    this.tableName = this.#table.tableName;
    this.#key = encryptionKey;
    if (encryptionKey === undefined) return;
    // Each replica names a key of its region. CDK knows which that is only in a stack that is bound to a region.
    const { defaultChild } = this.#table.node;
    if (!(defaultChild instanceof CfnGlobalTable)) throw new Error('the table of keys must be a global table');
    defaultChild.addPropertyOverride('Replicas.0.SSESpecification.KMSMasterKeyId', encryptionKey.keyArn);
  }

  /** Allows a frontend to look a key up by its id; not to list them, and not to change one. */
  grantCheck(grantee: IGrantable): Grant {
    return this.#allow(grantee, 'GetItem');
  }

  /** Allows an operator to make, list, change and delete keys. */
  grantManage(grantee: IGrantable): Grant {
    return this.#allow(grantee, 'GetItem', 'Scan', 'UpdateItem', 'DeleteItem');
  }

  /** As `allow` of the other tables. */
  #allow(grantee: IGrantable, ...rights: readonly string[]): Grant {
    this.#key?.grant(grantee, ...KEY_RIGHTS);
    return this.#table.grant(grantee, ...rights.map((right) => `dynamodb:${right}`));
  }
}
