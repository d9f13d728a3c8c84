import { describe, expect, it } from 'vitest';
import type {
  ConnectorMemory,
  ObservedInstance,
  ObservedOption,
  Plan,
  PlanContext,
} from '../../../../shared/planner/live/connector.ts';
import type { FleetSpec, OptionSpec, PoolSpec } from '../../../../shared/planner/options/fleet-spec.ts';
import { planFleet } from '../../../../shared/planner/options/plan.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;

const onDemand: OptionSpec = {
  id: '0-on-demand',
  group: 'a',
  types: ['g6e.12xlarge'],
  market: 'on-demand',
  gpusPerInstance: 4,
  replicasPerInstance: 2,
  min: 0,
  max: 8,
};
const spot: OptionSpec = { ...onDemand, id: '1-spot', group: 'b', market: 'spot' };
const large: OptionSpec = { ...onDemand, id: '2-on-demand', group: 'c', types: ['p5.48xlarge'], zone: 'us-east-1b' };
const poolOf = (options: readonly OptionSpec[], parts: Partial<PoolSpec> = {}): PoolSpec => ({
  options: [...options],
  gpusPerReplica: 2,
  startSecs: 480,
  drainSecs: 900,
  ...parts,
});

const ready = (id: string, parts: Partial<ObservedInstance> = {}): ObservedInstance => ({
  id,
  state: 'ready',
  activeBlocks: 0,
  ...parts,
});
const several = (name: string, count: number, parts: Partial<ObservedInstance> = {}): readonly ObservedInstance[] =>
  Array.from({ length: count }, (_, at) => ready(`${name}${at}`, parts));

/** An option with `instances`; its number is theirs, if nothing else is said. */
function option(
  { id, min, max }: OptionSpec,
  instances: readonly ObservedInstance[] = [],
  parts: Partial<ObservedOption> = {},
): ObservedOption {
  const count = (state: string): number => instances.filter((each) => each.state === state).length;
  const counts = { ready: count('ready'), starting: count('starting'), draining: count('draining') };
  return { id, ...counts, desired: counts.ready + counts.starting, min, max, instances, ...parts };
}

interface Asked {
  readonly target: number;
  readonly options: readonly ObservedOption[];
  readonly pool?: PoolSpec;
  readonly memory?: ConnectorMemory;
  readonly context?: Partial<PlanContext>;
  readonly refreshing?: boolean;
  readonly decisionId?: number;
}

const three = poolOf([onDemand, spot, large]);

function plan({
  target,
  options,
  pool = three,
  memory = {},
  context,
  refreshing = false,
  decisionId = 0,
}: Asked): Plan {
  const fleet: FleetSpec = { namespace: 'ns', model: 'm', pools: { decode: pool } };
  const seen = { ready: 0, starting: 0, draining: 0, desired: 0, refreshing, options };
  const decision = { decisionId, targets: { decode: target } };
  const full = { nowMs: NOW, victims: [], tickSeconds: 5, ...context };
  return planFleet(fleet, decision, { pools: { decode: seen } }, memory, full);
}

const told = ({ steps }: Plan): readonly string[] =>
  steps.map((step) => {
    if (step.kind === 'terminate') return `end ${step.instanceId}`;
    return step.kind === 'desire' ? `${step.option} = ${step.desired}` : 'targets';
  });

const failing = (atMs: number, code = 'InsufficientInstanceCapacity') => ({ code, types: ['g6e.12xlarge'], atMs });

