import { AutoScalingCalls } from '../../../shared/planner/ec2/auto-scaling-calls.ts';
import { Ec2Connector } from '../../../shared/planner/ec2/connector.ts';
import { type Ec2Fleet, fleetSpec, optionSpec, startEc2Fleet } from '../../support/planner/ec2-fleet.ts';
import { describeConnector, type Fleet } from './connector.contract.ts';

/** Longer than a launch, an end, and the age from which an instance may end. */
const ROUND_MS = 120_000;

/** Returns a fleet of one group whose instances hold one worker each, as connectors scale it that know nothing. */
async function fleetOf(ec2: Ec2Fleet): Promise<Fleet> {
  const { fake, clock } = ec2;
  const calls = await AutoScalingCalls.open(clock);
  const fleet = fleetSpec([optionSpec('g0', 0, { replicasPerInstance: 1, gpusPerInstance: 2 })]);
  return {
    connect: () => new Ec2Connector({ fleet, calls, clock }),
    carryOut: () => clock.advance(ROUND_MS),
    async changeByHand(count) {
      const group = fake.account.groups.get('g0');
      if (group === undefined) throw new Error('the fake has no group g0');
      group.desired = count;
      fake.account.poke(group);
      await clock.advance(ROUND_MS);
    },
    get wanted() {
      return fake.account.groups.get('g0')?.desired;
    },
    get changes() {
      const { SetDesiredCapacity = 0, TerminateInstanceInAutoScalingGroup = 0 } = fake.faults.counts();
      return SetDesiredCapacity + TerminateInstanceInAutoScalingGroup;
    },
    get nowMs() {
      return clock.wallMs();
    },
    async close() {
      await calls.close();
      await ec2[Symbol.asyncDispose]();
    },
  };
}

describeConnector('ec2', async () => fleetOf(await startEc2Fleet()), { waits: false, runs: 20 });
