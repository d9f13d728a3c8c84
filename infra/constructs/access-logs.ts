import { Aws, Duration, type RemovalPolicy } from 'aws-cdk-lib';
import type { ApplicationLoadBalancer } from 'aws-cdk-lib/aws-elasticloadbalancingv2';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { createBucket } from './private-bucket.ts';

interface AccessLogsProps {
  readonly balancer: ApplicationLoadBalancer;
  /** Days for which they are kept. */
  readonly retentionDays: number;
  /** Fate of the logs when the stack is deleted. */
  readonly removalPolicy: RemovalPolicy;
}

/**
 * A line for each request that a load balancer has taken, in a bucket: who, when, which path, which status. No header
 * and no body.
 */
export class AccessLogs extends Construct {
  constructor(scope: Construct, id: string, { balancer, retentionDays, removalPolicy }: AccessLogsProps) {
    super(scope, id);
    // The bucket has no key of its own, because a load balancer can only write to such a bucket.
    const bucket = createBucket(this, { removalPolicy, lifecycle: { expiration: Duration.days(retentionDays) } });
    const balancers = `arn:${Aws.PARTITION}:elasticloadbalancing:${Aws.REGION}:${Aws.ACCOUNT_ID}:loadbalancer/*`;
    bucket.addToResourcePolicy(
      new PolicyStatement({
        principals: [new ServicePrincipal('logdelivery.elasticloadbalancing.amazonaws.com')],
        actions: ['s3:PutObject'],
        resources: [bucket.arnForObjects(`AWSLogs/${Aws.ACCOUNT_ID}/*`)],
        conditions: { ArnLike: { 'aws:SourceArn': balancers } },
      }),
    );
    balancer.setAttribute('access_logs.s3.enabled', 'true');
    balancer.setAttribute('access_logs.s3.bucket', bucket.bucketName);
    // The load balancer tries to write as soon as it is configured.
    if (bucket.policy !== undefined) balancer.node.addDependency(bucket.policy);
  }
}