describe('growing along the options of a fleet', () => {
  it('asks the first option for whole instances, and says when everything is there', () => {
    const empty = [option(onDemand), option(spot), option(large)];
    expect(told(plan({ target: 5, options: empty }))).toEqual(['0-on-demand = 3']);
    const full = plan({ target: 5, options: [option(onDemand, several('a', 3)), option(spot), option(large)] });
    expect(full).toMatchObject({ steps: [], isDone: true });
    expect(plan({ target: 5, options: [option(onDemand, [], { desired: 3 }), option(spot)] })).toMatchObject({
      steps: [],
      isDone: false,
    });
  });

  it('goes on with the next option where the first is full, and says so where all are', () => {
    const empty = [option(onDemand), option(spot), option(large)];
    expect(told(plan({ target: 20, options: empty }))).toEqual(['0-on-demand = 8', '1-spot = 2']);
    const shortage = { code: 'MaximumReached', problem: expect.stringContaining('2 of 50 workers are missing') };
    expect(plan({ target: 50, options: empty })).toMatchObject({ shortage });
  });

  it('takes the next option in the round in which the first has failed, which then gives its launches up', () => {
    const options = [
      option(onDemand, several('a', 2), { desired: 4, failing: failing(NOW - 5000) }),
      option(spot),
      option(large),
    ];
    const { memory, ...first } = plan({ target: 8, options });
    expect(told({ memory, ...first })).toEqual(['0-on-demand = 2', '1-spot = 2']);
    expect(first.shortage).toBeUndefined();
    // both say the same afterwards: nothing is asked for twice
    const after = [
      option(onDemand, several('a', 2), { failing: failing(NOW - 5000) }),
      option(spot, [], { desired: 2 }),
      option(large),
    ];
    expect(told(plan({ target: 8, options: after, memory }))).toEqual([]);
  });

  it('leaves an option that has failed alone for a minute, then for two, up to 32', () => {
    let memory: ConnectorMemory = {};
    let nowMs = NOW;
    const pauses: number[] = [];
    for (let times = 0; times < 8; times++) {
      const failed = [option(onDemand, [], { desired: 1, failing: failing(nowMs) })];
      const { memory: noted, shortage } = plan({ target: 2, options: failed, memory, context: { nowMs } });
      expect(shortage).toMatchObject({ code: 'InsufficientInstanceCapacity', option: '0-on-demand' });
      const atMs = nowMs;
      memory = noted;
      const given = [option(onDemand, [], { failing: failing(atMs) })];
      while (plan({ target: 2, options: given, memory, context: { nowMs } }).shortage !== undefined) nowMs += 1000;
      expect(told(plan({ target: 2, options: given, memory, context: { nowMs } }))).toEqual(['0-on-demand = 1']);
      pauses.push((nowMs - atMs) / MINUTE);
    }
    expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 32, 32]);
  });

  it('forgets a failure once a launch has succeeded, and not because the environment tells no failure any more', () => {
    const failed = [option(onDemand, several('a', 2), { desired: 3, failing: failing(NOW) })];
    const { memory } = plan({ target: 6, options: failed });
    const silent = plan({ target: 6, options: [option(onDemand, several('a', 2))], memory });
    expect(silent.shortage).toMatchObject({ code: 'InsufficientInstanceCapacity' });
    const less = plan({ target: 6, options: [option(onDemand, several('a', 1))], memory: silent.memory });
    expect(told(less)).toEqual([]);
    const more = plan({ target: 6, options: [option(onDemand, several('a', 2))], memory: less.memory });
    expect(told(more)).toEqual(['0-on-demand = 3']);
  });

  it('knows a failure by market, type and zone', () => {
    const zones = poolOf([
      { ...onDemand, zone: 'us-east-1a' },
      { ...onDemand, id: '1-on-demand', zone: 'us-east-1a' },
      { ...onDemand, id: '2-on-demand', zone: 'us-east-1b' },
    ]);
    const ids = ['0-on-demand', '1-on-demand', '2-on-demand'];
    const options = ids.map((id, at) =>
      option({ ...onDemand, id }, [], at === 0 ? { desired: 1, failing: failing(NOW) } : {}),
    );
    expect(told(plan({ target: 2, options, pool: zones }))).toEqual(['0-on-demand = 0', '2-on-demand = 1']);
  });

  it('takes a launch that does not come within twice a start for failed, although the environment tells no failure', () => {
    const options = [option(onDemand, [], { desired: 1 }), option(spot)];
    const { memory } = plan({ target: 2, options });
    const atMs = NOW + 2 * 480_000;
    expect(told(plan({ target: 2, options, memory, context: { nowMs: atMs - 1 } }))).toEqual([]);
    expect(told(plan({ target: 2, options, memory, context: { nowMs: atMs } }))).toEqual([
      '0-on-demand = 0',
      '1-spot = 1',
    ]);
  });

  it('names the last failure where every option has failed', () => {
    const options = [
      option(onDemand, several('a', 1), { desired: 3, failing: failing(NOW - 9000) }),
      option(spot, [], { failing: failing(NOW - 1000, 'UnfulfillableCapacity') }),
      option(large, [], { failing: { ...failing(NOW - 5000), types: ['p5.48xlarge'], zone: 'us-east-1b' } }),
    ];
    expect(plan({ target: 6, options }).shortage).toEqual({
      code: 'UnfulfillableCapacity',
      option: '1-spot',
      problem:
        'decode: 4 of 6 workers are missing, and no option has room; 1-spot failed last: UnfulfillableCapacity (g6e.12xlarge)',
    });
  });

  it('asks for no more GPUs than it may', () => {
    const options = [option(onDemand, several('a', 1)), option(spot)];
    const bound = plan({ target: 8, options, context: { gpusMax: { decode: 10 } } });
    expect(told(bound)).toEqual(['0-on-demand = 2']);
    expect(bound).toMatchObject({ shortage: undefined, gpus: { decode: { held: 4, planned: 8, settled: 8 } } });
  });
});

