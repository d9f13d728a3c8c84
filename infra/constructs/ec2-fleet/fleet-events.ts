import { type EventPattern, Match, Rule } from 'aws-cdk-lib/aws-events';
import { Construct } from 'constructs';

/** Text of Auto Scaling about a machine whose launch hook was abandoned, by its agent or by silence. */
const ABANDONED = '*Lifecycle Action*';
/** Text of Auto Scaling about a machine that its agent has called unhealthy ("View the reason for health check"). */
const CALLED_UNHEALTHY = '*user health*';

/**
 * Rules for what befalls machines. EventBridge counts how often each one matches, which alarms watch. A rule needs no
 * target for that.
 */
export class FleetEvents extends Construct {
  /** EC2 has no machine to give, or a quota is reached. */
  readonly shortage: Rule;
  /** A machine came and its workers did not serve in time, or its agent gave up. */
  readonly startFailed: Rule;
  /** An agent called its machine unhealthy: a GPU is faulty, or a worker ends again and again. */
  readonly badGpu: Rule;
  /** EC2 takes a spot machine back. Its event names no group, so the rule is for all of the account. */
  readonly interruption: Rule | undefined;

  constructor(scope: Construct, id: string, groups: readonly string[], hasSpot: boolean) {
    super(scope, id);
    const ofGroups = (detailType: string, detail: Readonly<Record<string, unknown>>): EventPattern => ({
      source: ['aws.autoscaling'],
      detailType: [detailType],
      detail: { AutoScalingGroupName: [...groups], ...detail },
    });
    const rule = (name: string, description: string, eventPattern: EventPattern) =>
      new Rule(this, name, { description: `Stator: ${description}`, eventPattern });
    const failed = 'EC2 Instance Launch Unsuccessful';
    this.shortage = rule(
      'Shortage',
      'machines that EC2 does not give',
      ofGroups(failed, { StatusMessage: Match.anythingButWildcard(ABANDONED) }),
    );
    this.startFailed = rule(
      'StartFailed',
      'machines whose workers did not start',
      ofGroups(failed, { StatusMessage: Match.wildcard(ABANDONED) }),
    );
    this.badGpu = rule(
      'BadGpu',
      'machines that their agent has called unhealthy',
      ofGroups('EC2 Instance Terminate Successful', { Cause: Match.wildcard(CALLED_UNHEALTHY) }),
    );
    this.interruption = hasSpot
      ? rule('Interruption', 'spot machines that EC2 takes back, in all of the account', {
          source: ['aws.ec2'],
          detailType: ['EC2 Spot Instance Interruption Warning'],
        })
      : undefined;
  }
}
