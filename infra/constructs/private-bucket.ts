import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';

interface PrivateBucketProps {
  /** What happens to it when the stack is deleted. With `DESTROY` it is emptied first, by a function that may do that and nothing else. */
  readonly removalPolicy: RemovalPolicy;
  /** Key that encrypts it. @default one of S3's own */
  readonly encryptionKey?: IKey | undefined;
  /** What goes by itself. */
  readonly lifecycle: { readonly expiration: Duration } | { readonly abortIncompleteMultipartUploadAfter: Duration };
}

/** A bucket of this account alone, by TLS alone. */
export function createBucket(scope: Construct, props: PrivateBucketProps): Bucket {
  const { removalPolicy, encryptionKey, lifecycle } = props;
  return new Bucket(scope, 'Bucket', {
    ...(encryptionKey === undefined
      ? { encryption: BucketEncryption.S3_MANAGED }
      : { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }),
    enforceSSL: true,
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
    lifecycleRules: [lifecycle],
    removalPolicy,
    autoDeleteObjects: removalPolicy === RemovalPolicy.DESTROY,
  });
}
