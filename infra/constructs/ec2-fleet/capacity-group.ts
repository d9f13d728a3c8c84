import { ArnFormat, Duration, Stack } from 'aws-cdk-lib';
import {
  AutoScalingGroup,
  CfnAutoScalingGroup,
  DefaultResult,
  GroupMetrics,
  HealthChecks,
  LifecycleTransition,
  OnDemandAllocationStrategy,
  PoolState,
  SpotAllocationStrategy,
  TerminateHookAbandonAction,
  type WarmPool,
} from 'aws-cdk-lib/aws-autoscaling';
import { InstanceType, type IVpc, type LaunchTemplate, type SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { AwsCustomResource, AwsCustomResourcePolicy, PhysicalResourceId } from 'aws-cdk-lib/custom-resources';
import type { Construct } from 'constructs';
import type { CapacityOption, Ec2FleetSettings } from '../../settings/index.ts';
import { HOOK_SECS, HOOKS } from './host-environment.ts';
import { isMixed } from './launch-template.ts';

interface GroupProps {
  readonly fleet: Ec2FleetSettings;
  readonly option: CapacityOption;
  readonly template: LaunchTemplate;
  readonly vpc: IVpc;
  readonly subnets: SubnetSelection;
  readonly name: string;
  /** Log group of the function that sets up what templates cannot say. */
  readonly setUpLogs: ILogGroup;
}

/** Returns the ARN of a group, whose id is not known before it exists. */
export function arnOfGroup(scope: Construct, name: string): string {
  return Stack.of(scope).formatArn({
    service: 'autoscaling',
    resource: 'autoScalingGroup',
    resourceName: `*:autoScalingGroupName/${name}`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}

/**
 * Creates the Auto Scaling group of one option. A planner sets how many machines it has, so the template names no
 * number, no scaling policy and no update policy: a deployment never starts, ends or replaces a machine. Every machine
 * is protected; the planner ends those that it has chosen.
 */
export function createCapacityGroup(scope: Construct, props: GroupProps): AutoScalingGroup {
  const { fleet, option, name } = props;
  const group = new AutoScalingGroup(scope, 'Group', {
    vpc: props.vpc,
    vpcSubnets: props.subnets,
    autoScalingGroupName: name,
    minCapacity: 0,
    maxCapacity: option.max,
    ...machinesOf(props),
    newInstancesProtectedFromScaleIn: true,
    capacityRebalance: option.market === 'spot',
    defaultInstanceWarmup: Duration.seconds(0),
    healthChecks: HealthChecks.ec2({ gracePeriod: Duration.seconds(fleet.startSecs) }),
    groupMetrics: [GroupMetrics.all()],
    // Keeps a machine whose terminate hook someone completes with ABANDON. A dead agent's machine ends by the default.
    instanceLifecyclePolicy: { retentionTriggers: { terminateHookAbandon: TerminateHookAbandonAction.RETAIN } },
    ignoreUnmodifiedSizeProperties: false, // else there is an update policy
  });
  const launch = group.addLifecycleHook('Launch', {
    lifecycleHookName: HOOKS.launch,
    lifecycleTransition: LifecycleTransition.INSTANCE_LAUNCHING,
    heartbeatTimeout: Duration.seconds(HOOK_SECS),
    defaultResult: DefaultResult.ABANDON,
  });
  group.addLifecycleHook('Terminate', {
    lifecycleHookName: HOOKS.terminate,
    lifecycleTransition: LifecycleTransition.INSTANCE_TERMINATING,
    heartbeatTimeout: Duration.seconds(HOOK_SECS),
    defaultResult: DefaultResult.CONTINUE,
  });
  addWarmPool(group, option)?.node.addDependency(launch); // else its first machine would not be held
  keepZones(scope, group, props);
  return group;
}

/** Returns the machines that a group starts: of one type, or of several, or spot. */
function machinesOf({ option, template }: GroupProps) {
  if (!isMixed(option)) return { launchTemplate: template };
  const isSpot = option.market === 'spot';
  return {
    mixedInstancesPolicy: {
      launchTemplate: template,
      launchTemplateOverrides: option.types.map((type) => ({ instanceType: new InstanceType(type) })),
      instancesDistribution: isSpot
        ? {
            onDemandBaseCapacity: 0,
            onDemandPercentageAboveBaseCapacity: 0,
            spotAllocationStrategy: SpotAllocationStrategy.PRICE_CAPACITY_OPTIMIZED,
          }
        : { onDemandAllocationStrategy: OnDemandAllocationStrategy.PRIORITIZED },
    },
  };
}

/**
 * Adds machines that wait. With both bounds alike the pool has that many, however many machines serve; without the
 * second bound it would hold the rest of the group's maximum ("PutWarmPool").
 */
function addWarmPool(group: AutoScalingGroup, { warmPool }: CapacityOption): WarmPool | undefined {
  if (warmPool === undefined) return undefined;
  return group.addWarmPool({
    minSize: warmPool.min,
    maxGroupPreparedCapacity: warmPool.min,
    poolState: warmPool.state === 'Stopped' ? PoolState.STOPPED : PoolState.RUNNING,
    reuseOnScaleIn: true,
  });
}

/** Keeps Auto Scaling from ending machines that serve only to have equal numbers in all zones. */
function keepZones(scope: Construct, group: AutoScalingGroup, { name, setUpLogs }: GroupProps): void {
  const call = {
    service: 'auto-scaling',
    action: 'SuspendProcesses',
    parameters: { AutoScalingGroupName: name, ScalingProcesses: ['AZRebalance'] },
    physicalResourceId: PhysicalResourceId.of(`${name}-zones`),
  };
  const suspension = new AwsCustomResource(scope, 'KeepZones', {
    onCreate: call,
    onUpdate: call,
    installLatestAwsSdk: false,
    memorySize: 128,
    logGroup: setUpLogs,
    policy: AwsCustomResourcePolicy.fromStatements([
      new PolicyStatement({ actions: ['autoscaling:SuspendProcesses'], resources: [arnOfGroup(scope, name)] }),
    ]),
  });
  suspension.node.addDependency(group);
}

/** Adds facts to the template of a group, for programs that read it. */
export function describeGroup(group: AutoScalingGroup, key: string, facts: object): void {
  const { defaultChild } = group.node;
  if (!(defaultChild instanceof CfnAutoScalingGroup)) throw new Error('an Auto Scaling group is one resource');
  defaultChild.addMetadata(key, facts);
}
