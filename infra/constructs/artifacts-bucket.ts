import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Bucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { createBucket } from './private-bucket.ts';

interface ArtifactsBucketProps {
  /**
   * Fate of the bucket when the stack is deleted. @default RemovalPolicy.DESTROY: `stator artifacts push` fills it
   * again
   */
  readonly removalPolicy?: RemovalPolicy;
  /** Key that encrypts it. @default one of S3's own */
  readonly encryptionKey?: IKey | undefined;
}

/** Files of models (tokenizer, template, configuration) by checksum: `STATOR_ARTIFACTS_BUCKET`. */
export class ArtifactsBucket extends Construct {
  readonly bucketName: string;
  readonly #bucket: Bucket;
  readonly #key: IKey | undefined;

  constructor(scope: Construct, id: string, props: ArtifactsBucketProps) {
    super(scope, id);
    const { removalPolicy = RemovalPolicy.DESTROY, encryptionKey } = props;
    this.#key = encryptionKey;
    this.#bucket = createBucket(this, {
      removalPolicy,
      encryptionKey,
      // Uploads that were begun and never finished cost money, and no listing shows them.
      lifecycle: { abortIncompleteMultipartUploadAfter: Duration.days(1) },
    });
    this.bucketName = this.#bucket.bucketName;
  }

  /** Allows a frontend or worker to read files whose checksum it knows; not to list them. */
  grantRead(grantee: IGrantable): Grant {
    this.#key?.grantDecrypt(grantee);
    return this.#grantOnFiles(grantee, ['s3:GetObject']);
  }

  /** Allows the operator who runs `stator artifacts` to put files and to list them. */
  grantPush(grantee: IGrantable): Grant {
    this.#key?.grantEncryptDecrypt(grantee);
    const listing = { grantee, actions: ['s3:ListBucket'], resourceArns: [this.#bucket.bucketArn] };
    return this.#grantOnFiles(grantee, ['s3:GetObject', 's3:PutObject']).combine(Grant.addToPrincipal(listing));
  }

  #grantOnFiles(grantee: IGrantable, actions: string[]): Grant {
    return Grant.addToPrincipal({ grantee, actions, resourceArns: [this.#bucket.arnForObjects('*')] });
  }
}
