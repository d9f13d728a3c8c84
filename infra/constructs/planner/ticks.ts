import { Aws, Duration } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { CfnSchedule } from 'aws-cdk-lib/aws-scheduler';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { groupOf, PLANNER_EVENT_VERSION } from '../../../shared/protocol/index.ts';
import type { PlannedFleet } from './planned-fleets.ts';

interface TicksProps {
  readonly queue: IQueue;
  /** Takes ticks that could not be delivered. */
  readonly undelivered: IQueue;
  readonly fleets: readonly PlannedFleet[];
}

/** Age after which a tick is given up: the next one says the same. It is the least that EventBridge Scheduler takes. */
const AGE_MAX = Duration.seconds(60);
const RETRIES = 3;

/**
 * Sends a tick for each model every minute. By ticks alone a fleet goes to zero, notices what failed in silence, and
 * converges if no event arrives.
 */
export class Ticks extends Construct {
  constructor(scope: Construct, id: string, { queue, undelivered, fleets }: TicksProps) {
    super(scope, id);
    const role = new Role(this, 'Role', {
      assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
        conditions: { StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID } },
      }),
      description: 'Stator: ticks of the planner',
    });
    const resources = [queue.queueArn, undelivered.queueArn];
    role.addToPrincipalPolicy(new PolicyStatement({ actions: ['sqs:SendMessage'], resources }));
    fleets.forEach((fleet, at) => {
      const schedule = new CfnSchedule(this, `Tick${at}`, {
        description: `Stator: tick of ${groupOf(fleet)}`,
        scheduleExpression: 'rate(1 minute)',
        flexibleTimeWindow: { mode: 'OFF' },
        target: {
          arn: queue.queueArn,
          roleArn: role.roleArn,
          input: JSON.stringify(tickOf(fleet)),
          sqsParameters: { messageGroupId: groupOf(fleet) },
          retryPolicy: { maximumEventAgeInSeconds: AGE_MAX.toSeconds(), maximumRetryAttempts: RETRIES },
          deadLetterConfig: { arn: undelivered.queueArn },
        },
      });
      schedule.node.addDependency(role); // with its policy: the first tick comes at once
    });
  }
}

/**
 * Returns the body of a tick. EventBridge Scheduler replaces the names in angle brackets ("Adding context attributes in
 * EventBridge Scheduler"). The id of the execution tells two ticks apart, and shows that one came twice.
 */
function tickOf({ namespace, model }: PlannedFleet): object {
  return {
    type: 'tick',
    v: PLANNER_EVENT_VERSION,
    namespace,
    model,
    source: 'scheduler',
    epoch: '<aws.scheduler.execution-id>',
    seq: 0,
    at: '<aws.scheduler.scheduled-time>',
  };
}
