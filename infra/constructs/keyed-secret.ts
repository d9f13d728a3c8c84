import { Aws } from 'aws-cdk-lib';
import { type Grant, type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';

/**
 * A secret whose readers and writers may use the key that encrypts it. CDK gives that right only in the policy of the
 * key, which this stack cannot change if the key is one of yours. Secrets Manager uses the key with the rights of its
 * caller, so a caller without that right would get no secret.
 */
export class KeyedSecret extends Secret {
  override grantRead(grantee: IGrantable, versionStages?: string[]): Grant {
    this.#allow(grantee, 'kms:Decrypt');
    return super.grantRead(grantee, versionStages);
  }

  override grantWrite(grantee: IGrantable): Grant {
    this.#allow(grantee, 'kms:Decrypt', 'kms:GenerateDataKey');
    return super.grantWrite(grantee);
  }

  #allow({ grantPrincipal }: IGrantable, ...actions: readonly string[]): void {
    if (this.encryptionKey === undefined) return;
    const throughService = { StringEquals: { 'kms:ViaService': `secretsmanager.${Aws.REGION}.amazonaws.com` } };
    grantPrincipal.addToPrincipalPolicy(
      new PolicyStatement({
        actions: [...actions],
        resources: [this.encryptionKey.keyArn],
        conditions: throughService,
      }),
    );
  }
}
