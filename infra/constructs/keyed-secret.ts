import { Aws } from 'aws-cdk-lib';
import { type Grant, type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';

/**
 * A secret whose readers and writers may use the key that encrypts it. CDK itself gives that right in the policy of the
 * key, which is another one's where the key is one of yours: Secrets Manager uses it as its caller, and would refuse.
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