describe('an engine larger than an instance', () => {
  const wide = poolOf([{ ...onDemand, replicasPerInstance: 0 }], { gpusPerReplica: 8 });

  it('grows by all its instances', () => {
    expect(told(plan({ target: 2, options: [option(onDemand)], pool: wide }))).toEqual(['0-on-demand = 4']);
    const half = [option(onDemand, several('a', 3))];
    expect(told(plan({ target: 2, options: half, pool: wide }))).toEqual(['0-on-demand = 4']);
  });

  it('ends with all its instances, the idle one first', () => {
    const engines = [
      ...several('a', 2, { engine: 'one', activeBlocks: 3 }),
      ...several('b', 2, { engine: 'two' }),
    ].toSorted((one, other) => one.id.slice(1).localeCompare(other.id.slice(1)));
    expect(told(plan({ target: 1, options: [option(onDemand, engines)], pool: wide }))).toEqual(['end b0', 'end b1']);
  });
});

describe('shrinking a fleet', () => {
  it('calls launches off by their number before it ends an instance', () => {
    const starting = several('s', 2, { state: 'starting' });
    const options = [option(onDemand, [...several('a', 2), ...starting], { desired: 5 }), option(spot)];
    expect(told(plan({ target: 6, options }))).toEqual(['0-on-demand = 3']);
    const less = plan({ target: 2, options });
    expect(told(less)).toEqual(['end a0', '0-on-demand = 1']);
  });

  it('keeps what serves the target while its replacements start, and ends what is unhealthy', () => {
    const starting = several('s', 2, { state: 'starting' });
    const replaced = option(spot, [ready('b0'), ...starting], { desired: 2, isRebalancing: true });
    const one = plan({ target: 4, options: [option(onDemand, several('a', 1)), replaced] });
    expect(one).toMatchObject({ steps: [], victims: [], isDone: false });
    expect(one.gpus).toMatchObject({ decode: { held: 16, settled: 8 } });
    const three = plan({ target: 4, options: [option(onDemand, several('a', 3)), replaced] });
    expect(told(three)).toEqual(['end a0']);
    const sick = [ready('a0', { isUnhealthy: true }), ready('a1')];
    expect(told(plan({ target: 4, options: [option(onDemand, sick), replaced] }))).toEqual(['end a0']);
    const there = [option(onDemand, several('a', 1)), option(spot, several('s', 2))];
    expect(told(plan({ target: 4, options: there }))).toEqual(['end s0']);
    expect(told(plan({ target: 0, options: [option(onDemand, several('a', 1)), replaced] }))).toEqual(['end a0']);
  });

  it('keeps what serves while the least number of an option starts', () => {
    const least = option(spot, several('s', 2, { state: 'starting' }), { min: 2 });
    expect(told(plan({ target: 4, options: [option(onDemand, several('a', 2)), least] }))).toEqual([]);
    expect(told(plan({ target: 2, options: [option(onDemand, several('a', 2)), least] }))).toEqual(['end a0']);
  });

  it('ends unhealthy instances first, then idle ones, old generations, spot, and those with the fewest blocks', () => {
    const options = [
      option(
        onDemand,
        [
          ready('busy', { activeBlocks: 9 }),
          ready('less', { activeBlocks: 2 }),
          ready('idle'),
          ready('old', { generation: 'a9' }),
          ready('sick', { activeBlocks: 9, isUnhealthy: true }),
          ready('unheard', { activeBlocks: undefined }),
        ].map((each) => ({ generation: 'a10', ...each })),
      ),
      option(spot, [ready('spot', { generation: 'a10' })]),
    ];
    const chosen = (target: number) => plan({ target, options }).victims.map(({ instanceId }) => instanceId);
    expect(chosen(0)).toEqual(['sick', 'old', 'spot', 'idle', 'less', 'busy', 'unheard']);
    expect(chosen(10)).toEqual(['sick', 'old']);
  });

  it('ends at most eight in a round, counts those that it has chosen before, and chooses no others for them', () => {
    const options = [option({ ...onDemand, max: 40 }, several('a', 20))];
    const pool = poolOf([{ ...onDemand, max: 40 }]);
    const first = plan({ target: 10, options, pool });
    expect(first.victims).toHaveLength(8);
    const again = plan({ target: 10, options, pool, context: { victims: first.victims } });
    expect(again.victims).toEqual(first.victims);
    expect(told(again)).toEqual(told(first));
    expect(first.drains?.[0]).toEqual({ instanceId: 'a0', deadlineMs: NOW + 900_000 });
  });

  it.each([
    [5, undefined, 180_000],
    [120, undefined, 360_000],
    [5, 20, 20_000],
    [5, 0, 15_000],
  ])('ends no instance younger than three intervals of %s s or %s s', (tickSeconds, minInstanceSeconds, ageMs) => {
    const at = (age: number) => [option(onDemand, several('a', 1, { readySinceMs: NOW - age }))];
    const context = { tickSeconds, minInstanceSeconds };
    const young = plan({ target: 0, options: at(ageMs - 1), context });
    expect(young).toMatchObject({ steps: [], isDone: false });
    expect(told(plan({ target: 0, options: at(ageMs), context }))).toEqual(['end a0']);
  });

  it('does not begin while an instance refresh or a rebalance is in progress, and grows all the same', () => {
    const options = [option(onDemand, several('a', 3)), option(spot)];
    const held = plan({ target: 2, options, refreshing: true });
    expect(held).toMatchObject({
      steps: [],
      victims: [],
      isDone: false,
      note: 'no instance is ended while an instance refresh is in progress',
    });
    expect(told(plan({ target: 8, options, refreshing: true }))).toEqual(['0-on-demand = 4']);
    const rebalancing = [option(spot, several('a', 4), { desired: 3, isRebalancing: true })];
    const spotOnly = poolOf([spot]);
    expect(told(plan({ target: 2, options: rebalancing, pool: spotOnly }))).toEqual([]);
    expect(told(plan({ target: 8, options: rebalancing, pool: spotOnly }))).toEqual(['1-spot = 4']);
  });

  it('stays within the bounds of the groups', () => {
    const options = [option(onDemand, several('a', 4), { min: 3, max: 3, desired: 3 }), option(spot)];
    expect(told(plan({ target: 20, options }))).toEqual(['1-spot = 6']);
    expect(told(plan({ target: 0, options: [option(onDemand, several('a', 4), { min: 3 })] }))).toEqual(['end a0']);
  });

  it('corrects a number that was changed by hand', () => {
    const more = [option(onDemand, several('a', 4), { desired: 8 })];
    expect(told(plan({ target: 8, options: more }))).toEqual(['0-on-demand = 4']);
    const less = [option(onDemand, several('a', 4), { desired: 1 })];
    expect(told(plan({ target: 8, options: less }))).toEqual(['0-on-demand = 4']);
    // the number is raised before an instance ends, because none ends below the least number
    expect(told(plan({ target: 0, options: [option(onDemand, several('a', 4), { desired: 0 })] }))).toEqual([
      '0-on-demand = 4',
    ]);
  });
});

