import { ACCOUNT, type Account, REGION } from './account.ts';
import type { Activity, BusEvent, FakeGroup, FakeInstance, Refresh } from './types.ts';

/** Ends of the way of an instance, as events name them ("Amazon EC2 Auto Scaling event reference"). */
export interface Route {
  readonly origin: 'EC2' | 'AutoScalingGroup' | 'WarmPool';
  readonly destination: 'EC2' | 'AutoScalingGroup' | 'WarmPool';
}

type Ending = 'Launch Successful' | 'Launch Unsuccessful' | 'Terminate Successful' | 'Terminate Unsuccessful';

/** Sends the event of a launch or a termination that has ended. */
export function tellEnding(account: Account, ending: Ending, activity: Activity, group: FakeGroup, route: Route): void {
  const { id, cause, details, startMs, endMs, message, instanceId, description } = activity;
  send(account, 'aws.autoscaling', `EC2 Instance ${ending}`, [group.arn, ...arnOf(instanceId)], {
    // A successful activity still reads InProgress in its event.
    StatusCode: ending.endsWith('Unsuccessful') ? 'Failed' : 'InProgress',
    Description: description,
    AutoScalingGroupName: group.name,
    ActivityId: id,
    Details: details,
    RequestId: id,
    StatusMessage: message,
    EndTime: iso(endMs ?? account.clock.wallMs()),
    EC2InstanceId: instanceId,
    StartTime: iso(startMs),
    Cause: cause,
    Origin: route.origin,
    Destination: route.destination,
  });
}

interface ActionEvent {
  readonly instance: FakeInstance;
  readonly token: string;
  readonly hook: string;
  readonly transition: string;
  readonly metadata: string | undefined;
  readonly route: Route;
}

/** Sends the event of a lifecycle action that begins to wait. */
export function tellAction(account: Account, action: ActionEvent): void {
  const { instance, token, hook, transition, metadata, route } = action;
  const kind = transition.endsWith('LAUNCHING') ? 'launch' : 'terminate';
  send(account, 'aws.autoscaling', `EC2 Instance-${kind} Lifecycle Action`, [instance.group.arn], {
    LifecycleActionToken: token,
    AutoScalingGroupName: instance.group.name,
    LifecycleHookName: hook,
    EC2InstanceId: instance.id,
    LifecycleTransition: transition,
    ...(metadata !== undefined && { NotificationMetadata: metadata }),
    Origin: route.origin,
    Destination: route.destination,
  });
}

/** Sends an event of an instance refresh, for example `Started`, `Succeeded` or `Rollback Started`. */
export function tellRefresh(account: Account, group: FakeGroup, refresh: Refresh, what: string): void {
  send(account, 'aws.autoscaling', `EC2 Auto Scaling Instance Refresh ${what}`, [group.arn], {
    InstanceRefreshId: refresh.id,
    AutoScalingGroupName: group.name,
  });
}

/** Sends EC2's notice that it takes a Spot Instance back in two minutes. */
export function tellInterruption(account: Account, { id }: FakeInstance): void {
  const detail = { 'instance-id': id, 'instance-action': 'terminate' };
  send(account, 'aws.ec2', 'EC2 Spot Instance Interruption Warning', arnOf(id), detail);
}

/** Sends EC2's notice that a Spot Instance is at a higher risk of interruption. */
export function tellRebalance(account: Account, { id }: FakeInstance): void {
  send(account, 'aws.ec2', 'EC2 Instance Rebalance Recommendation', arnOf(id), { 'instance-id': id });
}

function send(
  account: Account,
  source: string,
  type: string,
  resources: readonly string[],
  detail: BusEvent['detail'],
): void {
  account.options.onEvent?.({
    version: '0',
    id: account.uuid(),
    'detail-type': type,
    source,
    account: ACCOUNT,
    time: `${new Date(account.clock.wallMs()).toISOString().slice(0, 19)}Z`,
    region: REGION,
    resources,
    detail,
  });
}

function arnOf(instanceId: string): readonly string[] {
  return instanceId === '' ? [] : [`arn:aws:ec2:${REGION}:${ACCOUNT}:instance/${instanceId}`];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
