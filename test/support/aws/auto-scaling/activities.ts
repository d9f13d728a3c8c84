import type { Account } from './account.ts';
import type { Activity, FakeGroup, FakeInstance } from './types.ts';

/** Notes an activity that begins now. */
export function beginActivity(
  account: Account,
  group: FakeGroup,
  { description, cause, zone, instanceId = '' }: Readonly<ActivityStart>,
): Activity {
  return account.note({
    id: account.uuid(),
    group: group.name,
    description,
    cause: `At ${new Date(account.clock.wallMs()).toISOString()} ${cause}`,
    startMs: account.clock.wallMs(),
    details: zone === undefined ? {} : { 'Availability Zone': zone, 'Subnet ID': `subnet-${zone}` },
    endMs: undefined,
    status: 'InProgress',
    message: '',
    progress: 50,
    instanceId,
  });
}

interface ActivityStart {
  readonly description: string;
  readonly cause: string;
  readonly zone?: string;
  readonly instanceId?: string;
}

export function endActivity(account: Account, activity: Activity, status: string, message = ''): void {
  activity.status = status;
  activity.message = message;
  activity.endMs = account.clock.wallMs();
  activity.progress = 100;
}

/** Returns the activity that still runs for an instance, if there is one. */
export function runningActivity(account: Account, { id }: FakeInstance): Activity | undefined {
  return account.activities.findLast(({ instanceId, endMs }) => instanceId === id && endMs === undefined);
}
