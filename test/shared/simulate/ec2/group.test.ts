import { describe, expect, it } from 'vitest';
import { openGroup } from './group-bed.ts';

const START = { capacity: 20, boot: 30, image: 0, weights: 40, engine: 10, compile: 0, register: 0 };
const WARM = { warmPool: { min: 1, state: 'Stopped' as const } };

describe('a simulated group', () => {
  it('starts an instance phase by phase, and pays it from the moment that EC2 has it', async () => {
    const { group, clock, heard } = openGroup({}, { start: START });
    group.setDesired(1);
    await clock.advance(361_000); // it acts after 1 s, waits 20 s for the instance, and 80 s until it serves
    group.ledger.settle(clock.nowMs());
    expect(heard).toEqual(['101 serves 1']);
    expect(group.ledger.hours.running).toBeCloseTo(340 / 3600);
    expect(group.ledger.phaseSeconds).toEqual(START);
  });

  it('tries a launch again after a minute, until the shortage is over', async () => {
    const shortages = [{ from: 0, to: 130, instances: 1 }];
    const { group, clock, heard, events } = openGroup({}, { shortages });
    group.setDesired(2);
    await clock.advance(240_000); // 1 s: one comes, one fails; 62 s: it fails; 123 s: it fails; 184 s: it comes
    expect(heard).toEqual(['21 serves 1', '204 serves 2']);
    expect(group.ledger.failures).toEqual({ InsufficientInstanceCapacity: 3 });
    expect(events).toHaveLength(3);
  });

  it('launches in another zone while one has no capacity, and in another type', async () => {
    const shortages = [
      { from: 0, zone: 'a' },
      { from: 0, type: 'one', code: 'MaxSpotInstanceCountExceeded' },
    ];
    const { group, clock } = openGroup({ types: ['one', 'two'] }, { zones: ['a', 'b'], shortages });
    group.setDesired(2);
    await clock.advance(30_000);
    expect(Array.from(group.instances, ({ zone, state }) => [zone, state])).toEqual([
      ['b', 'InService'],
      ['b', 'InService'],
    ]);
    expect(group.ledger.failures).toEqual({});
  });

  it('replaces a spot instance at its notice, and loses it after two minutes', async () => {
    const { group, clock, heard } = openGroup({ market: 'spot' }, { interruptionsAt: [50] }, { count: 1 });
    await clock.advance(300_000);
    expect(heard).toEqual(['50 noticed 1', '71 serves 2', '72 drains 1']);
    expect(group.ledger.interruptions).toBe(1);
  });

  it('loses a spot instance after two minutes if nothing replaces it', async () => {
    const given = { interruptionsAt: [50], shortages: [{ from: 0 }] };
    const { clock, heard, states } = openGroup({ market: 'spot' }, given, { count: 1 });
    await clock.advance(180_000);
    expect(heard).toEqual(['50 noticed 1', '170 lost 1']);
    expect(states()).toEqual([]);
  });

  it('interrupts spot instances by chance, as often an hour as is said', async () => {
    const { group, clock } = openGroup({ market: 'spot' }, { interruptionsPerHour: 2 }, { count: 10 });
    await clock.advance(10 * 3_600_000);
    expect(group.ledger.interruptions).toBeGreaterThan(150);
    expect(group.ledger.interruptions).toBeLessThan(250);
  });

  it('gives each of two notices to another instance', async () => {
    const { heard, clock } = openGroup({ market: 'spot' }, { interruptionsAt: [50, 51] }, { count: 2 });
    await clock.advance(55_000);
    expect(heard.map((each) => each.replace(/ \d$/, ''))).toEqual(['50 noticed', '51 noticed']);
    expect(new Set(heard.map((each) => each.at(-1))).size).toBe(2);
  });

  it('draws the time of a phase between the shortest and the longest', async () => {
    const { group, clock, heard } = openGroup({ max: 20 }, { start: { ...START, capacity: 0, weights: [40, 90] } });
    group.setDesired(20);
    await clock.advance(200_000); // 1 s until the group acts, and 80 to 130 s for a start
    const seconds = heard.map((each) => Number.parseFloat(each));
    expect(Math.min(...seconds)).toBeGreaterThan(81);
    expect(Math.max(...seconds)).toBeLessThan(131);
    expect(Math.max(...seconds) - Math.min(...seconds)).toBeGreaterThan(30);
    expect(group.ledger.phaseSeconds.weights).toBeCloseTo(seconds.reduce((sum, each) => sum + each - 41, 0) / 20);
  });

  it('pays nothing for instances that are gone', async () => {
    const { group, clock } = openGroup({}, {}, { count: 2 });
    await clock.advance(95_000);
    group.terminate([...group.instances][0]!);
    await clock.advance(300_000); // it is gone after 5 s
    group.ledger.settle(clock.nowMs());
    expect(3600 * group.ledger.hours.running).toBeCloseTo(100 + 395);
  });

  it('takes from its warm pool first, and fills it up', async () => {
    const given = { start: START, warmSkips: ['capacity', 'weights'] as const };
    const { group, clock, heard, states } = openGroup(WARM, given);
    await clock.advance(100_000);
    expect(states()).toEqual(['Warmed:Stopped']);
    group.setDesired(2);
    await clock.advance(110_000); // 40 s for the warm one, 100 s for the other and for the next warm one
    expect(heard).toEqual(['141 serves 1', '201 serves 2']);
    expect(states()).toEqual(['InService', 'InService', 'Warmed:Stopped']);
    group.ledger.settle(clock.nowMs());
    // Two that serve, paid from 101 and 121 s on, one that was prepared for 80 s, and the time in the pool.
    expect(3600 * group.ledger.hours.running).toBeCloseTo(109 + 89 + 80);
    expect(3600 * group.ledger.hours.warm).toBeCloseTo(101 + 9);
    expect([group.ledger.warmStarts, group.ledger.launches]).toEqual([1, 2]);
  });

  it('calls off launches that are too many, and keeps what serves', async () => {
    const { group, clock, states } = openGroup({}, {}, { count: 2 });
    group.setDesired(4);
    await clock.advance(5000);
    group.setDesired(1);
    await clock.advance(10_000);
    expect(states()).toEqual(['InService', 'InService']);
    expect(group.ledger.calledOff).toBe(2);
  });

  it('starts again what failed to start', async () => {
    const { group, clock, heard, events } = openGroup({}, { startFailures: 0.6 });
    group.setDesired(1);
    await clock.advance(600_000);
    expect(heard).toHaveLength(1);
    expect(group.ledger.failures.StartFailed).toBe(events.length);
    expect(group.ledger.launches).toBe(events.length + 1);
  });

  it('loses what is left of a capacity block 30 minutes before its end, and gets nothing after that', async () => {
    const endsAt = new Date(1_700_000_000_000 + 2_000_000).toISOString();
    const spec = { market: 'capacity-block' as const, endsAt };
    const { group, clock, heard, states } = openGroup(spec, {}, { count: 1 });
    await clock.advance(300_000);
    expect(heard).toEqual(['200 lost 1']);
    expect(states()).toEqual([]);
    expect(Object.keys(group.ledger.failures)).toEqual(['ReservationCapacityExceeded']);
  });
});
