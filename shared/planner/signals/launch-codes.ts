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
