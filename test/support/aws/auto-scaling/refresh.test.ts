import {
  CancelInstanceRefreshCommand,
  DescribeInstanceRefreshesCommand,
  PutWarmPoolCommand,
  type RefreshPreferences,
  RollbackInstanceRefreshCommand,
  StartInstanceRefreshCommand,
  type StartInstanceRefreshCommandInput,
} from '@aws-sdk/client-auto-scaling';
import { describe, expect, it } from 'vitest';
import { type Fake, groupSpec, startFake, TERMINATE_HOOK } from './fake.ts';

const GROUP = { AutoScalingGroupName: 'g' };

function start(fake: Fake, Preferences: RefreshPreferences, more: Partial<StartInstanceRefreshCommandInput> = {}) {
  return fake.client().send(new StartInstanceRefreshCommand({ ...GROUP, Preferences, ...more }));
}

async function newest(fake: Fake) {
  const { InstanceRefreshes: [refresh] = [] } = await fake.client().send(new DescribeInstanceRefreshesCommand(GROUP));
  return refresh;
}

const versions = (fake: Fake) => fake.instances('g').map(({ templateVersion }) => templateVersion);

describe('How an instance refresh works', () => {
  it('launches first if the maximum healthy percentage allows it, and never has fewer than the minimum', async () => {
    let least = Number.POSITIVE_INFINITY;
    await using fake = await startFake({ groups: [groupSpec({ desired: 3, protectsNew: true })] });
    await fake.clock.advance(25_000);
    fake.useTemplate('g', '2');
    await start(fake, { MinHealthyPercentage: 100, MaxHealthyPercentage: 134, ScaleInProtectedInstances: 'Refresh' });
    for (let step = 0; step < 200 && (await newest(fake))?.EndTime === undefined; step++) {
      await fake.clock.advance(1000);
      least = Math.min(least, fake.states().filter((state) => state === 'InService').length);
    }
    expect(await newest(fake)).toMatchObject({ Status: 'Successful', PercentageComplete: 100, InstancesToUpdate: 0 });
    await fake.clock.advance(10_000);
    expect(versions(fake)).toEqual(['2', '2', '2']);
    expect(least).toBe(3);
    expect(fake.told().filter((type) => type === 'EC2 Instance Terminate Successful')).toHaveLength(3);
    expect(fake.told().filter((type) => type.includes('Refresh'))).toEqual([
      'EC2 Auto Scaling Instance Refresh Started',
      'EC2 Auto Scaling Instance Refresh Succeeded',
    ]);
  });

  it('replaces one at a time if the percentages allow none', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1 })] });
    await fake.clock.advance(25_000);
    fake.useTemplate('g', '2');
    await start(fake, {});
    await fake.clock.advance(60_000);
    expect(versions(fake)).toEqual(['2']);
  });

  it('skips instances that match, and waits for their warm-up', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 2, warmupSecs: 300 })] });
    await fake.clock.advance(25_000);
    await start(fake, { SkipMatching: true });
    await fake.clock.advance(2000);
    expect(await newest(fake)).toMatchObject({ Status: 'InProgress', PercentageComplete: 100 });
    await fake.clock.advance(310_000);
    expect(fake.told().filter((type) => type.startsWith('EC2 Instance Terminate'))).toEqual([]);
  });

  it('waits an hour for protected instances, and fails', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1, protectsNew: true })] });
    await fake.clock.advance(25_000);
    await start(fake, {});
    await fake.clock.advance(3_000_000);
    expect(await newest(fake)).toMatchObject({ Status: 'InProgress' });
    await fake.clock.advance(700_000);
    expect(await newest(fake)).toMatchObject({ Status: 'Failed', StatusReason: expect.stringMatching(/protected/) });
  });

  it('bakes before it succeeds', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1 })] });
    await fake.clock.advance(25_000);
    await start(fake, { BakeTime: 600 });
    await fake.clock.advance(120_000);
    expect(await newest(fake)).toMatchObject({ Status: 'Baking' });
    await fake.clock.advance(601_000);
    expect(await newest(fake)).toMatchObject({ Status: 'Successful' });
  });
});

