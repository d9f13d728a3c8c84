import { CfnOutput, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { groupNamesOf, plannerFleetsOf } from '../constructs/ec2-fleet/planner-fleets.ts';
import { keyOf } from '../constructs/fleet-store.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { PlannerObservability, type WatchedPlanner } from '../constructs/observability/planner-watches.ts';
import { BusEvents } from '../constructs/planner/bus-events.ts';
import { EventsQueue } from '../constructs/planner/events-queue.ts';
import { PlannerFunction } from '../constructs/planner/planner-function.ts';
import { PlannerTable } from '../constructs/planner/planner-table.ts';
import { Ticks } from '../constructs/planner/ticks.ts';
import { Wake } from '../constructs/planner/wake.ts';
import { followReferences } from '../constructs/stack-references.ts';
import { reservedConcurrency, type Settings } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';

interface PlannerStackProps extends StackProps {
  readonly data: DataStack;
  readonly code: PlannerCode;
  readonly settings: Settings;
}

/** The bundled functions of a planner (`infra/bundle.ts`). */
export interface PlannerCode {
  readonly planner: Code;
  readonly wake: Code;
}

/**
 * The planner of the fleets on EC2. Their groups come in later stacks; until then it finds none of them.
 *
 *     routers, machines, ticks, events ──> queue ──> function ──> Auto Scaling groups
 *                                            ^          └──> table
 *     HTTP functions ──> notes in the table ──> wake
 */
export class PlannerStack extends Stack {
  readonly queue: IQueue;
  readonly table: PlannerTable;
  /** Parts that the dashboard of the deployment shows. */
  readonly watched: WatchedPlanner;

  constructor(scope: Construct, id: string, { data, code, settings, ...props }: PlannerStackProps) {
    super(scope, id, { description: 'Stator: planner of GPU fleets', ...props });
    const { fleets } = plannerFleetsOf(settings);
    const removalPolicy = settings.retain ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
    this.table = new PlannerTable(this, 'Table', { removalPolicy, encryptionKey: keyOf(this, settings) });
    const queue = new EventsQueue(this, 'Events');
    this.queue = queue.queue;
    new Ticks(this, 'Ticks', { queue: queue.queue, undelivered: queue.undelivered, fleets });
    new BusEvents(this, 'BusEvents', { queue: queue.queue, undelivered: queue.undelivered, fleets });
    const planner = new PlannerFunction(this, 'Planner', {
      code: code.planner,
      queue,
      table: this.table,
      store: data.store,
      groups: groupNamesOf(fleets),
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
