import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { JsonObject } from '../../../../shared/config/values/json.ts';
import { FleetSource, withInitialWorkers } from '../../../../shared/simulate/command/ec2.ts';
import { scalingOf } from '../../../../shared/simulate/command/scaling.ts';
import { conditionsOf, readFleetConditions } from '../../../../shared/simulate/ec2/conditions.ts';
import { initialWorkers } from '../../../../shared/simulate/ec2/initial.ts';
import { fleetSpec, optionSpec } from '../../../support/planner/ec2-fleet.ts';
import { options, workloadOf } from '../simulation-bed.ts';

const SPOT = optionSpec('g1', 1, { id: '1-spot', market: 'spot', zone: 'us-east-1b' });
const FLEET = fleetSpec([optionSpec('g0', 0), SPOT]);
const POOL = { startSecs: 300 };
const DEFAULTS = { gpuPrice: 2, interruptionsPerHour: 3, startFailures: 0.1 };
const read = (value: object) => readFleetConditions({ kind: 'json', value: value as JsonObject }, FLEET);

describe('the conditions of a simulated fleet', () => {
  it.each([
    [
      { options: { '2-spot': {} } },
      '--fleet-conditions.options.2-spot: the fleet has no such option; allowed: *, 0-on-demand, 1-spot',
    ],
    [
      { options: { '1-spot': { shortages: [{ from: 0 }, { from: 0, zone: 'us-east-1a' }] } } },
      '--fleet-conditions.options.1-spot.shortages.1.zone "us-east-1a": the option has no such zone; allowed: us-east-1b',
    ],
    [
      { options: { '*': { zones: ['a', 'b'], shortages: [{ from: 0, zone: 'us-east-1b' }] } } },
      'options.*.shortages.0.zone "us-east-1b": the option has no such zone; allowed: a, b',
    ],
    [
      { options: { '*': { shortages: [{ from: 0, type: 'p6.48xlarge' }] } } },
      'options.*.shortages.0.type "p6.48xlarge": the option has no such type; allowed: ',
    ],
    [{ options: { '*': { start: { boot: [9, 3] } } } }, 'start.boot [9,3]: must be [shortest, longest]'],
    [{ options: { '*': { start: { boot: -1 } } } }, 'start.boot -1: Too small: expected number to be >=0'],
    [{ options: { '*': { start: { download: 3 } } } }, '--fleet-conditions.options.*.start'],
    [{ options: { '1-spot': { shortages: [{ from: 60, to: 60 }] } } }, 'shortages.0.to 60: must be after from'],
    [
      { options: { '1-spot': { shortages: [{ from: 0, code: 'no capacity' }] } } },
      'code "no capacity": must be a code of EC2',
    ],
    [
      { options: { '0-on-demand': { interruptions: { perHour: 1 } } } },
      'interruptions: allowed only for options of market spot',
    ],
    [{ beginsAt: 'tomorrow' }, '--fleet-conditions.beginsAt "tomorrow"'],
    [{ world: 1 }, '--fleet-conditions'],
  ])('%j: the error names what is wrong', async (value, problem) => {
    await expect(read(value)).rejects.toThrow(problem);
  });

  it('a file that cannot be read is named', async () => {
    await expect(readFleetConditions({ kind: 'file', path: '/none.json' }, FLEET)).rejects.toThrow(
      '--fleet-conditions /none.json: ENOENT',
    );
  });

  it('have a default for everything', () => {
    const start = { capacity: 0, boot: 0, image: 0, weights: 0, engine: 300, compile: 0, register: 0 };
    const common = {
      start,
      pricePerHour: 8,
      warmPricePerHour: 0,
      shortages: [],
      interruptionsAt: [],
      startFailures: 0.1,
    };
    expect(conditionsOf({}, 'decode', SPOT, POOL, DEFAULTS)).toMatchObject({
      ...common,
      zones: ['us-east-1b'],
      interruptionsPerHour: 3,
    });
    const onDemand = conditionsOf({}, 'decode', optionSpec('g0'), POOL, DEFAULTS);
    expect(onDemand).toMatchObject({ ...common, zones: ['zone-1'], interruptionsPerHour: 0 });
    const running = optionSpec('g0', 0, { warmPool: { min: 1, state: 'Running' } });
    expect(conditionsOf({}, 'decode', running, POOL, DEFAULTS).warmPricePerHour).toBe(8);
  });

  it('come from the entry of the pool, then of the option, then of all', async () => {
    const all = { pricePerHour: 1, zones: ['x'], start: { boot: 1 } };
    const given = await read({
      options: { '*': all, '1-spot': { pricePerHour: 2 }, 'decode/1-spot': { zones: ['y'] } },
    });
    const found = conditionsOf(given, 'decode', SPOT, POOL, DEFAULTS);
    expect(found).toMatchObject({ pricePerHour: 2, zones: ['y'], start: { boot: 1, engine: 0 } });
  });
});

