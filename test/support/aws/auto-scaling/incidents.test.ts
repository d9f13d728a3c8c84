import {
  DescribeAutoScalingGroupsCommand,
  DescribeWarmPoolCommand,
  PutWarmPoolCommand,
  SetDesiredCapacityCommand,
  TerminateInstanceInAutoScalingGroupCommand,
} from '@aws-sdk/client-auto-scaling';
import { describe, expect, it } from 'vitest';
import { type Fake, groupSpec, LAUNCH_HOOK, startFake, TERMINATE_HOOK } from './fake.ts';

function set(fake: Fake, DesiredCapacity: number) {
  return fake.client().send(new SetDesiredCapacityCommand({ AutoScalingGroupName: 'g', DesiredCapacity }));
}

function endAll(fake: Fake): void {
  for (const { actions } of fake.instances('g')) for (const action of [...actions]) action.end('CONTINUE', '');
}

describe('Spot Instance interruption notices', () => {
  it('warns, ends the instance two minutes later whatever its hooks, and the group replaces it', async () => {
    const lost: string[] = [];
    const spot = groupSpec({ market: 'spot', desired: 1, hooks: [TERMINATE_HOOK], protectsNew: true });
    await using fake = await startFake({ groups: [spot], onTerminate: ({ id }) => lost.push(id) });
    await fake.clock.advance(25_000);
    const [id = ''] = fake.instances('g').map((each) => each.id);
    fake.interruptSpot(id);
    expect(fake.events.at(-1)).toMatchObject({
      source: 'aws.ec2',
      'detail-type': 'EC2 Spot Instance Interruption Warning',
      detail: { 'instance-id': id, 'instance-action': 'terminate' },
    });
    await fake.clock.advance(119_000);
    expect(lost).toEqual([]);
    await fake.clock.advance(30_000);
    expect(lost).toEqual([id]);
    expect(fake.states()).toEqual(['InService']);
  });
});

describe('Use Capacity Rebalancing', () => {
  it('launches a replacement before it ends the instance at risk', async () => {
    const spot = groupSpec({ market: 'spot', desired: 1, max: 1, rebalances: true, hooks: [TERMINATE_HOOK] });
    await using fake = await startFake({ groups: [spot] });
    await fake.clock.advance(25_000);
    const [id = ''] = fake.instances('g').map((each) => each.id);
    fake.recommendRebalance(id);
    await fake.clock.advance(2000);
    expect(fake.states()).toEqual(['InService', 'Pending']);
    await fake.clock.advance(25_000);
    expect(fake.states()).toEqual(['Terminating:Wait', 'InService']);
  });

  it('only tells of the recommendation if the group does not rebalance', async () => {
    await using fake = await startFake({ groups: [groupSpec({ market: 'spot', desired: 1 })] });
    await fake.clock.advance(25_000);
    fake.recommendRebalance(fake.instances('g')[0]?.id ?? '');
    await fake.clock.advance(30_000);
    expect(fake.told().at(-1)).toBe('EC2 Instance Rebalance Recommendation');
    expect(fake.states()).toEqual(['InService']);
  });
});

describe('A lost zone', () => {
  it('takes its instances, and launches go to the other zone until it is back', async () => {
    await using fake = await startFake({ groups: [groupSpec({ zones: ['us-east-1a', 'us-east-1b'], desired: 4 })] });
    await fake.clock.advance(25_000);
    const inZone = (zone: string) => fake.instances('g').filter((each) => each.zone === zone).length;
    expect([inZone('us-east-1a'), inZone('us-east-1b')]).toEqual([2, 2]);
    const back = fake.loseZone('us-east-1a');
    await fake.clock.advance(30_000);
    expect([inZone('us-east-1a'), inZone('us-east-1b')]).toEqual([0, 4]);
    back();
    await set(fake, 5);
    await fake.clock.advance(30_000);
    expect(inZone('us-east-1a')).toBe(1);
  });
});

