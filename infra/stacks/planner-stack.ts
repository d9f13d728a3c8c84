import { CfnOutput, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { groupNamesOf } from '../constructs/ec2-fleet/planner-fleets.ts';
import { clusterNameOf } from '../constructs/eks/eks-cluster.ts';
import { plannerGroupOf } from '../constructs/eks/planner-access.ts';
import { keyOf } from '../constructs/fleet-store.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { PlannerObservability, type WatchedPlanner } from '../constructs/observability/planner-watches.ts';
import { BusEvents } from '../constructs/planner/bus-events.ts';
import { EventsQueue } from '../constructs/planner/events-queue.ts';
import { type PlannedFleets, plannedFleetsOf } from '../constructs/planner/planned-fleets.ts';
import { PlannerFunction, type Scaled } from '../constructs/planner/planner-function.ts';
import { PlannerTable } from '../constructs/planner/planner-table.ts';
import { Ticks } from '../constructs/planner/ticks.ts';
import { Wake } from '../constructs/planner/wake.ts';
import { followReferences } from '../constructs/stack-references.ts';
import { reservedConcurrency, type Settings } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';
import type { EksStack } from './eks-stack.ts';

interface PlannerStackProps extends StackProps {
  readonly data: DataStack;
  /** Cluster of fleets on EKS. @default none: the fleets are on EC2 */
  readonly eks?: EksStack | undefined;
  readonly code: PlannerCode;
  readonly settings: Settings;
}

/** The bundled functions of a planner (`infra/bundle.ts`). */
export interface PlannerCode {
  readonly planner: Code;
  readonly wake: Code;
}

/**
 * The planner of the fleets with GPUs. Their groups or workloads come in later stacks; until then it finds none of
 * them.
 *
 *     routers, machines, ticks, events ──> queue ──> function ──> Auto Scaling groups, or workloads of a cluster
 *                                            ^          └──> table
 *     HTTP functions ──> notes in the table ──> wake
 */
export class PlannerStack extends Stack {
  readonly queue: IQueue;
  readonly table: PlannerTable;
  /** Parts that the dashboard of the deployment shows. */
  readonly watched: WatchedPlanner;

  constructor(scope: Construct, id: string, { data, eks, code, settings, ...props }: PlannerStackProps) {
    super(scope, id, { description: 'Stator: planner of GPU fleets', ...props });
    const planned = plannedFleetsOf(settings);
    const { fleets } = planned.specs;
    const removalPolicy = settings.retain ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
    this.table = new PlannerTable(this, 'Table', { removalPolicy, encryptionKey: keyOf(this, settings) });
    const queue = new EventsQueue(this, 'Events');
    this.queue = queue.queue;
    new Ticks(this, 'Ticks', { queue: queue.queue, undelivered: queue.undelivered, fleets });
    if (planned.connector === 'ec2') {
      const { specs } = planned;
      new BusEvents(this, 'BusEvents', { queue: queue.queue, undelivered: queue.undelivered, fleets: specs.fleets });
    }
    const planner = new PlannerFunction(this, 'Planner', {
      code: code.planner,
      queue,
      table: this.table,
      store: data.store,
      scaled: scaledOf(planned, settings, data, eks),
      models: fleets.length,
      isReserved: reservedConcurrency(settings) !== undefined,
      logRetentionDays: settings.logRetentionDays,
    });
    new Wake(this, 'Wake', {
      code: code.wake,
      table: this.table,
      queue,
      isReserved: reservedConcurrency(settings) !== undefined,
      logRetentionDays: settings.logRetentionDays,
    });
    this.watched = { queue, function: planner, table: this.table, fleets };
    new PlannerObservability(this, 'Observability', { planner: this.watched, settings });
    const { tableName } = this.table;
    new CfnOutput(this, 'PlannerTable', {
      value: tableName,
      description: 'STATOR_PLANNER_TABLE of stator planner explain',
    });
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }
}

/** Returns what the planner scales, and how it gets there. */
function scaledOf(planned: PlannedFleets, settings: Settings, { network }: DataStack, eks?: EksStack): Scaled {
  if (planned.connector === 'ec2') return { kind: 'ec2', groups: groupNamesOf(planned.specs.fleets) };
  const isPublic = settings.eks.cluster?.endpoint === 'public';
  const clusterName = clusterNameOf(settings.name, settings.eks);
  const entered = { kind: 'eks', clusterName, group: plannerGroupOf(settings.name) } as const;
  if (isPublic || eks === undefined) return entered;
  return { ...entered, within: { network, clusterSecurityGroupId: eks.cluster.securityGroupId } };
}
