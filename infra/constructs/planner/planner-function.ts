import { Duration } from 'aws-cdk-lib';
import type { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { type IRole, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  type Code,
  EventSourceMapping,
  type IFunction,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
  SystemLogLevel,
} from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { arnOfGroup } from '../ec2-fleet/capacity-group.ts';
import { admitPlanner, placeBesideCluster } from '../eks/planner-entry.ts';
import type { FleetStore } from '../fleet-store.ts';
import { attachmentPolicy, denyInterfaces } from '../function-interfaces.ts';
import { createLogGroup } from '../log-groups.ts';
import { embeddedMetric, MINUTE } from '../metrics.ts';
import type { Network } from '../network.ts';
import { EVERY_PROCESS } from '../process-environment.ts';
import { type EventsQueue, PLANNING } from './events-queue.ts';
import type { PlannerTable } from './planner-table.ts';

/** Parts of a deployment that a planner scales: Auto Scaling groups, or workloads of a cluster. */
export type Scaled =
  | { readonly kind: 'ec2' /** Names of the groups that it may change. */; readonly groups: readonly string[] }
  | {
      readonly kind: 'eks';
      readonly clusterName: string;
      /** Group of Kubernetes that has the rights of the planner. */
      readonly group: string;
      /** Network from which it enters the cluster by the cluster's security group. @default by the internet */
      readonly within?: { readonly network: Network; readonly clusterSecurityGroupId: string } | undefined;
    };

export interface PlannerFunctionProps {
  /** Folder with `index.mjs`, which exports `handler`, and `fleets.json`, the fleets that it scales. */
  readonly code: Code;
  readonly queue: EventsQueue;
  readonly table: PlannerTable;
  readonly store: FleetStore;
  readonly scaled: Scaled;
  /** Models that it plans for. The queue hands out the messages of each to one function at a time. */
  readonly models: number;
  /** Whether Lambda sets its concurrency apart from that of the account's other functions. */
  readonly isReserved: boolean;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

/** Messages that one run takes. */
const BATCH = 10;
/**
 * Least and most of Lambda for the concurrency of a queue's function; more models than the most wait for each other.
 */
const CONCURRENCY_MIN = 2;
const CONCURRENCY_MAX = 50;
/**
 * Groups in one statement of the role. A policy takes 6,144 characters, and CDK puts whole statements into further
 * ones.
 */
const STATEMENT_GROUPS = 10;

/**
 * The function that decides how many workers each model needs, and has Auto Scaling or a cluster start and end them. It
 * runs outside of the network of the workers, unless only that network reaches the cluster.
 */
export class PlannerFunction extends Construct {
  readonly function: IFunction;

  constructor(scope: Construct, id: string, props: PlannerFunctionProps) {
    super(scope, id);
    const { code, queue, table, store, models, scaled } = props;
    const logGroup = createLogGroup(this, props.logRetentionDays);
    const within = scaled.kind === 'eks' ? scaled.within : undefined;
    const place = within && placeBesideCluster(this, within.network, within.clusterSecurityGroupId);
    const role = new Role(this, 'Role', {
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
      description: 'Stator: planner',
      ...(place === undefined ? {} : { managedPolicies: [attachmentPolicy()] }),
    });
    logGroup.grantWrite(role);
    queue.grantTake(role);
    table.grantPlan(role);
    store.discovery.grantOrderDrain(role);
    if (scaled.kind === 'ec2') allowScaling(role, this, scaled.groups);
    else admitPlanner(this, scaled, role);
    const concurrency = Math.min(CONCURRENCY_MAX, Math.max(CONCURRENCY_MIN, models + 1)); // one for events of instances
    const planner = new LambdaFunction(this, 'Function', {
      description: 'Stator: planner of GPU fleets',
      code,
      handler: 'index.handler',
      runtime: Runtime.NODEJS_22_X,
      architecture: Architecture.ARM_64,
      memorySize: 512,
      timeout: PLANNING,
      environment: {
        ...EVERY_PROCESS,
        ...store.environment,
        STATOR_PLANNER_TABLE: table.tableName,
        ...(scaled.kind === 'eks' ? { STATOR_PLANNER_CONNECTOR: 'eks' } : {}),
      },
      role,
      ...place,
      logGroup,
      loggingFormat: LoggingFormat.JSON,
      systemLogLevelV2: SystemLogLevel.WARN,
      ...(props.isReserved ? { reservedConcurrentExecutions: concurrency } : {}),
    });
    this.function = planner;
    if (place !== undefined) denyInterfaces(this, role, planner.functionArn);
    new EventSourceMapping(this, 'Source', {
      target: planner,
      eventSourceArn: queue.queue.queueArn,
      batchSize: BATCH,
      maxConcurrency: concurrency, // of polling: without it, messages that no function can take would count as failed
      reportBatchItemFailures: true,
    });
  }

  /** Runs that ended with an error, or out of time, a minute. */
  metricErrors(): Metric {
    return this.function.metricErrors({ period: MINUTE });
  }

  /** Runs that the account had no room for, a minute. */
  metricThrottles(): Metric {
    return this.function.metricThrottles({ period: MINUTE });
  }

  /** Runs, a minute. */
  metricRuns(): Metric {
    return this.function.metricInvocations({ period: MINUTE });
  }

  /** Decisions on the model of a message group, a minute. */
  metricDecisions(messageGroup: string): Metric {
    const dimensionsMap = { MessageGroup: messageGroup };
    return embeddedMetric('Decisions', this.#source, { dimensionsMap, statistic: 'Sum', label: messageGroup });
  }

  /** Whether the newest decision of any model is in that state: 1 or 0. */
  metricOfDecisions(name: 'UnappliedDecisions' | 'CapacityStalled'): Metric {
    return embeddedMetric(name, this.#source, { statistic: 'Maximum' });
  }

  /** Most capacity options of the pods of a message group that have failed, in a quarter of an hour. */
  metricPodFailures(name: 'NodesMissing' | 'StartsFailed', messageGroup: string): Metric {
    const dimensionsMap = { MessageGroup: messageGroup };
    return embeddedMetric(name, this.#source, { dimensionsMap, statistic: 'Maximum', period: Duration.minutes(15) });
  }

  get #source() {
    return { FunctionName: this.function.functionName };
  }
}

/**
 * Allows to look at all groups, which knows no narrower resource ("Actions, resources, and condition keys for Amazon
 * EC2 Auto Scaling"), and to change those of the fleets.
 */
function allowScaling(role: IRole, scope: Construct, groups: readonly string[]): void {
  const looks = ['AutoScalingGroups', 'AutoScalingInstances', 'InstanceRefreshes', 'ScalingActivities'].map(
    (what) => `Describe${what}`,
  );
  const changes = [
    'CompleteLifecycleAction',
    'SetDesiredCapacity',
    'SetInstanceProtection',
    'TerminateInstanceInAutoScalingGroup',
  ];
  const named = (actions: readonly string[]) => actions.map((action) => `autoscaling:${action}`);
  role.addToPrincipalPolicy(new PolicyStatement({ actions: named(looks), resources: ['*'] }));
  const resources = groups.map((name) => arnOfGroup(scope, name));
  for (let at = 0; at < resources.length; at += STATEMENT_GROUPS) {
    const some = resources.slice(at, at + STATEMENT_GROUPS);
    role.addToPrincipalPolicy(new PolicyStatement({ actions: named(changes), resources: some }));
  }
}
