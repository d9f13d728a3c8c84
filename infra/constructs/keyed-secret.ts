import { Aws } from 'aws-cdk-lib';
import { Grant, type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';

/**
 * A secret whose readers and writers may use the key that encrypts it. CDK gives that right only in the policy of the
 * key, which this stack cannot change if the key is one of yours. Secrets Manager uses the key with the rights of its
 * caller, so a caller without that right would get no secret.
 */
export class KeyedSecret extends Secret {
  override grantRead(grantee: IGrantable, versionStages?: string[]): Grant {
    allowKey(this, grantee, 'kms:Decrypt');
    return super.grantRead(grantee, versionStages);
  }

  override grantWrite(grantee: IGrantable): Grant {
    allowKey(this, grantee, 'kms:Decrypt', 'kms:GenerateDataKey');
    return super.grantWrite(grantee);
  }
}

/** Allows to read the text of a secret. CDK's own grant also lets one describe it. */
export function allowReading(secret: ISecret, grantee: IGrantable): void {
  allowKey(secret, grantee, 'kms:Decrypt');
  Grant.addToPrincipal({ grantee, actions: ['secretsmanager:GetSecretValue'], resourceArns: [secret.secretArn] });
}

function allowKey(
  { encryptionKey }: Pick<ISecret, 'encryptionKey'>,
  { grantPrincipal }: IGrantable,
  ...actions: readonly string[]
): void {
  if (encryptionKey === undefined) return;
  const throughService = { StringEquals: { 'kms:ViaService': `secretsmanager.${Aws.REGION}.amazonaws.com` } };
  grantPrincipal.addToPrincipalPolicy(
    new PolicyStatement({ actions: [...actions], resources: [encryptionKey.keyArn], conditions: throughService }),
  );
}
