import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';

interface PrivateBucketProps {
  /** Fate of the bucket when the stack is deleted. With `DESTROY`, a function with only that right empties it first. */
  readonly removalPolicy: RemovalPolicy;
  /** Key that encrypts it. @default one of S3's own */
  readonly encryptionKey?: IKey | undefined;
  /** Rules by which objects expire. */
  readonly lifecycle: { readonly expiration: Duration } | { readonly abortIncompleteMultipartUploadAfter: Duration };
}

/** A bucket that only this account can use, and only over TLS. */
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
