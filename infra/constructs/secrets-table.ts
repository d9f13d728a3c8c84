import { Stack, Tags } from 'aws-cdk-lib';
import { AnyPrincipal, Effect, type IGrantable, PolicyDocument, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';
import { KeyedTable, type KeyedTableProps } from './keyed-table.ts';

/** Tag of roles that may use the table. */
const TAG = 'stator:secrets';
/**
 * What reads or writes items by whichever interface, tells of them (a condition that holds or not), or copies the table
 * to where its policy does not hold. DynamoDB refuses a policy that names an action without support there, as that of
 * restoring a backup.
 */
const REFUSED = [
  ...['GetItem', 'BatchGetItem', 'Query', 'Scan', 'PartiQLSelect', 'ConditionCheckItem'],
  ...['PutItem', 'UpdateItem', 'DeleteItem', 'BatchWriteItem', 'PartiQLInsert', 'PartiQLUpdate', 'PartiQLDelete'],
  ...['ExportTableToPointInTime', 'RestoreTableToPointInTime', 'CreateBackup', 'EnableKinesisStreamingDestination'],
].map((action) => `dynamodb:${action}`);

/**
 * Secrets that functions have from the edge (`STATOR_SECRETS_TABLE`): a variable of a function is shown to whoever may
 * read its configuration, and a function in a network of its own reaches tables but not Secrets Manager.
 *
 * Its policy refuses whoever is neither an edge nor a function of this deployment, whatever else they may read: many
 * roles for looking at an account may read every table. Edges and functions are known by a tag of their roles, since
 * those are made in a later stack.
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