describe('victims of an earlier round', () => {
  const victims = ['a0', 'a1'].map(
    (instanceId) => ({ instanceId, pool: 'decode', option: onDemand.id, atMs: NOW }) as const,
  );

  it('wait until a number that was lowered by hand is raised, so that no instance comes in their place', () => {
    const options = [option(onDemand, several('a', 4), { desired: 2 })];
    expect(told(plan({ target: 4, options, context: { victims } }))).toEqual(['0-on-demand = 4']);
  });

  it('stay victims when the demand rises, and others are launched', () => {
    const options = [option(onDemand, several('a', 4))];
    const risen = plan({ target: 8, options, context: { victims } });
    expect(told(risen)).toEqual(['end a0', 'end a1', '0-on-demand = 4']);
    expect(risen.victims).toEqual(victims);
  });

  it('are not ended twice, and are forgotten once they are gone', () => {
    const draining = several('a', 2, { state: 'draining' });
    const after = plan({
      target: 4,
      options: [option(onDemand, [...draining, ...several('b', 2)])],
      context: { victims },
    });
    expect(after).toMatchObject({ steps: [], victims, drains: [], isDone: true });
    expect(after.gpus).toEqual({ decode: { held: 16, planned: 16, settled: 8 } });
    expect(plan({ target: 4, options: [option(onDemand, several('b', 2))], context: { victims } }).victims).toEqual([]);
  });
});

