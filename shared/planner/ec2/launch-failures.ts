import type { Activity } from '@aws-sdk/client-auto-scaling';
import { asRecord } from '../../records/index.ts';
import type { LaunchFailure } from '../live/connector.ts';
import { failedTypes, launchFailureCode } from '../signals/launch-codes.ts';

/** Returns the availability zone that an activity states in its details. */
function zoneOf({ Details: details = '' }: Activity): string | undefined {
  try {
    const zone = asRecord(JSON.parse(details))?.['Availability Zone'];
    return typeof zone === 'string' && zone !== '' ? zone : undefined;
  } catch {
    return undefined; // AWS documents the details as text: without a zone, the failure counts for all zones
  }
}

function isLaunch({ Description: description = '' }: Activity): boolean {
  return description.startsWith('Launching a new EC2 instance');
}

/**
 * Returns how the newest launch of a group failed, from its activities, newest first; undefined if a newer one has
 * succeeded or still runs. If every zone of the group failed since the last success, the failure has no zone.
 *
 * @param isCalledOff whether the planner itself has ended a launch
 */
export function newestFailure(
  activities: readonly Activity[],
  zones: readonly string[],
  isCalledOff: (activity: Activity) => boolean = () => false,
): LaunchFailure | undefined {
  const launches = activities.filter((activity) => isLaunch(activity) && !isCalledOff(activity));
  const lastGood = launches.findIndex(({ StatusCode: status }) => status !== 'Failed' && status !== 'Cancelled');
  const failed = launches
    .slice(0, lastGood < 0 ? launches.length : lastGood)
    .filter(({ StatusCode: status }) => status === 'Failed');
  const [newest] = failed;
  if (newest === undefined) return undefined;
  const { StatusMessage: message = '', StartTime: at } = newest;
  const failedZones = new Set(failed.map(zoneOf));
  const isEverywhere = zones.length > 1 && zones.every((zone) => failedZones.has(zone));
  return {
    code: launchFailureCode(message),
    zone: isEverywhere ? undefined : zoneOf(newest),
    types: failedTypes(message),
    atMs: at?.getTime() ?? 0,
  };
}
