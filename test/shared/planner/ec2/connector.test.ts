import { StartInstanceRefreshCommand } from '@aws-sdk/client-auto-scaling';
import { describe, expect, it } from 'vitest';
import type { Step } from '../../../../shared/planner/live/connector.ts';
import { describeFleet } from '../../../../shared/planner/live/describe-fleet.ts';
import { groupSpec, LAUNCH_HOOK, TERMINATE_HOOK } from '../../../support/aws/auto-scaling/fake.ts';
import { type Ec2Fleet, startEc2Fleet } from '../../../support/planner/ec2-fleet.ts';

const { signal } = new AbortController();

const desire = (desired: number, at = 0): Step => ({
  kind: 'desire',
  pool: 'decode',
  option: `${at}-on-demand`,
  desired,
});
const end = (instanceId: string, at = 0): Step => ({
  kind: 'terminate',
  pool: 'decode',
  option: `${at}-on-demand`,
  instanceId,
});

async function pool(fleet: Ec2Fleet, connector = fleet.connector) {
  const { pools } = await connector.observe(signal);
  if (pools?.decode === undefined) throw new Error('the pool was not observed');
  return pools.decode;
}

/** Lets virtual time pass while calls over HTTP are under way, until `work` has ended. */
async function whilePassing<T>(fleet: Ec2Fleet, work: Promise<T>, stepMs = 500): Promise<T> {
  let isOver = false;
  const ended = work.finally(() => {
    isOver = true;
  });
  ended.catch(() => {});
  while (!isOver) {
    await fleet.clock.advance(stepMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return ended;
}

describe('observing a fleet on EC2', () => {
  it('counts instances by their lifecycle state, and workers by what an instance holds', async () => {
    const hooks = [LAUNCH_HOOK, TERMINATE_HOOK];
    await using fleet = await startEc2Fleet([{ desired: 3, hooks, protectsNew: true }]);
    await fleet.clock.advance(25_000);
    const [one, two] = fleet.fake.instances('g0');
    for (const instance of [one, two]) instance?.actions[0]?.end('CONTINUE', '');
    await fleet.connector.apply([end(one?.id ?? '')], signal);
    expect(await pool(fleet)).toMatchObject({
      ready: 2,
      starting: 2,
      draining: 2,
      desired: 4,
      refreshing: false,
      options: [{ id: '0-on-demand', ready: 1, starting: 1, draining: 1, desired: 2, min: 0, max: 8 }],
    });
  });

  it('leaves out instances of the warm pool, and those that their operator keeps', async () => {
    const warmPool = { minSize: 1, maxPrepared: 1, state: 'Stopped', reuses: false } as const;
    const hooks = [{ ...TERMINATE_HOOK, defaultResult: 'ABANDON' as const }];
    await using fleet = await startEc2Fleet([{ desired: 1, warmPool, retains: true, hooks }]);
    await fleet.clock.advance(25_000);
    const kept = fleet.fake.instances('g0').find(({ state }) => state === 'InService');
    await fleet.connector.apply([end(kept?.id ?? '')], signal);
    await fleet.clock.advance(301_000);
    expect(fleet.fake.states('g0')).toContain('Terminating:Retained');
    expect((await pool(fleet)).options).toMatchObject([{ ready: 0, starting: 0, draining: 0, instances: [] }]);
  });

  it('says why a launch failed while capacity is missing, and where', async () => {
    await using fleet = await startEc2Fleet([{ zones: ['us-east-1a'] }]);
    const enough = fleet.fake.account.capacity.lack({ code: 'InsufficientInstanceCapacity' });
    await fleet.connector.apply([desire(2)], signal);
    await fleet.clock.advance(2000);
    expect((await pool(fleet)).options[0]?.failing).toEqual({
      code: 'InsufficientInstanceCapacity',
      zone: 'us-east-1a',
      types: ['g6e.12xlarge'],
      atMs: expect.any(Number),
    });
    enough();
    await fleet.clock.advance(90_000);
    expect((await pool(fleet)).options[0]).toMatchObject({ ready: 2, failing: undefined });
  });

  it('names no zone if every zone of the group failed', async () => {
    await using fleet = await startEc2Fleet([{ zones: ['us-east-1a', 'us-east-1b'] }]);
    fleet.fake.account.capacity.lack({ code: 'VcpuLimitExceeded' });
    await fleet.connector.apply([desire(1)], signal);
    await fleet.clock.advance(2000);
    expect((await pool(fleet)).options[0]?.failing).toMatchObject({
      code: 'VcpuLimitExceeded',
      zone: undefined,
      types: [],
    });
  });

  it('tells of a refresh until it has ended, also between two replacements', async () => {
    await using fleet = await startEc2Fleet([{ desired: 2, warmupSecs: 300 }]);
    await fleet.clock.advance(330_000);
    expect(await pool(fleet)).toMatchObject({ refreshing: false });
    await fleet.fake.client().send(
      new StartInstanceRefreshCommand({
        AutoScalingGroupName: 'g0',
        Preferences: { MinHealthyPercentage: 50 },
      }),
    );
    await fleet.clock.advance(2000);
    const seen: boolean[] = [];
    for (let minute = 0; minute < 25; minute++) {
      seen.push((await pool(fleet)).refreshing);
      await fleet.clock.advance(60_000);
    }
    expect(seen.lastIndexOf(true)).toBeGreaterThan(4);
    expect(seen.slice(0, seen.lastIndexOf(true))).not.toContain(false);
    expect(await pool(fleet)).toMatchObject({ refreshing: false, ready: 4 });
  });

  it('tells of a group with more than it wants because it rebalances', async () => {
    await using fleet = await startEc2Fleet([{ desired: 1, market: 'spot', rebalances: true, warmupSecs: 600 }]);
    await fleet.clock.advance(25_000);
    fleet.fake.recommendRebalance(fleet.fake.instances('g0')[0]?.id ?? '');
    await fleet.clock.advance(2000);
    expect((await pool(fleet)).options[0]).toMatchObject({ isRebalancing: true });
    await fleet.clock.advance(60_000);
    expect((await pool(fleet)).options[0]).toMatchObject({ isRebalancing: false, ready: 1 });
  });

  it('says how long starts take and since when an instance serves, once it has seen a start', async () => {
    await using fleet = await startEc2Fleet([{ desired: 1 }]);
    await fleet.clock.advance(25_000);
    const first = await fleet.connector.observe(signal);
    expect(first.startSeconds).toBe(480);
    expect(first.pools?.decode?.options[0]?.instances[0]?.readySinceMs).toBeUndefined();
    await fleet.connector.apply([desire(2)], signal);
    for (let tick = 0; tick < 6; tick++) {
      await fleet.clock.advance(5000);
      await fleet.connector.observe(signal);
    }
    const last = await fleet.connector.observe(signal);
    expect(last.startSeconds).toBe(20);
    expect(last.pools?.decode?.options[0]?.instances.map(({ readySinceMs }) => typeof readySinceMs)).toEqual([
      'undefined',
      'number',
    ]);
    await fleet.connector.apply([desire(3)], signal);
    await fleet.clock.advance(30_000);
    const { options } = await pool(fleet);
    expect(options[0]?.instances[2]?.readySinceMs).toBe(fleet.clock.wallMs());
  });

  it('says how long machines take from their order until they exist', async () => {
    await using fleet = await startEc2Fleet([{ desired: 1 }]);
    await fleet.clock.advance(25_000);
    expect((await fleet.connector.observe(signal)).capacitySeconds).toBeUndefined();
    const enough = fleet.fake.account.capacity.lack({ code: 'InsufficientInstanceCapacity' });
    await fleet.connector.apply([desire(2)], signal);
    await fleet.clock.advance(40_000);
    const waiting = await fleet.connector.observe(signal);
    enough();
    await fleet.clock.advance(50_000);
    const come = await fleet.connector.observe(signal);
    expect([waiting.capacitySeconds, come.capacitySeconds]).toEqual([undefined, 90]);
    expect(describeFleet(come)).toMatch(/; machines exist 90 s after their order$/);
    // An order that was called off is no machine's order.
    await fleet.connector.apply([desire(3)], signal);
    await fleet.connector.observe(signal);
    await fleet.connector.apply([desire(2)], signal);
    await fleet.clock.advance(200_000);
    await fleet.connector.observe(signal);
    await fleet.connector.apply([desire(3)], signal);
    await fleet.clock.advance(5000);
    expect((await fleet.connector.observe(signal)).capacitySeconds).toBeLessThanOrEqual(90);
  });

  it('has no room in a group that does not exist yet, and goes on with the others', async () => {
    await using fleet = await startEc2Fleet([{ desired: 1 }, {}]);
    await fleet.clock.advance(25_000);
    const { groups } = fleet.fake.account;
    const later = groups.get('g1');
    groups.delete('g1');
    const observed = await fleet.connector.observe(signal);
    expect(observed.pools?.decode).toMatchObject({ ready: 2, options: [{ max: 8 }, { max: 0, isAbsent: true }] });
    expect(describeFleet(observed)).toContain('1-on-demand does not exist');
    expect(await fleet.connector.apply([desire(2)], signal)).toBe('accepted');
    if (later !== undefined) groups.set('g1', later);
    expect((await pool(fleet)).options[1]).not.toHaveProperty('isAbsent');
  });

  it('names the groups of a pool that has none', async () => {
    await using fleet = await startEc2Fleet([{}, {}]);
    fleet.fake.account.groups.clear();
    await expect(fleet.connector.observe(signal)).rejects.toThrow(
      'the fleet of m in namespace ns names Auto Scaling groups that do not exist: g0, g1',
    );
  });
});

describe('the number of calls', () => {
  it('is one for a fleet at rest of 1, 10 or 100 groups with 10,000 instances, and three for 250', async () => {
    for (const [count, instances, calls] of [
      [1, 10, 1],
      [10, 10, 1],
      [100, 100, 1],
      [250, 0, 3],
    ] as const) {
      const groups = Array.from({ length: count }, () => ({ desired: instances, max: 200 }));
      await using fleet = await startEc2Fleet(groups);
      await fleet.clock.advance(25_000);
      const { ready } = await pool(fleet);
      expect(ready).toBe(count * instances * 2);
      expect(fleet.fake.faults.calls).toHaveLength(calls);
    }
  });

  it('grows by one for a group that misses capacity, and by one for a group that is not at rest', async () => {
    await using fleet = await startEc2Fleet([{}, { desired: 1 }, { desired: 1 }]);
    await fleet.clock.advance(25_000);
    fleet.fake.account.capacity.lack({ code: 'InsufficientInstanceCapacity' });
    await fleet.connector.apply([desire(1, 0)], signal);
    await fleet.clock.advance(2000);
    fleet.fake.faults.calls.length = 0;
    await fleet.connector.observe(signal);
    expect(fleet.fake.faults.counts()).toEqual({
      DescribeAutoScalingGroups: 1,
      DescribeScalingActivities: 1,
      DescribeInstanceRefreshes: 1,
    });
  });
});

describe('applying steps', () => {
  it('scales up at once, whatever the cooldown of the group', async () => {
    await using fleet = await startEc2Fleet();
    expect(await fleet.connector.apply([desire(2)], signal)).toBe('accepted');
    expect(fleet.fake.faults.calls[0]?.parameters).toMatchObject({ DesiredCapacity: '2', HonorCooldown: 'false' });
    await fleet.clock.advance(30_000);
    expect(await pool(fleet)).toMatchObject({ ready: 4 });
  });

  it('ends an instance and lowers the desired capacity by one; one that is gone counts as done', async () => {
    await using fleet = await startEc2Fleet([{ desired: 2, protectsNew: true }]);
    await fleet.clock.advance(25_000);
    const [id = ''] = fleet.fake.instances('g0').map((each) => each.id);
    expect(await fleet.connector.apply([end(id), end('i-gone')], signal)).toBe('accepted');
    await fleet.clock.advance(30_000);
    expect(fleet.fake.account.groups.get('g0')?.desired).toBe(1);
    expect(fleet.fake.instances('g0').map((each) => each.id)).not.toContain(id);
  });

  it('ends at most eight instances at a time', async () => {
    await using fleet = await startEc2Fleet([{ desired: 10, max: 10 }]);
    await fleet.clock.advance(25_000);
    const steps = fleet.fake.instances('g0').map(({ id }) => end(id));
    expect(await fleet.connector.apply(steps, signal)).toBe('waiting');
    expect(fleet.fake.account.groups.get('g0')?.desired).toBe(2);
  });

  it('protects what serves before it calls launches off', async () => {
    await using fleet = await startEc2Fleet([{ desired: 1, hooks: [LAUNCH_HOOK] }], { scaleIn: 'in-service-first' });
    await fleet.clock.advance(25_000);
    const [serving] = fleet.fake.instances('g0');
    serving?.actions[0]?.end('CONTINUE', '');
    await fleet.connector.apply([desire(2)], signal);
    await fleet.clock.advance(2000);
    await fleet.connector.observe(signal);
    await fleet.connector.apply([desire(1)], signal);
    await fleet.clock.advance(10_000);
    expect(fleet.fake.instances('g0').map(({ id, state }) => [id, state])).toEqual([[serving?.id, 'InService']]);
  });

  it.each(['pending-first', 'in-service-first', 'in-service-only'] as const)(
    'ends launches that it calls off while they wait in their hook, and no other, if the group takes %s',
    async (scaleIn) => {
      await using fleet = await startEc2Fleet([{ desired: 3, hooks: [LAUNCH_HOOK, TERMINATE_HOOK] }], { scaleIn });
      await fleet.clock.advance(25_000);
      const [serving, oldest] = fleet.fake.instances('g0');
      serving?.actions[0]?.end('CONTINUE', '');
      await fleet.connector.observe(signal);
      await fleet.connector.apply([desire(5)], signal);
      await fleet.clock.advance(25_000);
      await fleet.connector.observe(signal);
      expect(await fleet.connector.apply([desire(2)], signal)).toBe('accepted');
      await fleet.clock.advance(10_000);
      expect(fleet.fake.instances('g0').map(({ id, state }) => [id, state])).toEqual([
        [serving?.id, 'InService'],
        [oldest?.id, 'Pending:Wait'],
      ]);
      // Nothing is wrong with the option: its next launch is not held back.
      await fleet.connector.apply([desire(3)], signal);
      expect((await pool(fleet)).options[0]?.failing).toBeUndefined();
    },
  );

  it('calls off as many as are too many beside those that it ends in the same round', async () => {
    await using fleet = await startEc2Fleet([{ desired: 2, hooks: [LAUNCH_HOOK], protectsNew: true }]);
    await fleet.clock.advance(25_000);
    const [serving] = fleet.fake.instances('g0');
    serving?.actions[0]?.end('CONTINUE', '');
    await fleet.connector.apply([desire(4)], signal);
    await fleet.clock.advance(25_000);
    await fleet.connector.observe(signal);
    await fleet.connector.apply([end(serving?.id ?? ''), desire(2)], signal);
    await fleet.clock.advance(10_000);
    expect(fleet.fake.states('g0')).toEqual(['Pending:Wait', 'Pending:Wait']);
  });

  it('leaves launches from a warm pool to their group', async () => {
    const warmPool = { minSize: 0, maxPrepared: 2, state: 'Stopped', reuses: true } as const;
    await using fleet = await startEc2Fleet([{ desired: 2, warmPool, hooks: [LAUNCH_HOOK] }]);
    await fleet.clock.advance(25_000);
    await fleet.connector.observe(signal);
    await fleet.connector.apply([desire(0)], signal);
    expect(fleet.fake.faults.counts()).not.toHaveProperty('CompleteLifecycleAction');
  });

  it('leaves the rest to the group if AWS throttles, and names a right that is missing', async () => {
    await using fleet = await startEc2Fleet([{ desired: 3, hooks: [LAUNCH_HOOK] }]);
    await fleet.clock.advance(25_000);
    await fleet.connector.observe(signal);
    const action = 'CompleteLifecycleAction';
    const error = { code: 'AccessDenied', message: 'not authorized to perform CompleteLifecycleAction', status: 403 };
    fleet.fake.faults.add({ action, error, times: 1 });
    expect(await fleet.connector.apply([desire(1)], signal)).toEqual({ failed: 'AccessDenied' });
    fleet.fake.faults.add({ action, isThrottled: true, times: 1 });
    expect(await fleet.connector.apply([desire(1)], signal)).toBe('accepted');
    expect(fleet.fake.faults.counts()).toMatchObject({ CompleteLifecycleAction: 2, SetDesiredCapacity: 1 });
    await fleet.clock.advance(10_000);
    expect(fleet.fake.states('g0')).toEqual(['Pending:Wait']);
  });

  it('sets no protection that is there already', async () => {
    await using fleet = await startEc2Fleet([{ desired: 2, protectsNew: true }]);
    await fleet.clock.advance(25_000);
    await fleet.connector.observe(signal);
    await fleet.connector.apply([desire(1)], signal);
    expect(fleet.fake.faults.counts()).toEqual({ DescribeAutoScalingGroups: 1, SetDesiredCapacity: 1 });
  });

  it('waits for the next tick if AWS throttles or is busy, without another try', async () => {
    await using fleet = await startEc2Fleet();
    fleet.fake.faults.add({ isThrottled: true, times: 1 });
    expect(await fleet.connector.apply([desire(1)], signal)).toBe('waiting');
    const error = { code: 'ScalingActivityInProgress', message: 'Activity 1 is in progress.' };
    fleet.fake.faults.add({ error, times: 1 });
    expect(await fleet.connector.apply([desire(1)], signal)).toBe('waiting');
    expect(fleet.fake.faults.counts()).toEqual({ SetDesiredCapacity: 2 });
    expect(await fleet.connector.apply([desire(1)], signal)).toBe('accepted');
  });

  it('waits if the bounds of the group have changed meanwhile', async () => {
    await using fleet = await startEc2Fleet();
    expect(await fleet.connector.apply([desire(9)], signal)).toBe('waiting');
  });

  it('names the code of a refusal, leaves out the rest of that option, and goes on with others', async () => {
    await using fleet = await startEc2Fleet([{}, {}]);
    const error = { code: 'AccessDenied', message: 'not authorized to perform SetDesiredCapacity', status: 403 };
    fleet.fake.faults.add({ error, times: 1 });
    const applied = await fleet.connector.apply([desire(1), desire(2), desire(3, 1)], signal);
    expect(applied).toEqual({ failed: 'AccessDenied' });
    const wanted = (name: string) => fleet.fake.account.groups.get(name)?.desired;
    expect([wanted('g0'), wanted('g1')]).toEqual([0, 3]);
  });

  it('rejects with what to check if AWS cannot be reached', async () => {
    await using fleet = await startEc2Fleet();
    fleet.fake.faults.add({ losesCall: true });
    await expect(fleet.connector.apply([desire(1)], signal)).rejects.toThrow(
      /^SetDesiredCapacity 1 of g0: .*Check the network, AWS_REGION and AWS_ENDPOINT_URL_AUTO_SCALING$/,
    );
    expect(fleet.fake.faults.counts()).toEqual({ SetDesiredCapacity: 2 });
  });
});

describe('late calls and lost answers', () => {
  it('asks again after three seconds without an answer', async () => {
    await using fleet = await startEc2Fleet();
    fleet.fake.faults.add({ answerAfterMs: 60_000, times: 1 });
    expect(await whilePassing(fleet, fleet.connector.apply([desire(2)], signal))).toBe('accepted');
    expect(fleet.fake.faults.counts()).toEqual({ SetDesiredCapacity: 2 });
    expect(fleet.fake.account.groups.get('g0')?.desired).toBe(2);
  });

  it('ends no second instance if the answer about the first is lost', async () => {
    await using fleet = await startEc2Fleet([{ desired: 3, hooks: [TERMINATE_HOOK] }]);
    await fleet.clock.advance(25_000);
    const [id = ''] = fleet.fake.instances('g0').map((each) => each.id);
    fleet.fake.faults.add({ action: 'TerminateInstanceInAutoScalingGroup', losesAnswer: true, times: 1 });
    await expect(fleet.connector.apply([end(id)], signal)).rejects.toThrow(/TerminateInstance/);
    expect(fleet.fake.faults.counts()).toEqual({ TerminateInstanceInAutoScalingGroup: 1 });
    expect(await fleet.connector.apply([end(id)], signal)).toBe('waiting');
    expect(await pool(fleet)).toMatchObject({ ready: 4, draining: 2, desired: 4 });
  });

  it('sees a desired capacity that a late call of another process has set', async () => {
    await using fleet = await startEc2Fleet();
    fleet.fake.faults.add({ effectAfterMs: 20_000, times: 2 });
    const late = whilePassing(fleet, fleet.connector.apply([desire(5)], signal));
    await expect(late).rejects.toThrow(/no answer within 3000 ms/);
    const next = await fleet.open();
    await next.apply([desire(3)], signal);
    expect(await pool(fleet, next)).toMatchObject({ desired: 6 });
    await fleet.clock.advance(20_000);
    expect(await pool(fleet, next)).toMatchObject({ desired: 10 });
  });

  it('reaches the same fleet if the process dies at any call, before or after its effect', async () => {
    const groups = [groupSpec({ name: 'g0', desired: 4, hooks: [TERMINATE_HOOK] }), groupSpec({ name: 'g1' })];
    for (const loss of [{ losesCall: true }, { losesAnswer: true }]) {
      for (let at = 0; at < 4; at++) {
        await using fleet = await startEc2Fleet(groups);
        await fleet.clock.advance(25_000);
        const victims = fleet.fake
          .instances('g0')
          .slice(0, 2)
          .map(({ id }) => id);
        // Both tries fail: the process dies with the call.
        fleet.fake.faults.add({ ...loss, after: at, times: 2 });
        await runRound(fleet, fleet.connector, victims).catch(() => {});
        await runRound(fleet, await fleet.open(), victims).catch(() => {});
        await runRound(fleet, await fleet.open(), victims);
        const desired = ['g0', 'g1'].map((name) => fleet.fake.account.groups.get(name)?.desired);
        expect(desired).toEqual([2, 3]);
        const ending = fleet.fake.instances('g0').filter(({ state }) => state !== 'InService');
        expect(ending.map(({ id }) => id)).toEqual(victims);
      }
    }
  });
});

/** One round of a planner that ends `victims` and wants three instances in the second option. */
async function runRound(fleet: Ec2Fleet, connector: Ec2Fleet['connector'], victims: readonly string[]): Promise<void> {
  const { options } = await pool(fleet, connector);
  const serving = options[0]?.instances.filter(({ state }) => state === 'ready').map(({ id }) => id);
  const steps = victims.filter((id) => serving?.includes(id)).map((id) => end(id));
  if (options[1]?.desired !== 3) steps.push(desire(3, 1));
  await connector.apply(steps, signal);
}