describe('moving back to an earlier option', () => {
  const seen = (first: readonly ObservedInstance[], later: readonly ObservedInstance[], desired = first.length) => [
    option(onDemand, first, { desired }),
    option(spot, later),
    option(large),
  ];

  it('begins when that has had room for a quarter of an hour, with one instance, and ends another one then', () => {
    const later = several('b', 2);
    let { memory, steps } = plan({ target: 4, options: seen([], later) });
    expect(steps).toEqual([]);
    const at = (minutes: number) => ({ nowMs: NOW + minutes * MINUTE });
    ({ memory, steps } = plan({ target: 4, options: seen([], later), memory, context: at(14.9) }));
    expect(steps).toEqual([]);
    const begun = plan({ target: 4, options: seen([], later), memory, context: at(15) });
    expect(told(begun)).toEqual(['0-on-demand = 1']);
    // nothing is called off or ended while it starts
    const coming = plan({ target: 4, options: seen([], later, 1), memory: begun.memory, context: at(16) });
    expect(told(coming)).toEqual([]);
    const young = [ready('a0', { readySinceMs: NOW + 22 * MINUTE })];
    const there = plan({ target: 4, options: seen(young, later), memory: coming.memory, context: at(22) });
    expect(told(there)).toEqual(['end b0']);
    const rest = [{ ...later[0]!, state: 'draining' as const }, later[1]!];
    // the next one follows without another quarter of an hour
    const next = plan({ target: 4, options: seen(young, rest), memory: there.memory, context: at(23) });
    expect(told(next)).toEqual(['0-on-demand = 2']);
  });

  it('is given up where the option fails again or the demand falls', () => {
    const later = several('b', 2);
    const first = plan({ target: 4, options: seen([], later) });
    const context = { nowMs: NOW + 15 * MINUTE };
    const { memory } = plan({ target: 4, options: seen([], later), memory: first.memory, context });
    const failed = [option(onDemand, [], { desired: 1, failing: failing(context.nowMs) }), option(spot, later)];
    expect(told(plan({ target: 4, options: failed, memory, context }))).toEqual(['0-on-demand = 0']);
    const less = plan({ target: 2, options: seen([], later, 1), memory, context, decisionId: 1 });
    expect(told(less)).toEqual(['end b0', '0-on-demand = 0']);
  });
});

describe('the end of a capacity block', () => {
  const endsAt = new Date(NOW + 200 * MINUTE).toISOString();
  const block: OptionSpec = { ...onDemand, id: '0-capacity-block', market: 'capacity-block', endsAt };
  const pool = poolOf([block, spot]);
  const at = (minutesBefore: number) => ({ nowMs: NOW + (200 - minutesBefore) * MINUTE });
  const options = [option(block, several('a', 2)), option(spot)];

  it('is known: replacements start early enough to serve when the drain begins, before EC2 ends the instances', () => {
    // EC2 ends them 30 minutes before the end; 15 minutes of drain and 8 of a start come before that
    expect(told(plan({ target: 4, options, pool, context: at(53.1) }))).toEqual([]);
    expect(told(plan({ target: 4, options, pool, context: at(53) }))).toEqual(['1-spot = 2']);
    const both = [option(block, several('a', 2)), option(spot, several('b', 2))];
    expect(told(plan({ target: 4, options: both, pool, context: at(45.1) }))).toEqual([]);
    expect(told(plan({ target: 4, options: both, pool, context: at(45) }))).toEqual(['end a0', 'end a1']);
  });

  it('is not waited for if the block is asked for too late', () => {
    expect(told(plan({ target: 2, options: [option(block), option(spot)], pool, context: at(50) }))).toEqual([
      '1-spot = 1',
    ]);
  });
});
