import {
  CreateAutoScalingGroupCommand,
  DescribeAutoScalingGroupsCommand,
  type DescribeAutoScalingGroupsCommandInput,
  DescribeAutoScalingInstancesCommand,
  DescribeScalingActivitiesCommand,
  SetDesiredCapacityCommand,
  SetInstanceHealthCommand,
  SetInstanceProtectionCommand,
  SuspendProcessesCommand,
  TerminateInstanceInAutoScalingGroupCommand,
} from '@aws-sdk/client-auto-scaling';
import { describe, expect, it } from 'vitest';
import { type Fake, groupSpec, startFake } from './fake.ts';

function set(fake: Fake, DesiredCapacity: number, AutoScalingGroupName = 'g') {
  return fake.client().send(new SetDesiredCapacityCommand({ AutoScalingGroupName, DesiredCapacity }));
}

function end(fake: Fake, InstanceId: string, ShouldDecrementDesiredCapacity = true) {
  return fake
    .client()
    .send(new TerminateInstanceInAutoScalingGroupCommand({ InstanceId, ShouldDecrementDesiredCapacity }));
}

async function activities(fake: Fake, AutoScalingGroupName = 'g') {
  const { Activities = [] } = await fake.client().send(new DescribeScalingActivitiesCommand({ AutoScalingGroupName }));
  return Activities;
}

describe('SetDesiredCapacity', () => {
  it('launches what is missing, and refuses what is outside of the bounds in the words of AWS', async () => {
    await using fake = await startFake({ groups: [groupSpec({ min: 1, max: 3 })] });
    await set(fake, 3);
    await fake.clock.advance(30_000);
    expect(fake.states()).toEqual(['InService', 'InService', 'InService']);
    await expect(set(fake, 4)).rejects.toMatchObject({
      name: 'ValidationError',
      message: 'New SetDesiredCapacity value 4 is above max value 3 for the AutoScalingGroup.',
    });
    await expect(set(fake, 0)).rejects.toThrow(
      'New SetDesiredCapacity value 0 is below min value 1 for the AutoScalingGroup.',
    );
    await expect(set(fake, 1, 'other')).rejects.toThrow(/AutoScalingGroup name not found/);
  });
});

describe('TerminateInstanceInAutoScalingGroup', () => {
  it('lowers the desired capacity only if the call says so', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 2 })] });
    await fake.clock.advance(25_000);
    const [one, two] = fake.instances('g').map(({ id }) => id);
    await end(fake, one ?? '', false);
    expect(fake.account.groups.get('g')?.desired).toBe(2);
    await end(fake, two ?? '');
    expect(fake.account.groups.get('g')?.desired).toBe(1);
    await fake.clock.advance(40_000);
    expect(fake.states()).toEqual(['InService']);
  });

  it('refuses to go below the minimum, unknown instances, and a second end of one instance', async () => {
    await using fake = await startFake({ groups: [groupSpec({ min: 1, desired: 2 })] });
    await fake.clock.advance(25_000);
    const [one, two] = fake.instances('g').map(({ id }) => id);
    await end(fake, one ?? '');
    await expect(end(fake, one ?? '')).rejects.toMatchObject({ name: 'ScalingActivityInProgressFault' });
    await expect(end(fake, two ?? '')).rejects.toThrow(
      "Currently, desiredSize equals minSize (1). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.",
    );
    await fake.clock.advance(10_000);
    await expect(end(fake, one ?? '')).rejects.toThrow(
      `Instance Id not found - No managed instance found for instance ID: ${one}`,
    );
  });
});

