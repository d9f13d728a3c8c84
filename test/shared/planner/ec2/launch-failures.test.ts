import { describe, expect, it } from 'vitest';
import { newestFailure } from '../../../../shared/planner/ec2/launch-failures.ts';
import { failedTypes, launchFailureCode } from '../../../../shared/planner/signals/launch-codes.ts';
import { failureMessage, type ShortageCode } from '../../../support/aws/auto-scaling/capacity.ts';

const CODES: readonly ShortageCode[] = [
  'InsufficientInstanceCapacity',
  'VcpuLimitExceeded',
  'MaxSpotInstanceCountExceeded',
  'UnfulfillableCapacity',
  'ReservationCapacityExceeded',
  'InvalidParameterValue',
];

describe('the code of a failed launch', () => {
  it('is read from the words of a group with a plain launch template, and of one with a mixed policy', () => {
    const place = { type: 'p5.48xlarge', zone: 'us-east-1b', market: 'spot' } as const;
    for (const code of CODES) {
      for (const isMixed of [false, true]) expect(launchFailureCode(failureMessage(code, place, isMixed))).toBe(code);
    }
  });

  it.each([
    [
      'Could not launch Spot Instances. InvalidFleetConfiguration - Your requested instance type (p3.8xlarge) is not supported in your requested Availability Zone (us-east-2c). Launching EC2 instance failed.',
      'InvalidFleetConfiguration',
    ],
    [
      'Your requested instance type (p5.48xlarge) is not supported in your requested Availability Zone (us-east-1e). Launching EC2 instance failed.',
      'Unsupported',
    ],
    [
      "Instance failed to complete user's Lifecycle Action: Lifecycle Action with token 5ca1ab1e was abandoned: Heartbeat Timeout",
      'StartFailed',
    ],
    ['Something that AWS has not said before.', 'LaunchFailed'],
    ['', 'LaunchFailed'],
  ])('of %j is %s', (message, code) => {
    expect(launchFailureCode(message)).toBe(code);
  });

  it('comes with the types that the words name', () => {
    expect(failedTypes('not sufficient g6e.12xlarge capacity; try g6e.24xlarge or u7in-24tb.224xlarge')).toEqual([
      'g6e.12xlarge',
      'g6e.24xlarge',
      'u7in-24tb.224xlarge',
    ]);
    expect(failedTypes('Unable to fulfill capacity due to your request configuration.')).toEqual([]);
  });
});

describe('the newest failure of a group', () => {
  const activity = (StatusCode: 'Failed' | 'Successful' | 'InProgress', zone: string, minute: number) => ({
    ActivityId: `${minute}`,
    AutoScalingGroupName: 'g',
    Cause: '',
    Description: 'Launching a new EC2 instance.  Status Reason: Max spot instance count exceeded.',
    StatusMessage: 'Max spot instance count exceeded.',
    StartTime: new Date(minute * 60_000),
    StatusCode,
    Details: JSON.stringify({ 'Availability Zone': zone }),
  });

  it('is over once a newer launch runs or has succeeded', () => {
    const failed = activity('Failed', 'a', 1);
    expect(newestFailure([failed], ['a'])).toMatchObject({ zone: 'a', atMs: 60_000 });
    expect(newestFailure([activity('InProgress', 'a', 2), failed], ['a'])).toBeUndefined();
    expect(newestFailure([activity('Successful', 'a', 2), failed], ['a'])).toBeUndefined();
  });

  it('counts only failures since the last success when it says that every zone failed', () => {
    const [one, good, two] = [activity('Failed', 'a', 3), activity('Successful', 'b', 2), activity('Failed', 'b', 1)];
    expect(newestFailure([one, good, two], ['a', 'b'])?.zone).toBe('a');
    expect(newestFailure([one, two], ['a', 'b'])).toMatchObject({ zone: undefined, atMs: 180_000 });
  });

  it('ignores activities that are no launches, and details that are no JSON', () => {
    const ending = { ...activity('Successful', 'a', 2), Description: 'Terminating EC2 instance: i-1' };
    const odd = { ...activity('Failed', 'a', 1), Details: 'text' };
    expect(newestFailure([ending, odd], ['a'])).toMatchObject({
      code: 'MaxSpotInstanceCountExceeded',
      zone: undefined,
    });
  });
});