describe('Use lifecycle hooks with a warm pool', () => {
  const POOL = { minSize: 0, maxPrepared: 1, state: 'Stopped', reuses: true } as const;
  const WARM = groupSpec({ max: 4, hooks: [LAUNCH_HOOK, TERMINATE_HOOK], warmPool: POOL });

  it('prepares an instance with its launch hook, and stops it', async () => {
    const calls: string[] = [];
    const on = (name: string) => () => void calls.push(name);
    await using fake = await startFake({
      groups: [WARM],
      onLaunch: on('launch'),
      onStop: on('stop'),
      onStart: on('start'),
    });
    await fake.clock.advance(25_000);
    expect(fake.states()).toEqual(['Warmed:Pending:Wait']);
    expect(fake.events.at(-1)?.detail).toMatchObject({ Origin: 'EC2', Destination: 'WarmPool' });
    endAll(fake);
    expect(fake.states()).toEqual(['Warmed:Stopped']);
    await set(fake, 1);
    await fake.clock.advance(15_000);
    expect(fake.states()[0]).toBe('Pending:Wait');
    expect(fake.events.at(-1)?.detail).toMatchObject({ Origin: 'WarmPool', Destination: 'AutoScalingGroup' });
    expect(calls).toEqual(['launch', 'stop', 'start']);
  });

  it('returns an instance to the pool on scale-in, paused in Warmed:Pending:Wait', async () => {
    await using fake = await startFake({ groups: [WARM] });
    await fake.clock.advance(25_000);
    endAll(fake);
    await set(fake, 1);
    await fake.clock.advance(15_000);
    endAll(fake);
    const [first] = fake.instances('g');
    expect(first?.state).toBe('InService');
    await set(fake, 0);
    await fake.clock.advance(2000);
    expect(first?.state).toBe('Warmed:Pending:Wait');
    expect(first?.target).toBe('Warmed:Stopped');
    expect(fake.events.at(-1)).toMatchObject({
      'detail-type': 'EC2 Instance-terminate Lifecycle Action',
      detail: { Origin: 'AutoScalingGroup', Destination: 'WarmPool' },
    });
    endAll(fake);
    expect(first?.state).toBe('Warmed:Stopped');
  });

  it('describes the pool apart from the instances in service, and changes its size', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1, warmPool: { ...POOL, minSize: 1 } })] });
    const client = fake.client();
    await fake.clock.advance(25_000);
    const { AutoScalingGroups: [group] = [] } = await client.send(new DescribeAutoScalingGroupsCommand({}));
    expect(group).toMatchObject({ WarmPoolSize: 1, Instances: [{ LifecycleState: 'InService' }] });
    const pool = await client.send(new DescribeWarmPoolCommand({ AutoScalingGroupName: 'g' }));
    expect(pool.Instances).toMatchObject([{ LifecycleState: 'Warmed:Stopped' }]);
    await client.send(new PutWarmPoolCommand({ AutoScalingGroupName: 'g', MinSize: 0, MaxGroupPreparedCapacity: 0 }));
    await fake.clock.advance(10_000);
    expect(fake.states()).toEqual(['InService']);
  });

  it('refuses to end an instance of the pool', async () => {
    await using fake = await startFake({ groups: [groupSpec({ warmPool: POOL })] });
    await fake.clock.advance(25_000);
    const input = { InstanceId: fake.instances('g')[0]?.id, ShouldDecrementDesiredCapacity: false };
    await expect(fake.client().send(new TerminateInstanceInAutoScalingGroupCommand(input))).rejects.toThrow(
      /warm pool/,
    );
  });
});

describe('Faults of calls', () => {
  it('throttles, loses answers after their effect, and counts calls', async () => {
    await using fake = await startFake({ groups: [groupSpec()] });
    fake.faults.add({ action: 'SetDesiredCapacity', isThrottled: true, times: 1 });
    fake.faults.add({ action: 'SetDesiredCapacity', losesAnswer: true, after: 0, times: 1 });
    await expect(set(fake, 1)).rejects.toMatchObject({ name: 'Throttling', message: 'Rate exceeded' });
    expect(fake.account.groups.get('g')?.desired).toBe(0);
    await expect(set(fake, 2)).rejects.toThrow();
    expect(fake.account.groups.get('g')?.desired).toBe(2);
    expect(fake.faults.counts()).toEqual({ SetDesiredCapacity: 2 });
  });

  it('lets a call take effect late', async () => {
    await using fake = await startFake({ groups: [groupSpec()] });
    fake.faults.add({ effectAfterMs: 5000 });
    const late = set(fake, 2);
    while (fake.faults.calls.length === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(fake.account.groups.get('g')?.desired).toBe(0);
    await fake.clock.advance(5000);
    await late;
    expect(fake.account.groups.get('g')?.desired).toBe(2);
  });
});