describe('Start, cancel and roll back an instance refresh', () => {
  it('runs one at a time, and refuses a warm pool meanwhile', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1 })] });
    await fake.clock.advance(25_000);
    await start(fake, {});
    await expect(start(fake, {})).rejects.toMatchObject({ name: 'InstanceRefreshInProgressFault' });
    await expect(fake.client().send(new PutWarmPoolCommand({ ...GROUP }))).rejects.toMatchObject({
      name: 'InstanceRefreshInProgressFault',
    });
  });

  it('can be cancelled, but not twice', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 2, hooks: [TERMINATE_HOOK] })] });
    await fake.clock.advance(25_000);
    await start(fake, { MinHealthyPercentage: 50 });
    await fake.clock.advance(2000);
    await fake.client().send(new CancelInstanceRefreshCommand(GROUP));
    expect(await newest(fake)).toMatchObject({ Status: 'Cancelling' });
    await fake.clock.advance(2000);
    expect(await newest(fake)).toMatchObject({ Status: 'Cancelled' });
    await expect(fake.client().send(new CancelInstanceRefreshCommand(GROUP))).rejects.toMatchObject({
      name: 'ActiveInstanceRefreshNotFoundFault',
    });
  });

  it('turns back to the version of before, if it has one', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 2 })] });
    await fake.clock.advance(25_000);
    const DesiredConfiguration = { LaunchTemplate: { LaunchTemplateName: 'g', Version: '2' } };
    await start(fake, { MinHealthyPercentage: 50, AutoRollback: true }, { DesiredConfiguration });
    await fake.clock.advance(10_000);
    fake.failRefresh('g', 'an alarm went off');
    await fake.clock.advance(120_000);
    expect(await newest(fake)).toMatchObject({ Status: 'RollbackSuccessful', StatusReason: 'an alarm went off' });
    expect(versions(fake)).toEqual(['1', '1']);
  });

  it('cannot turn back without a desired configuration, or with an image that a parameter names', async () => {
    await using fake = await startFake({ groups: [groupSpec({ desired: 1, namesImageByParameter: true })] });
    await fake.clock.advance(25_000);
    const DesiredConfiguration = { LaunchTemplate: { LaunchTemplateName: 'g', Version: '2' } };
    await expect(start(fake, { AutoRollback: true }, { DesiredConfiguration })).rejects.toMatchObject({
      name: 'ValidationError',
    });
    await start(fake, {});
    await expect(fake.client().send(new RollbackInstanceRefreshCommand(GROUP))).rejects.toMatchObject({
      name: 'IrreversibleInstanceRefreshFault',
    });
  });
});

describe('Replace root volumes during instance refresh', () => {
  const MIXED = groupSpec({ desired: 2, isMixed: true, protectsNew: true, hooks: [TERMINATE_HOOK] });
  const configuration = (ImageId?: string): Partial<StartInstanceRefreshCommandInput> => ({
    Strategy: 'ReplaceRootVolume',
    DesiredConfiguration: {
      MixedInstancesPolicy: {
        LaunchTemplate: {
          LaunchTemplateSpecification: { LaunchTemplateName: 'g', Version: '1' },
          Overrides: [{ InstanceType: 'g6e.12xlarge', ImageId }],
        },
      },
    },
  });

  it('keeps instances and their places, and gives them the new image', async () => {
    await using fake = await startFake({ groups: [MIXED] });
    await fake.clock.advance(25_000);
    const before = fake.instances('g').map(({ id }) => id);
    const preferences: RefreshPreferences = { MinHealthyPercentage: 50, ScaleInProtectedInstances: 'Refresh' };
    await start(fake, preferences, configuration('ami-2'));
    await fake.clock.advance(2000);
    expect(fake.states().toSorted()).toEqual(['InService', 'ReplacingRootVolume:Wait']);
    for (let step = 0; step < 10; step++) {
      for (const { actions } of fake.instances('g')) for (const action of [...actions]) action.end('CONTINUE', '');
      await fake.clock.advance(65_000);
    }
    expect(await newest(fake)).toMatchObject({ Status: 'Successful', Strategy: 'ReplaceRootVolume' });
    expect(fake.instances('g').map(({ id, imageId }) => [id, imageId])).toEqual(before.map((id) => [id, 'ami-2']));
    expect(fake.instances('g')[0]?.history.slice(-5)).toEqual([
      'ReplacingRootVolume',
      'ReplacingRootVolume:Wait',
      'ReplacingRootVolume:Proceed',
      'RootVolumeReplaced',
      'InService',
    ]);
  });

  it('requires a mixed instances policy whose overrides name an image', async () => {
    await using fake = await startFake({ groups: [MIXED, groupSpec({ name: 'plain', desired: 1 })] });
    await expect(start(fake, {}, configuration())).rejects.toMatchObject({ name: 'ValidationError' });
    await expect(start(fake, {}, { ...configuration('ami-2'), AutoScalingGroupName: 'plain' })).rejects.toMatchObject({
      name: 'ValidationError',
    });
  });
});
