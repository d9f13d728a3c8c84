import type { Activity } from '@aws-sdk/client-auto-scaling';
import type { OptionSpec } from '../../planner/index.ts';
import { failureMessage, type Place } from './capacity.ts';

interface ActivityTime {
  readonly nowMs: number;
  readonly beginsAtMs: number;
}

interface NotedActivity {
  readonly zone: string;
  readonly status: string;
  readonly description: string;
  readonly message: string;
}

/** Activities that a group keeps, as one call returns them. */
const KEPT = 20;
const LAUNCHING = 'Launching a new EC2 instance';
const ABANDONED = "Instance failed to complete user's Lifecycle Action.";

interface LaunchedInstance {
  readonly id: string;
  readonly zone: string;
}

/** Activities of a group, newest first. */
export type Activities = Iterable<Activity>;

/** Activities and events of one simulated group. */
export class GroupActivities implements Activities {
  readonly #spec: OptionSpec;
  readonly #time: ActivityTime;
  readonly #listener: { tells(event: object): void };
  #kept: Activity[] = [];
  #serial = 0;

  constructor(spec: OptionSpec, time: ActivityTime, listener: { tells(event: object): void }) {
    this.#spec = spec;
    this.#time = time;
    this.#listener = listener;
  }

  [Symbol.iterator](): Iterator<Activity> {
    return this.#kept[Symbol.iterator]();
  }

  launches({ id, zone }: LaunchedInstance): void {
    this.#note({ zone, status: 'InProgress', description: `${LAUNCHING}: ${id}`, message: '' });
  }

  launchFailed(place: Place, code: string): void {
    const message = failureMessage(code, this.#spec.market, place);
    this.#failed(place.zone, `${LAUNCHING}.  Status Reason: ${message}`, message);
  }

  /** Notes a start whose launch hook was completed with ABANDON. */
  abandoned({ id, zone }: LaunchedInstance): void {
    this.#failed(zone, `${LAUNCHING}: ${id}`, ABANDONED);
  }

  tellInterruption(instanceId: string): void {
    const detail = { 'instance-id': instanceId, 'instance-action': 'terminate' };
    this.#tell('aws.ec2', 'EC2 Spot Instance Interruption Warning', detail);
  }

  #failed(zone: string, description: string, message: string): void {
    const id = this.#note({ zone, status: 'Failed', description, message });
    const { group: AutoScalingGroupName } = this.#spec;
    const detail = { AutoScalingGroupName, ActivityId: id, StatusMessage: message, Details: placeOf(zone) };
    this.#tell('aws.autoscaling', 'EC2 Instance Launch Unsuccessful', detail);
  }

  #note({ zone, status, description, message }: NotedActivity): string {
    const id = `activity-${++this.#serial}`;
    const activity = {
      ActivityId: id,
      AutoScalingGroupName: this.#spec.group,
      Description: description,
      StatusCode: status as Activity['StatusCode'],
      StatusMessage: message,
      StartTime: new Date(this.#wallMs()),
      Details: JSON.stringify(placeOf(zone)),
      Cause: undefined,
    };
    this.#kept = [activity, ...this.#kept.slice(0, KEPT - 1)];
    return id;
  }

  #tell(source: string, type: string, detail: object): void {
    const id = `${this.#spec.group}-event-${++this.#serial}`;
    this.#listener.tells({ id, source, 'detail-type': type, time: new Date(this.#wallMs()).toISOString(), detail });
  }

  #wallMs(): number {
    return this.#time.beginsAtMs + this.#time.nowMs;
  }
}

function placeOf(zone: string): object {
  return { 'Availability Zone': zone };
}
