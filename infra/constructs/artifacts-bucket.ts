import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';

export interface ArtifactsBucketProps {
  /**
   * What happens to the bucket when the stack is deleted. With `DESTROY` it is emptied first, by a function that may do that
   * and nothing else. @default RemovalPolicy.DESTROY: what is in it comes from `stator artifacts push`
   */
  readonly removalPolicy?: RemovalPolicy;
}

/** Files of models (tokenizer, template, configuration) by checksum: `STATOR_ARTIFACTS_BUCKET`. */
export class ArtifactsBucket extends Construct {
  readonly bucketName: string;
  readonly #bucket: Bucket;

  constructor(scope: Construct, id: string, props: ArtifactsBucketProps = {}) {
    super(scope, id);
    const { removalPolicy = RemovalPolicy.DESTROY } = props;
    this.#bucket = new Bucket(this, 'Bucket', {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
      // Uploads that were begun and never finished are paid for, and are seen by nobody.
      lifecycleRules: [{ abortIncompleteMultipartUploadAfter: Duration.days(1) }],
      removalPolicy,
      autoDeleteObjects: removalPolicy === RemovalPolicy.DESTROY,
    });
    this.bucketName = this.#bucket.bucketName;
  }

  /** Allows a frontend or worker to read files whose checksum it knows; not to list them. */
  grantRead(grantee: IGrantable): Grant {
    return this.#grantOnFiles(grantee, ['s3:GetObject']);
  }

  /** Allows whoever runs `stator artifacts` to put files and to list them. */
  grantPush(grantee: IGrantable): Grant {
    const listing = { grantee, actions: ['s3:ListBucket'], resourceArns: [this.#bucket.bucketArn] };
    return this.#grantOnFiles(grantee, ['s3:GetObject', 's3:PutObject']).combine(Grant.addToPrincipal(listing));
  }

  #grantOnFiles(grantee: IGrantable, actions: string[]): Grant {
    return Grant.addToPrincipal({ grantee, actions, resourceArns: [this.#bucket.arnForObjects('*')] });
  }
}
