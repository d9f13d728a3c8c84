import {
  CompleteLifecycleActionCommand,
  DescribeScalingActivitiesCommand,
  RecordLifecycleActionHeartbeatCommand,
  SetDesiredCapacityCommand,
  TerminateInstanceInAutoScalingGroupCommand,
} from '@aws-sdk/client-auto-scaling';
import { describe, expect, it } from 'vitest';
import { type Fake, groupSpec, LAUNCH_HOOK, startFake, TERMINATE_HOOK } from './fake.ts';

/** Pages of the EC2 Auto Scaling user guide that these tests follow are named in their describe blocks. */
const HOOKED = groupSpec({ hooks: [LAUNCH_HOOK, TERMINATE_HOOK], desired: 1 });

function complete(fake: Fake, hook: string, result: 'CONTINUE' | 'ABANDON', by: { id?: string; token?: string }) {
  return fake.client().send(
    new CompleteLifecycleActionCommand({
      AutoScalingGroupName: 'g',
      LifecycleHookName: hook,
      LifecycleActionResult: result,
      InstanceId: by.id,
      LifecycleActionToken: by.token,
    }),
  );
}

async function inService(fake: Fake): Promise<string> {
  await fake.clock.advance(25_000);
  const id = fake.instances('g')[0]?.id ?? '';
  await complete(fake, 'launch', 'CONTINUE', { id });
  return id;
}

function endOne(fake: Fake, id: string) {
  const input = { InstanceId: id, ShouldDecrementDesiredCapacity: true };
  return fake.client().send(new TerminateInstanceInAutoScalingGroupCommand(input));
}

describe('How lifecycle hooks work in Auto Scaling groups', () => {
  it('takes a new instance through Pending:Wait to InService', async () => {
    await using fake = await startFake({ groups: [HOOKED] });
    await fake.clock.advance(1000);
    expect(fake.states()).toEqual(['Pending']);
    await fake.clock.advance(20_000);
    expect(fake.states()).toEqual(['Pending:Wait']);
    await complete(fake, 'launch', 'CONTINUE', { id: fake.instances('g')[0]?.id ?? '' });
    expect(fake.instances('g')[0]?.history).toEqual(['Pending', 'Pending:Wait', 'Pending:Proceed', 'InService']);
    expect(fake.told()).toEqual(['EC2 Instance-launch Lifecycle Action', 'EC2 Instance Launch Successful']);
  });

  it('takes an ending instance through Terminating:Wait to its end', async () => {
    const ended: string[] = [];
    await using fake = await startFake({ groups: [HOOKED], onTerminate: ({ id }) => ended.push(id) });
    const id = await inService(fake);
    const [instance] = fake.instances('g');
    await endOne(fake, id);
    expect(fake.states()).toEqual(['Terminating:Wait']);
    expect(ended).toEqual([]);
    await complete(fake, 'terminate', 'CONTINUE', { id });
    expect(ended).toEqual([id]);
    await fake.clock.advance(10_000);
    expect(fake.states()).toEqual([]);
    expect(instance?.history.slice(-4)).toEqual([
      'Terminating',
      'Terminating:Wait',
      'Terminating:Proceed',
      'Terminated',
    ]);
    expect(fake.told().slice(-2)).toEqual([
      'EC2 Instance-terminate Lifecycle Action',
      'EC2 Instance Terminate Successful',
    ]);
  });
});