describe('a simulated fleet begins', () => {
  const POOL_SPEC = FLEET.pools.decode!;

  it('with its least instances, or with as many workers as are asked for, along its options', () => {
    const min = { ...POOL_SPEC, options: [optionSpec('g0', 0, { max: 3 }), { ...SPOT, min: 1, max: 4 }] };
    expect([0, 2, 5, 8, 100].map((workers) => initialWorkers(min, workers))).toEqual([2, 2, 6, 8, 14]);
  });
});

describe('a simulation of --planner-fleets refuses', () => {
  const fleets = (pools: object) => JSON.stringify({ fleets: [{ namespace: 'n', model: 'm', pools }] });
  const both = fleets({ prefill: poolOf(), decode: poolOf() });
  const one = fleets({ decode: poolOf() });
  const resolve = (specs: string, ...more: string[]) =>
    resolveConfig('simulate', ['--planner', '--planner-fleets', specs, ...more], {});

  it.each([
    ['one', ['--start-seconds', '20'], '--start-seconds is not for --planner-fleets: see --fleet-conditions'],
    ['one', ['--warm-workers', '2'], '--warm-workers is not for --planner-fleets: see --fleet-conditions'],
    ['one', ['--planner-law', 'foresight'], '--planner-law foresight does not scale --planner-fleets'],
    ['none', [], '--planner-fleets names no fleet'],
  ])('of %s fleet, with %j', async (count, more, problem) => {
    const specs = count === 'one' ? one : '{"fleets":[]}';
    const workload = workloadOf([{ inputTokens: 1 }]);
    await expect(
      scalingOf(resolve(specs, ...more), workload, options({ workload }), new FleetSource()),
    ).rejects.toThrow(problem);
  });

  it('pools that the simulated fleet does not have', async () => {
    const fleet = options({ workload: workloadOf([{ inputTokens: 1 }]) });
    const source = new FleetSource();
    await expect(withInitialWorkers(resolve(both), fleet, source)).rejects.toThrow(
      'has two pools: give --num-prefill-workers',
    );
    await expect(withInitialWorkers(resolve(fleets({ prefill: poolOf() })), fleet, source)).rejects.toThrow(
      'prefill workers alone',
    );
    expect((await withInitialWorkers(resolve(one), fleet, source)).workers).toBe(0);
    expect((await withInitialWorkers(resolve(one, '--workers', '3'), { ...fleet, workers: 3 }, source)).workers).toBe(
      4,
    );
  });
});

describe('the file of --planner-fleets', () => {
  it('is read once for all runs of a sweep, because a pipe can be read only once', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'stator-fleets-'));
    const path = join(folder, 'fleets.json');
    const fleet = { namespace: 'n', model: 'm', pools: { decode: poolOf() } };
    await writeFile(path, JSON.stringify({ fleets: [fleet] }));
    const config = resolveConfig('simulate', ['--planner', '--planner-fleets', path], {});
    const source = new FleetSource();
    const first = await source.open(config);
    await rm(folder, { recursive: true });
    expect(first?.spec).toMatchObject({ namespace: 'n' });
    expect(await source.open(config)).toEqual(first);
  });
});

describe('a simulation of --planner-fleets with a model in two namespaces', () => {
  const fleets = ['blue', 'green'].map((namespace) => ({ namespace, model: 'm', pools: { decode: poolOf() } }));
  const scaled = (...more: string[]) => {
    const argv = ['--planner', '--planner-fleets', JSON.stringify({ fleets }), '--planner-model', 'm', ...more];
    const workload = workloadOf([{ inputTokens: 1 }]);
    return scalingOf(resolveConfig('simulate', argv, {}), workload, options({ workload }), new FleetSource());
  };

  it('asks for --namespace, and scales the fleet of that one', async () => {
    await expect(scaled()).rejects.toThrow('names several fleets: choose one with --namespace and --planner-model');
    expect(await scaled('--namespace', 'green')).toMatchObject({ fleet: { namespace: 'green' } });
  });
});

function poolOf(): object {
  return { ...FLEET.pools.decode };
}
