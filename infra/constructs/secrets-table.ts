import { Stack, Tags } from 'aws-cdk-lib';
import { AnyPrincipal, Effect, type IGrantable, PolicyDocument, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { KeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** Tag of roles that may use the table. */
const TAG = 'stator:secrets';
/**
 * Actions that read or write items by any interface, reveal them (a condition that holds or not), or copy the table to
 * where its policy does not apply. DynamoDB refuses a policy that names an action without support there, as that of
 * restoring a backup.
 */
const REFUSED = [
  ...['GetItem', 'BatchGetItem', 'Query', 'Scan', 'PartiQLSelect', 'ConditionCheckItem'],
  ...['PutItem', 'UpdateItem', 'DeleteItem', 'BatchWriteItem', 'PartiQLInsert', 'PartiQLUpdate', 'PartiQLDelete'],
  ...['ExportTableToPointInTime', 'RestoreTableToPointInTime', 'CreateBackup', 'EnableKinesisStreamingDestination'],
].map((action) => `dynamodb:${action}`);

/**
 * Secrets that functions get from the edge (`STATOR_SECRETS_TABLE`). A variable of a function is visible to each role
 * that may read its configuration, and a function in a network of its own reaches tables but not Secrets Manager.
 *
 * The table's policy refuses each role that is neither an edge nor a function of this deployment, whatever else it may
 * read. Many roles for looking at an account may read every table. The policy recognizes edges and functions by a tag
 * of their roles, because a later stack creates these.
 */
export class SecretsTable extends KeyedTable {
  readonly #tag: string;

  constructor(scope: Construct, id: string, props?: Pick<KeyedTableProps, 'encryptionKey'>) {
    const { stackName } = Stack.of(scope);
    const others = new PolicyStatement({
      sid: 'EdgesAndFunctionsAlone',
      effect: Effect.DENY,
      principals: [new AnyPrincipal()],
      actions: REFUSED,
      resources: ['*'], // of this table: its own name is not known before it is made
      conditions: { StringNotEquals: { [`aws:PrincipalTag/${TAG}`]: stackName } },
    });
    // It goes with its stack, whatever is kept: the edge writes it anew.
    super(scope, id, props, { resourcePolicy: new PolicyDocument({ statements: [others] }) });
    this.#tag = stackName;
  }

  /** Allows an edge to leave the secrets that it was given. */
  grantPass(grantee: IGrantable): void {
    this.allow(grantee, 'dynamodb:UpdateItem');
    this.#admit(grantee);
  }

  /** Allows a function to have them. */
  grantReceive(grantee: IGrantable): void {
    this.allow(grantee, 'dynamodb:GetItem');
    this.#admit(grantee);
  }

  #admit({ grantPrincipal }: IGrantable): void {
    if (!(grantPrincipal instanceof Role)) throw new Error('only a role of this app can be told by its tag');
    Tags.of(grantPrincipal).add(TAG, this.#tag);
  }
}