describe('Use instance scale-in protection', () => {
  const PROTECTED = groupSpec({ desired: 2, protectsNew: true });

  it('keeps protected instances at a lower desired capacity, and says so once', async () => {
    await using fake = await startFake({ groups: [PROTECTED] });
    await fake.clock.advance(25_000);
    await set(fake, 0);
    await fake.clock.advance(60_000);
    await set(fake, 0);
    await fake.clock.advance(60_000);
    expect(fake.states()).toEqual(['InService', 'InService']);
    const cancelled = (await activities(fake)).filter(({ StatusCode }) => StatusCode === 'Cancelled');
    expect(cancelled.map(({ StatusMessage }) => StatusMessage)).toEqual([
      'Could not scale to desired capacity because all remaining instances are protected from scale-in.',
    ]);
    const [id = ''] = fake.instances('g').map((each) => each.id);
    await fake
      .client()
      .send(
        new SetInstanceProtectionCommand({ AutoScalingGroupName: 'g', InstanceIds: [id], ProtectedFromScaleIn: false }),
      );
    await fake.clock.advance(10_000);
    expect(fake.instances('g').map((each) => each.id)).not.toContain(id);
    expect(fake.states()).toEqual(['InService']);
  });

  it('ends a protected instance that is named, or that is unhealthy', async () => {
    await using fake = await startFake({ groups: [PROTECTED] });
    await fake.clock.advance(25_000);
    const [one = '', two = ''] = fake.instances('g').map(({ id }) => id);
    await end(fake, one);
    await fake.client().send(new SetInstanceHealthCommand({ InstanceId: two, HealthStatus: 'Unhealthy' }));
    await fake.clock.advance(40_000);
    expect(fake.instances('g').map(({ id, state }) => [[one, two].includes(id), state])).toEqual([
      [false, 'InService'],
    ]);
  });
});

describe('Health checks and processes', () => {
  it('respects the grace period unless the call says otherwise', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1, graceSecs: 600 })] });
    await fake.clock.advance(25_000);
    const [InstanceId = ''] = fake.instances('g').map(({ id }) => id);
    const unhealthy = { InstanceId, HealthStatus: 'Unhealthy' };
    await fake.client().send(new SetInstanceHealthCommand(unhealthy));
    await fake.clock.advance(5000);
    expect(fake.states()).toEqual(['InService']);
    await fake.client().send(new SetInstanceHealthCommand({ ...unhealthy, ShouldRespectGracePeriod: false }));
    await fake.clock.advance(2000);
    expect(fake.states()).toEqual(['Terminating:Proceed', 'Pending']);
  });

  it('does nothing of a suspended process', async () => {
    await using fake = await startFake({ groups: [groupSpec()] });
    const input = { AutoScalingGroupName: 'g', ScalingProcesses: ['Launch'] };
    await fake.client().send(new SuspendProcessesCommand(input));
    await set(fake, 1);
    await fake.clock.advance(60_000);
    expect(fake.states()).toEqual([]);
  });
});

describe('Launch failures', () => {
  it("writes EC2's words into the activity and the event, and tries again", async () => {
    await using fake = await startFake({ groups: [groupSpec()] });
    const enough = fake.account.capacity.lack({ zone: 'us-east-1a', code: 'InsufficientInstanceCapacity' });
    await set(fake, 1);
    await fake.clock.advance(2000);
    const [failed] = await activities(fake);
    expect(failed).toMatchObject({ StatusCode: 'Failed', Progress: 100 });
    expect(failed?.StatusMessage).toMatch(
      /^We currently do not have sufficient g6e\.12xlarge capacity in the Availability Zone you requested \(us-east-1a\)\. .* Launching EC2 instance failed\.$/,
    );
    expect(failed?.Description).toBe(`Launching a new EC2 instance.  Status Reason: ${failed?.StatusMessage}`);
    expect(fake.events.at(-1)).toMatchObject({
      'detail-type': 'EC2 Instance Launch Unsuccessful',
      detail: { StatusCode: 'Failed', EC2InstanceId: '', Details: { 'Availability Zone': 'us-east-1a' } },
    });
    enough();
    await fake.clock.advance(90_000);
    expect(fake.states()).toEqual(['InService']);
  });

  it('names market and code if the group has a mixed instances policy', async () => {
    const spot = groupSpec({ market: 'spot', types: ['g6e.12xlarge', 'g6e.24xlarge'] });
    await using fake = await startFake({ groups: [spot] });
    fake.account.capacity.lack({ code: 'UnfulfillableCapacity' });
    await set(fake, 1);
    await fake.clock.advance(2000);
    const [failed] = await activities(fake);
    expect(failed?.StatusMessage).toBe(
      'Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration. Please adjust your request and try again. Launching EC2 instance failed.',
    );
  });

  it('launches in another zone, or another type, that has capacity', async () => {
    const wide = groupSpec({ zones: ['us-east-1a', 'us-east-1b'], types: ['p5.48xlarge', 'p5e.48xlarge'] });
    await using fake = await startFake({ groups: [wide] });
    fake.account.capacity.lack({ zone: 'us-east-1a', code: 'InsufficientInstanceCapacity' });
    fake.account.capacity.lack({ type: 'p5.48xlarge', code: 'InsufficientInstanceCapacity' });
    await set(fake, 2);
    await fake.clock.advance(30_000);
    expect(fake.instances('g').map(({ zone, type }) => [zone, type])).toEqual([
      ['us-east-1b', 'p5e.48xlarge'],
      ['us-east-1b', 'p5e.48xlarge'],
    ]);
  });
});

