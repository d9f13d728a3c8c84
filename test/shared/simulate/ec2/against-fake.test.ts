import { SetDesiredCapacityCommand, TerminateInstanceInAutoScalingGroupCommand } from '@aws-sdk/client-auto-scaling';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { newestFailure } from '../../../../shared/planner/ec2/launch-failures.ts';
import { stateOf } from '../../../../shared/planner/ec2/observed-option.ts';
import { SimulatedCalls } from '../../../../shared/simulate/ec2/group-calls.ts';
import { startFake } from '../../../support/aws/auto-scaling/fake.ts';
import { openGroup } from './group-bed.ts';

const ZONES = ['us-east-1a', 'us-east-1b'];
const MAX = 6;

const step = fc.oneof(
  fc.record({ kind: fc.constant('desire' as const), to: fc.nat(MAX), waitS: fc.integer({ min: 1, max: 90 }) }),
  fc.record({ kind: fc.constant('terminate' as const), to: fc.nat(MAX), waitS: fc.integer({ min: 1, max: 90 }) }),
  fc.record({ kind: fc.constant('interrupt' as const), to: fc.nat(MAX), waitS: fc.integer({ min: 1, max: 90 }) }),
);
const world = fc.record({
  isSpot: fc.boolean(),
  warm: fc.nat(2),
  zones: fc.integer({ min: 1, max: 2 }),
  lack: fc.record({
    zone: fc.constantFrom(undefined, ...ZONES),
    after: fc.nat(2),
    fromS: fc.nat(200),
    lengthS: fc.integer({ min: 1, max: 300 }),
  }),
  steps: fc.array(step, { minLength: 4, maxLength: 14 }),
});

type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

/** Opens the fake and a simulated group of the same description, on one clock. */
async function openBoth({ isSpot, warm, zones: count, lack }: World) {
  const market = isSpot ? ('spot' as const) : ('on-demand' as const);
  const zones = ZONES.slice(0, count);
  const warmPool =
    warm === 0 ? undefined : { minSize: warm, maxPrepared: warm, state: 'Stopped' as const, reuses: true };
  const common = { market, types: ['g6e.12xlarge'], max: MAX };
  const group = { ...common, name: 'g', zones, protectsNew: true, rebalances: isSpot, ...(warmPool && { warmPool }) };
  const fake = await startFake({ groups: [group] });
  const { zone, after, fromS, lengthS } = lack;
  const code = 'UnfulfillableCapacity' as const;
  const at = { fromMs: 1000 * (100 + fromS), untilMs: 1000 * (100 + fromS + lengthS) };
  fake.account.capacity.lack({ code, after, ...at, ...(zone !== undefined && { zone }) });
  await fake.clock.advance(100_000); // the warm pool of the simulated group is there from the start
  const shortage = { code, zone, instances: after, from: 100 + fromS, to: 100 + fromS + lengthS };
  const start = { capacity: 10, boot: 10, image: 0, weights: 0, engine: 0, compile: 0, register: 0 };
  const simulated = openGroup(
    { ...common, market, ...(warm > 0 && { warmPool: { min: warm, state: 'Stopped' } }) },
    { zones, start, warmSkips: ['capacity'], shortages: [shortage] },
    { clock: fake.clock },
  );
  return { fake, simulated };
}

const meaning = (state: string): string => stateOf({ LifecycleState: state } as never) ?? state;

describe('a simulated group', () => {
  it('does what the fake of Auto Scaling does, whatever is asked of both', async () => {
    await fc.assert(
      fc.asyncProperty(world, async (of) => {
        const { fake, simulated } = await openBoth(of);
        const client = fake.client();
        const calls = new SimulatedCalls([simulated.group]);
        const told: string[] = [];
        try {
          for (const { kind, to, waitS } of of.steps) {
            const [theirs, ours] = [fake.instances('g'), [...simulated.group.instances]];
            const at = theirs.findIndex(({ state }, place) => state === 'InService' && place >= to);
            if (kind === 'desire') {
              await client.send(new SetDesiredCapacityCommand({ AutoScalingGroupName: 'g', DesiredCapacity: to }));
              await calls.setDesired('g', to);
            } else if (at >= 0 && kind === 'terminate' && simulated.group.desired > 0) {
              const InstanceId = theirs[at]!.id;
              const input = { InstanceId, ShouldDecrementDesiredCapacity: true };
              await client.send(new TerminateInstanceInAutoScalingGroupCommand(input));
              await calls.terminate(ours[at]!.id);
            } else if (at >= 0 && kind === 'interrupt' && of.isSpot && !theirs[at]!.isAtRisk) {
              fake.interruptSpot(theirs[at]!.id);
              simulated.group.interrupt(ours[at]!);
            }
            await fake.clock.advance(1000 * waitS + 500);
            told.push(`${kind} ${to} ${waitS}`);
            const group = fake.account.groups.get('g')!;
            const states = (all: Iterable<{ readonly state: string; readonly zone: string }>): string[] =>
              Array.from(all, ({ state, zone }) => `${meaning(state)} ${zone}`).toSorted();
            const context = JSON.stringify([told, simulated.heard]);
            expect(states(simulated.group.instances), context).toEqual(states(fake.instances('g')));
            expect(simulated.group.desired, context).toBe(group.desired);
          }
        } finally {
          await fake.stop();
        }
      }),
      { numRuns: 40 },
    );
  });

  it('tells of a failed launch so that a connector reads its code, type and zone', async () => {
    const { group, clock } = openGroup({}, { shortages: [{ from: 0, code: 'VcpuLimitExceeded' }] });
    group.setDesired(1);
    await clock.advance(2000);
    const { code, zone, types } = newestFailure([...group.activities], ['a'])!;
    expect({ code, zone, types }).toEqual({ code: 'VcpuLimitExceeded', zone: 'a', types: ['g6e.12xlarge'] });
  });
});
