import { describe, expect, it, vi } from 'vitest';
import type { PlannerRecords } from '../../../shared/console/index.ts';
import type { ConsoleFleet } from '../../../shared/console/wire/fleet.ts';
import { packState, startModel } from '../../../shared/planner/decide/model-state.ts';
import type { DecisionRecord, StartReading } from '../../../shared/planner/index.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model } from '../pipeline/fixtures.ts';

/** Returns records of planners from which `reading()` is read for the model `m`, and what they were asked for. */
function recordsOf(reading: () => StartReading | undefined) {
  const asked: string[] = [];
  const state = { failure: undefined as Error | undefined, isClosed: false };
  const records: PlannerRecords = {
    groups: async () => ['ns#m', 'ns#other'],
    readState: async (group) => {
      asked.push(group);
      if (state.failure !== undefined) throw state.failure;
      const known = group === 'ns#m' ? reading() : undefined;
      if (known === undefined) return undefined;
      const hosts = Object.fromEntries(
        known.hosts.map(({ instanceId, phase, sinceMs }) => [instanceId, [phase, sinceMs / 1000]] as const),
      );
      return { version: 1, state: packState({ ...startModel(0), hosts }) };
    },
    decisions: async () => {
      const { decidedAtMs, problem } = reading() ?? {};
      const common = { decisionId: 0, status: 'PENDING', reason: 'x', isAdvisory: false, configHash: 'x' } as const;
      const decision = { ...common, targets: { decode: 1 }, previous: {}, figures: {}, problem };
      return decidedAtMs === undefined ? [] : [{ ...decision, decidedAtMs } satisfies DecisionRecord];
    },
    ticks: async () => [],
    close: async () => {
      state.isClosed = true;
    },
  };
  return { records, asked, state };
}

/** Lets a reading end. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
}

function bed(options: { readonly hasPlanner?: boolean } = {}) {
  const clock = new VirtualClock();
  const shownState = { reading: undefined as StartReading | undefined };
  const { records, asked, state: faults } = recordsOf(() => shownState.reading);
  const open = vi.fn(async () => records);
  const planners = { howToStart: 'Start one.', open };
  const shown = openConsoleBed(clock, 10, options.hasPlanner === false ? {} : { planners });
  const { coldStarts } = shown.console;
  const look = () => JSON.parse(shown.open.viewers.now({ view: 'fleet', model: undefined })) as ConsoleFleet;
  const fleet = async () => {
    look();
    await turns();
    return look();
  };
  return {
    ...shown,
    clock,
    state: shownState,
    faults,
    asked,
    coldStarts,
    fleet,
    opening: open,
    nowMs: () => clock.wallMs(),
  };
}

const host = (phase: 'image' | 'weights' | 'compile' | 'register', sinceMs: number, instanceId = 'i-1') => ({
  instanceId,
  phase,
  sinceMs,
});

/** Returns a model without workers. @param ownName its name at its workers */
function modelNamed(name: string, ownName = name) {
  const fixture = model({ workers: [], name, primaryName: name });
  return { ...fixture, card: { ...fixture.card, display_name: ownName } };
}