describe('Describing groups and instances', () => {
  it('answers in pages, and limits the names by MaxRecords', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `g${index}`);
    await using fake = await startFake({ groups: names.map((name) => groupSpec({ name })) });
    const describe = (input: DescribeAutoScalingGroupsCommandInput) =>
      fake.client().send(new DescribeAutoScalingGroupsCommand(input));
    const first = await describe({});
    const second = await describe({ NextToken: first.NextToken });
    expect([first.AutoScalingGroups?.length, second.AutoScalingGroups?.length, second.NextToken]).toEqual([
      50,
      10,
      undefined,
    ]);
    await expect(describe({ AutoScalingGroupNames: names })).rejects.toThrow(/limited to 50/);
    const all = await describe({ AutoScalingGroupNames: names, MaxRecords: 100 });
    expect(all.AutoScalingGroups).toHaveLength(60);
    await expect(describe({ NextToken: 'other' })).rejects.toMatchObject({ name: 'InvalidNextToken' });
  });

  it('shows a group that was created by the API, and its instances', async () => {
    await using fake = await startFake({ groups: [] });
    const client = fake.client();
    await client.send(
      new CreateAutoScalingGroupCommand({
        AutoScalingGroupName: 'made',
        MinSize: 0,
        MaxSize: 2,
        DesiredCapacity: 1,
        AvailabilityZones: ['us-east-1a'],
        NewInstancesProtectedFromScaleIn: true,
        MixedInstancesPolicy: { LaunchTemplate: { Overrides: [{ InstanceType: 'p5.48xlarge' }] } },
      }),
    );
    await fake.clock.advance(30_000);
    const { AutoScalingGroups: [group] = [] } = await client.send(new DescribeAutoScalingGroupsCommand({}));
    expect(group).toMatchObject({ DesiredCapacity: 1, MaxSize: 2, NewInstancesProtectedFromScaleIn: true });
    expect(group?.Instances).toMatchObject([{ LifecycleState: 'InService', ProtectedFromScaleIn: true }]);
    const { AutoScalingInstances: [instance] = [] } = await client.send(new DescribeAutoScalingInstancesCommand({}));
    expect(instance).toMatchObject({ AutoScalingGroupName: 'made', InstanceType: 'p5.48xlarge' });
  });

  it('leaves out the activities that a filter leaves out', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1 })] });
    await fake.clock.advance(30_000);
    const since = (date: Date) => [{ Name: 'StartTimeLowerBound', Values: [date.toISOString()] }];
    const { Activities = [] } = await fake.client().send(
      new DescribeScalingActivitiesCommand({
        AutoScalingGroupName: 'g',
        Filters: since(new Date(fake.clock.wallMs() - 60_000)),
      }),
    );
    expect(Activities).toHaveLength(1);
    const none = await fake.client().send(
      new DescribeScalingActivitiesCommand({
        AutoScalingGroupName: 'g',
        Filters: since(new Date(fake.clock.wallMs())),
      }),
    );
    expect(none.Activities).toEqual([]);
  });
});