describe('Complete a lifecycle action in an Auto Scaling group', () => {
  it('completes an action by its token alone', async () => {
    await using fake = await startFake({ groups: [HOOKED] });
    await fake.clock.advance(25_000);
    await complete(fake, 'launch', 'CONTINUE', { token: fake.instances('g')[0]?.actions[0]?.token ?? '' });
    expect(fake.states()).toEqual(['InService']);
  });

  it('refuses an action that no longer waits, by instance and by token', async () => {
    await using fake = await startFake({ groups: [HOOKED] });
    const id = await inService(fake);
    await expect(complete(fake, 'launch', 'CONTINUE', { id })).rejects.toMatchObject({
      name: 'ValidationError',
      message: `No active Lifecycle Action found with instance ID ${id}`,
    });
    await expect(complete(fake, 'launch', 'CONTINUE', { token: 'gone' })).rejects.toThrow(
      'No active Lifecycle Action found with token gone',
    );
  });

  it('ends and replaces an instance whose launch is abandoned', async () => {
    await using fake = await startFake({ groups: [HOOKED] });
    await fake.clock.advance(25_000);
    const [first] = fake.instances('g');
    await complete(fake, 'launch', 'ABANDON', { id: first?.id ?? '' });
    await fake.clock.advance(10_000);
    expect(fake.instances('g').map(({ id }) => id)).not.toContain(first?.id);
    expect(fake.states()).toEqual(['Pending']);
    const { Activities = [] } = await fake
      .client()
      .send(new DescribeScalingActivitiesCommand({ AutoScalingGroupName: 'g' }));
    const failed = Activities.find(({ StatusCode }) => StatusCode === 'Failed');
    expect(failed?.StatusMessage).toMatch(/^Instance failed to complete user's Lifecycle Action: .* ABANDON Result$/);
  });

  it('lets an instance end if its termination is abandoned, without the other hooks', async () => {
    const second = { ...TERMINATE_HOOK, name: 'second' };
    await using fake = await startFake({
      groups: [groupSpec({ hooks: [TERMINATE_HOOK, second], desired: 1 })],
    });
    await fake.clock.advance(25_000);
    const id = fake.instances('g')[0]?.id ?? '';
    await endOne(fake, id);
    await complete(fake, 'terminate', 'ABANDON', { id });
    expect(fake.states()).toEqual(['Terminating:Proceed']);
  });

  it('waits for every hook before it goes on', async () => {
    const second = { ...TERMINATE_HOOK, name: 'second' };
    await using fake = await startFake({ groups: [groupSpec({ hooks: [TERMINATE_HOOK, second], desired: 1 })] });
    await fake.clock.advance(25_000);
    const id = fake.instances('g')[0]?.id ?? '';
    await endOne(fake, id);
    await complete(fake, 'terminate', 'CONTINUE', { id });
    expect(fake.states()).toEqual(['Terminating:Wait']);
    await complete(fake, 'second', 'CONTINUE', { id });
    expect(fake.states()).toEqual(['Terminating:Proceed']);
  });
});

describe('Heartbeat time-out of a lifecycle hook', () => {
  it('ends the action with the default result', async () => {
    await using fake = await startFake({ groups: [HOOKED] });
    const id = await inService(fake);
    await endOne(fake, id);
    await fake.clock.advance(299_000);
    expect(fake.states()).toEqual(['Terminating:Wait']);
    await fake.clock.advance(2000);
    expect(fake.states()).toEqual(['Terminating:Proceed']);
  });

  it('begins again with a heartbeat, until 100 times the time-out are over', async () => {
    await using fake = await startFake({ groups: [HOOKED] });
    const id = await inService(fake);
    await endOne(fake, id);
    const input = { AutoScalingGroupName: 'g', LifecycleHookName: 'terminate', InstanceId: id };
    let beats = 0;
    while (fake.states()[0] === 'Terminating:Wait' && beats < 200) {
      await fake.client().send(new RecordLifecycleActionHeartbeatCommand(input));
      await fake.clock.advance(200_000);
      beats++;
    }
    // 100 times 300 seconds, in steps of 200.
    expect(beats).toBe(150);
  });
});

describe('Control instance retention with instance lifecycle policies', () => {
  const RETAINED = groupSpec({
    hooks: [{ ...TERMINATE_HOOK, defaultResult: 'ABANDON' }],
    retains: true,
    desired: 1,
  });

  it('keeps an instance whose termination was abandoned or timed out, and no longer counts it', async () => {
    await using fake = await startFake({ groups: [RETAINED] });
    await fake.clock.advance(25_000);
    const id = fake.instances('g')[0]?.id ?? '';
    await fake
      .client()
      .send(new TerminateInstanceInAutoScalingGroupCommand({ InstanceId: id, ShouldDecrementDesiredCapacity: false }));
    await fake.clock.advance(301_000);
    expect(fake.states()).toEqual(['Terminating:Retained', 'InService']);
    await fake
      .client()
      .send(new TerminateInstanceInAutoScalingGroupCommand({ InstanceId: id, ShouldDecrementDesiredCapacity: true }));
    await fake.clock.advance(10_000);
    expect(fake.states()).toEqual(['InService']);
    expect(fake.account.groups.get('g')?.desired).toBe(1);
  });

  it('lets an instance end whose termination was completed', async () => {
    await using fake = await startFake({ groups: [RETAINED] });
    await fake.clock.advance(25_000);
    const id = fake.instances('g')[0]?.id ?? '';
    await endOne(fake, id);
    await complete(fake, 'terminate', 'CONTINUE', { id });
    expect(fake.states()).toEqual(['Terminating:Proceed']);
  });
});

describe('Manual scaling while launches wait', () => {
  it('ends pending launches first, or instances in service first, as the test says', async () => {
    for (const [scaleIn, left] of [
      ['pending-first', 'InService'],
      ['in-service-first', 'Pending:Wait'],
    ] as const) {
      await using fake = await startFake({ groups: [HOOKED], scaleIn });
      await inService(fake);
      const set = (DesiredCapacity: number) =>
        fake.client().send(new SetDesiredCapacityCommand({ AutoScalingGroupName: 'g', DesiredCapacity }));
      await set(2);
      await fake.clock.advance(25_000);
      await set(1);
      await fake.clock.advance(2000);
      expect(fake.states()).toContain(left);
      expect(fake.states().filter((state) => state === 'Terminating:Wait')).toHaveLength(1);
    }
  });
});
