/** The parts of the SDK that this product uses, and nothing else of it. */
export {
  AutoScalingClient,
  CompleteLifecycleActionCommand,
  DescribeAutoScalingGroupsCommand,
  DescribeAutoScalingInstancesCommand,
  DescribeInstanceRefreshesCommand,
  DescribeScalingActivitiesCommand,
  SetDesiredCapacityCommand,
  SetInstanceProtectionCommand,
  StartInstanceRefreshCommand,
  TerminateInstanceInAutoScalingGroupCommand,
} from '@aws-sdk/client-auto-scaling';