describe('the wait of requests for a first worker', () => {
  it('is shown in the phases of the machine that is furthest, until the worker comes', async () => {
    const { clock, state, coldStarts, fleet, nowMs } = bed();
    const beganMs = nowMs();
    coldStarts.holding('m', 1, false);
    await clock.advance(1000);
    coldStarts.holding('m', 2, false);
    state.reading = { decidedAtMs: beganMs + 400, problem: undefined, hosts: [] };
    expect((await fleet()).cold_starts).toMatchObject([
      {
        model: 'm',
        requests: 2,
        since_ms: beganMs,
        ready_ms: null,
        ended_ms: null,
        phases: [
          { name: 'decide', from_ms: beganMs, to_ms: beganMs + 400 },
          { name: 'launch', from_ms: beganMs + 400, to_ms: null },
        ],
        note: null,
      },
    ]);
    await clock.advance(60_000);
    const other = host('image', beganMs + 59_000, 'i-2');
    state.reading = { ...state.reading, hosts: [other, host('weights', beganMs + 50_000)] };
    await fleet();
    await clock.advance(30_000);
    state.reading = { ...state.reading, hosts: [other, host('register', beganMs + 90_000)] };
    await fleet();
    coldStarts.holding('m', 1, true);
    await clock.advance(2000);
    coldStarts.holding('m', 0, true);
    const [start] = (await fleet()).cold_starts;
    expect(start?.phases.map(({ name, from_ms, to_ms }) => [name, from_ms - beganMs, to_ms! - beganMs])).toEqual([
      ['decide', 0, 400],
      ['launch', 400, 50_000],
      ['weights', 50_000, 90_000],
      ['register', 90_000, 91_000],
    ]);
    expect(start).toMatchObject({ requests: 2, ready_ms: beganMs + 91_000, ended_ms: beganMs + 93_000 });
  });

  it('does not count a machine that serves already, or that started for something else', async () => {
    const { clock, state, coldStarts, fleet, nowMs } = bed();
    const old = [host('register', nowMs() - 60_000), host('weights', nowMs() - 3_000_000, 'i-2')];
    state.reading = { decidedAtMs: undefined, problem: undefined, hosts: old };
    coldStarts.holding('m', 1, false);
    await clock.advance(1000);
    expect((await fleet()).cold_starts[0]?.phases).toMatchObject([{ name: 'decide', to_ms: null }]);
  });

  it('says if no planner is known, why workers do not come, and that the planner cannot be read', async () => {
    const alone = bed({ hasPlanner: false });
    alone.coldStarts.holding('m', 1, false);
    const [start] = (await alone.fleet()).cold_starts;
    expect(start).toMatchObject({ phases: [{ name: 'wait' }], note: expect.stringContaining('No planner') });
    const { clock, state, faults, coldStarts, fleet, nowMs } = bed();
    state.reading = { decidedAtMs: nowMs(), problem: 'no capacity in any zone', hosts: [] };
    coldStarts.holding('m', 1, false);
    expect((await fleet()).cold_starts[0]?.note).toBe('no capacity in any zone');
    faults.failure = new Error('the table is away');
    await clock.advance(5000);
    expect((await fleet()).cold_starts[0]?.note).toContain('the table is away');
  });

  it('comes with what the planner says of a model that this frontend renames', async () => {
    const { state, coldStarts, fleet, setModels, nowMs } = bed();
    setModels([modelNamed('chosen', 'm')]);
    state.reading = { decidedAtMs: nowMs(), problem: 'no capacity in any zone', hosts: [host('image', nowMs())] };
    coldStarts.holding('chosen', 1, false);
    const { cold_starts: starts, starting } = await fleet();
    expect(starts).toMatchObject([{ model: 'chosen', note: 'no capacity in any zone' }]);
    expect(starting).toMatchObject([{ model: 'chosen', instance_id: 'i-1' }]);
  });

  it('begins only if the model has no workers, and stays in sight only if it was long enough to see', async () => {
    const { clock, coldStarts, fleet } = bed();
    coldStarts.holding('busy', 1, true);
    coldStarts.holding('short', 1, false);
    await clock.advance(100);
    coldStarts.holding('short', 0, true);
    expect((await fleet()).cold_starts).toEqual([]);
    for (let at = 0; at < 20; at++) {
      coldStarts.holding(`m${at}`, 1, false);
      await clock.advance(1000);
      coldStarts.holding(`m${at}`, 0, false);
    }
    const { cold_starts: kept } = await fleet();
    expect(kept.map((each) => each.model)).toEqual(['m19', 'm18', 'm17', 'm16', 'm15', 'm14', 'm13', 'm12']);
    expect(kept[0]).toMatchObject({ ready_ms: null, ended_ms: expect.any(Number) });
  });

  it('asks the planner only while a client looks, at its interval, and closes its records', async () => {
    const { clock, asked, faults, coldStarts, open, setModels } = bed();
    setModels([modelNamed('other')]);
    coldStarts.holding('m', 1, false);
    await clock.advance(60_000);
    expect(asked).toEqual([]);
    const sink = { send: () => {}, isBehind: () => false, breakOff: () => {} };
    const leave = open.viewers.add({ view: 'fleet', model: undefined }, sink);
    const second = async (): Promise<void> => {
      await turns();
      await clock.advance(1000);
      await turns();
    };
    await second();
    await second();
    expect(asked).toEqual(['ns#m', 'ns#other']);
    await second();
    expect(asked).toHaveLength(4);
    leave();
    await clock.advance(60_000);
    expect(asked).toHaveLength(4);
    await open.close();
    expect(faults.isClosed).toBe(true);
  });

  it('shares its records with the page of planners', async () => {
    const { coldStarts, fleet, open, opening } = bed();
    coldStarts.holding('m', 1, false);
    await fleet();
    expect(JSON.parse(await (await open.planner()).now(''))).toHaveProperty('groups.0.model', 'm');
    expect(opening).toHaveBeenCalledTimes(1);
    await open.close();
  });
});

describe('machines that start', () => {
  it('are shown with their phases until they serve', async () => {
    const { clock, state, fleet, setModels, nowMs } = bed();
    setModels([modelNamed('m')]);
    const beganMs = nowMs();
    state.reading = {
      decidedAtMs: undefined,
      problem: undefined,
      hosts: [host('weights', beganMs), host('register', beganMs, 'i-2')],
    };
    const shown = { instance_id: 'i-1', model: 'm', phase: 'weights', since_ms: beganMs };
    expect((await fleet()).starting).toMatchObject([shown, { instance_id: 'i-2', phase: 'register' }]);
    await clock.advance(200_000);
    expect((await fleet()).starting).toMatchObject([shown]);
  });
});
