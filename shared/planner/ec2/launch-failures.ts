import type { Activity } from '@aws-sdk/client-auto-scaling';
import { asRecord } from '../../records/index.ts';
import type { LaunchFailure } from '../live/connector.ts';

/** "Could not launch Spot Instances. UnfulfillableCapacity - Unable ..." of a group with a mixed instances policy. */
const NAMED_CODE = /Instances\. ([A-Za-z][A-Za-z.]{2,60}) - /;
/** Codes of EC2, and the words of each if the status message has no code: a plain launch template gives only words. */
const WORDS: readonly (readonly [code: string, words: RegExp])[] = [
  ['InsufficientInstanceCapacity', /do not have sufficient [^ ]+ capacity|Insufficient capacity/i],
  ['VcpuLimitExceeded', /vCPU limit/i],
  ['MaxSpotInstanceCountExceeded', /Max spot instance count exceeded/i],
  ['UnfulfillableCapacity', /Unable to fulfill capacity/i],
  ['ReservationCapacityExceeded', /reservation does not have sufficient/i],
  ['InstanceLimitExceeded', /instance limit|quota/i],
  ['Unsupported', /is not supported in your requested Availability Zone/i],
  ['StartFailed', /failed to complete user's Lifecycle Action/i],
  ['InvalidParameterValue', /Invalid /],
];

/** Returns EC2's code for the status message of a launch that failed; `LaunchFailed` for words that are unknown. */
export function launchFailureCode(statusMessage: string): string {
  const named = NAMED_CODE.exec(statusMessage)?.[1];
  return named ?? WORDS.find(([, words]) => words.test(statusMessage))?.[0] ?? 'LaunchFailed';
}

const TYPE = /\b([a-z][a-z0-9-]*\d[a-z0-9-]*\.(?:metal(?:-\d+xl)?|(?:\d+x?)?(?:nano|micro|small|medium|large)))\b/g;

/** Returns the types of instances that a status message names; none: all types of the group. */
export function failedTypes(statusMessage: string): readonly string[] {
  return [...new Set([...statusMessage.matchAll(TYPE)].flatMap(([, type]) => type ?? []))];
}

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
 */
export function newestFailure(activities: readonly Activity[], zones: readonly string[]): LaunchFailure | undefined {
  const launches = activities.filter(isLaunch);
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
