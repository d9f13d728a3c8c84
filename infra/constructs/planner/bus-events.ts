import { Duration } from 'aws-cdk-lib';
import { type EventPattern, Match, Rule } from 'aws-cdk-lib/aws-events';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { type FleetSpec, INSTANCE_EVENTS_GROUP, type PoolSpec } from '../../../shared/planner/index.ts';
import { groupOf } from '../../../shared/protocol/index.ts';

interface BusEventsProps {
  readonly queue: IQueue;
  /** Takes events that could not be delivered. */
  readonly undelivered: IQueue;
  readonly fleets: readonly FleetSpec[];
}

/** Time for which EventBridge tries to deliver an event. */
const AGE_MAX = Duration.hours(1);
/** Events of a group that a planner reads ("Amazon EC2 Auto Scaling event reference"). */
const OF_GROUPS = [
  ...[
    'EC2 Instance Launch Successful',
    'EC2 Instance Launch Unsuccessful',
    'EC2 Instance Terminate Successful',
    'EC2 Instance Terminate Unsuccessful',
    'EC2 Instance-launch Lifecycle Action',
    'EC2 Instance-terminate Lifecycle Action',
  ].map((name) => Match.exactString(name)),
  Match.prefix('EC2 Auto Scaling Instance Refresh '),
];

/**
 * Sends a planner's queue what EventBridge knows of its machines. An event of an Auto Scaling group goes to the model
 * of that group. Other events name only instances or a reservation; the planner looks up which model they are about.
 * Events may get lost: ticks make up for them.
 */
export class BusEvents extends Construct {
  constructor(scope: Construct, id: string, { queue, undelivered, fleets }: BusEventsProps) {
    super(scope, id);
    const rules: Rule[] = [];
    const target = {
      arn: queue.queueArn,
      deadLetterConfig: { arn: undelivered.queueArn },
      retryPolicy: { maximumEventAgeInSeconds: AGE_MAX.toSeconds() },
    };
    const send = (name: string, description: string, eventPattern: EventPattern, messageGroupId: string) => {
      const targets = [{ bind: () => ({ ...target, sqsParameters: { messageGroupId } }) }];
      rules.push(new Rule(this, name, { description: `Stator: ${description}`, eventPattern, targets }));
    };
    fleets.forEach((fleet, at) => {
      for (const [pool, spec] of Object.entries(fleet.pools))
        if (spec !== undefined)
          send(`Groups${at}${pool}`, `machines of ${groupOf(fleet)}, ${pool}`, patternOf(spec), groupOf(fleet));
    });
    const ofMachines = (name: string, what: string, pattern: EventPattern) =>
      send(name, `${what}, in all of the account`, pattern, INSTANCE_EVENTS_GROUP);
    ofMachines('Machines', 'machines that EC2 takes back', {
      source: ['aws.ec2'],
      detailType: [
        'EC2 Spot Instance Interruption Warning',
        'EC2 Instance Rebalance Recommendation',
        'EC2 Capacity Reservation Instance Interruption Warning',
        'EC2 Interruptible Capacity Reservation Instance Interruption Warning',
        // The page "Monitor Capacity Blocks using EventBridge" has both names.
        'Capacity Block Expiration Warning',
        'Capacity Block Reservation Expiration Warning',
      ],
    });
    ofMachines('Health', 'machines that EC2 retires', {
      source: ['aws.health'],
      detail: {
        service: ['EC2'],
        eventTypeCode: Match.anyOf(Match.prefix('AWS_EC2_INSTANCE_'), Match.prefix('AWS_EC2_PERSISTENT_INSTANCE_')),
      },
    });
    for (const each of [queue, undelivered]) allowSending(each, rules);
  }
}

/**
 * Allows rules to send to a queue, by one statement. CDK's own target adds one for each rule, and SQS takes ten
 * conditions in a policy ("Amazon SQS policy quotas"). Its 8,192 bytes bound the fleets in the settings.
 */
function allowSending(queue: IQueue, rules: readonly Rule[]): void {
  queue.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': rules.map(({ ruleArn }) => ruleArn) } },
    }),
  );
}

/** Returns the pattern of the events of a pool. EventBridge takes 2,048 characters; the longest names make 1,600. */
function patternOf({ options }: PoolSpec): EventPattern {
  return {
    source: ['aws.autoscaling'],
    detailType: Match.anyOf(...OF_GROUPS),
    detail: { AutoScalingGroupName: options.map(({ group }) => group) },
  };
}
