import { CfnScalingPolicy } from 'aws-cdk-lib/aws-applicationautoscaling';
import type { FargateService, ScalableTaskCount } from 'aws-cdk-lib/aws-ecs';
import type { ApplicationLoadBalancer } from 'aws-cdk-lib/aws-elasticloadbalancingv2';
import type { Construct } from 'constructs';

export interface StreamScalingProps {
  readonly service: FargateService;
  readonly loadBalancer: ApplicationLoadBalancer;
  readonly scaling: ScalableTaskCount;
  /** Streams that a task is to have. */
  readonly streamsPerTask: number;
}

/**
 * Keeps the streams of a task near a target. A stream is two of the load balancer's connections, the client's and the one to the
 * task; connections that wait for their next request count, too, so that the number of streams is rather guessed too high.
 */
export function trackStreams(scope: Construct, { service, loadBalancer, scaling, streamsPerTask }: StreamScalingProps) {
  const policy = new CfnScalingPolicy(scope, 'Streams', {
    policyName: `${scope.node.addr.slice(0, 12)}-streams`,
    policyType: 'TargetTrackingScaling',
    resourceId: `service/${service.cluster.clusterName}/${service.serviceName}`,
    scalableDimension: 'ecs:service:DesiredCount',
    serviceNamespace: 'ecs',
    targetTrackingScalingPolicyConfiguration: {
      targetValue: streamsPerTask,
      scaleInCooldown: 900,
      scaleOutCooldown: 60,
      customizedMetricSpecification: {
        metrics: [
          {
            id: 'connections',
            returnData: false,
            metricStat: {
              stat: 'Sum',
              metric: {
                namespace: 'AWS/ApplicationELB',
                metricName: 'ActiveConnectionCount',
                dimensions: [{ name: 'LoadBalancer', value: loadBalancer.loadBalancerFullName }],
              },
            },
          },
          {
            id: 'tasks',
            returnData: false,
            metricStat: {
              stat: 'Average',
              metric: {
                namespace: 'ECS/ContainerInsights',
                metricName: 'RunningTaskCount',
                dimensions: [
                  { name: 'ClusterName', value: service.cluster.clusterName },
                  { name: 'ServiceName', value: service.serviceName },
                ],
              },
            },
          },
          { id: 'streams', label: 'Streams of a task', expression: 'connections / 2 / tasks', returnData: true },
        ],
      },
    },
  });
  policy.node.addDependency(scaling);
}
