import { describe, expect, it } from 'vitest';
import { OpenOnce } from '../../../shared/concurrency/index.ts';
import { PlannerViewers } from '../../../shared/console/index.ts';
import type { ConsolePlanned, ConsolePlanner } from '../../../shared/console/planner/wire.ts';
import { type DecisionRecord, MemoryPlannerStore, type TickRecord } from '../../../shared/planner/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const NEVER = new AbortController().signal;
const BEGIN_MS = 1_800_000_000_000;

function tickAt(atMs: number, need = 3): TickRecord {
  return {
    atMs,
    reason: `no change: ${need} needed`,
    figures: { decode_need: need, decode_forecast: 4, decode_capacity: 2, requests_per_second: 5 },
    sample: {
      ...{ seconds: 10, knownSeconds: 10, started: 50, inputTokens: 0, outputTokens: 0, eventsLeftOut: 0, events: [] },
      ttft: { count: 50, sumMs: 5000, met: 50, targetMs: 500 },
      itl: { count: 0, sumMs: 0, met: 0, targetMs: 50 },
      ...{ heldMax: 1, heldSeconds: 0, runningSeconds: 40, targets: { decode: 3 } },
      options: { 'decode/1-spot': { workers: { serving: 20, boot: 10 }, gpuSeconds: 30 } },
    },
  };
}

function decisionOf(parts: Partial<DecisionRecord>): DecisionRecord {
  return {
    ...{ decisionId: 0, status: 'PENDING', targets: { decode: 3 }, previous: { decode: 1 }, isAdvisory: false },
    ...{ reason: 'decode 1 -> 3: 5 needed', configHash: 'x', decidedAtMs: BEGIN_MS - 60_000, figures: { held: 2 } },
    ...parts,
  };
}

function bed(howToStart = 'Start one.') {
  const clock = new VirtualClock(BEGIN_MS);
  const store = new MemoryPlannerStore({ wallMs: () => clock.wallMs() });
  let readings = 0;
  let failure: Error | undefined;
  const records = {
    groups: async () => {
      readings++;
      if (failure !== undefined) throw failure;
      return store.groups(NEVER);
    },
    ticks: store.ticks.bind(store),
    decisions: store.decisions.bind(store),
    readState: store.readState.bind(store),
    close: async () => {},
  };
  const viewers = new PlannerViewers(clock, howToStart, new OpenOnce(async () => records));
  const versions = new Map<string, number>();
  const put = async (group: string, tick: TickRecord, decision?: Partial<DecisionRecord>): Promise<void> => {
    const version = versions.get(group) ?? 0;
    versions.set(group, version + 1);
    const commit = { version, state: `next ${version}`, tick };
    const made = decision === undefined ? {} : { decision: decisionOf(decision) };
    expect(await store.commit(group, { ...commit, ...made }, NEVER)).toBe(true);
  };
  return {
    ...{ clock, store, viewers, put },
    readings: () => readings,
    fail: (next: Error | undefined) => {
      failure = next;
    },
  };
}

/** Lets time pass, and everything run that needs none. */
async function pass(clock: VirtualClock, ms: number): Promise<void> {
  await clock.advance(ms);
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A viewer, and the events that it has got. */
function viewerOf(viewers: PlannerViewers, wanted = '') {
  const events: (readonly [name: string, data: ConsolePlanner & ConsolePlanned])[] = [];
  const state = { isBehind: false, isCut: false };
  const leave = viewers.add(wanted, {
    send: (text) => {
      const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)\n\n$/s.exec(text) ?? [];
      events.push([name, JSON.parse(data)]);
    },
    isBehind: () => state.isBehind,
    breakOff: () => {
      state.isCut = true;
    },
  });
  return { events, state, leave };
}

describe('viewers of a planner', () => {
  it('are of a model by its name for clients, too, and first by that', async () => {
    const { store, clock, put } = bed();
    await put('ns#own', tickAt(BEGIN_MS - 20_000, 3));
    await put('ns#served', tickAt(BEGIN_MS - 10_000, 4));
    const names = new Map([
      ['served', 'own'],
      ['other', 'Served'],
    ]);
    const viewers = new PlannerViewers(clock, '', new OpenOnce(async () => store), (name) => names.get(name) ?? name);
    const groupOf = async (name: string) => (JSON.parse(await viewers.now(name)) as ConsolePlanner).group;
    expect(await groupOf('served')).toBe('ns#own');
    expect(await groupOf('other')).toBe('ns#served');
    expect(await groupOf('OWN')).toBe('ns#own');
    expect(await groupOf('ns#served')).toBe('ns#served');
  });

  it('get what it recorded: demand, need, target, and workers by option and phase', async () => {
    const { viewers, put } = bed();
    await put('ns#m', tickAt(BEGIN_MS - 60_000), {});
    const shown = JSON.parse(await viewers.now('')) as ConsolePlanner;
    expect(shown).toMatchObject({ why_none: null, problem: null, group: 'ns#m', config: null });
    expect(shown.tick).toMatchObject({ at_ms: BEGIN_MS - 60_000, reason: 'no change: 3 needed' });
    expect(shown.points).toEqual([
      {
        step: (BEGIN_MS - 60_000) / 10_000,
        at_ms: BEGIN_MS - 60_000,
        ...{ seconds: 10, requests_per_second: 5, held_max: 1, running: 4, ttft_ms: 100, itl_ms: null },
        ...{ forecast: { decode: 4 }, need: { decode: 3 }, capacity: { decode: 2 }, target: { decode: 3 } },
        workers: { 'decode/1-spot': { serving: 2, boot: 1 } },
      },
    ]);
    expect(shown.decisions).toMatchObject([{ id: 0, outcome: 'waiting', problem: null, details: [] }]);
  });

  it('get what has changed, from one reading for all of them', async () => {
    const { clock, viewers, put, readings, store } = bed();
    await put('ns#m', tickAt(BEGIN_MS - 60_000), {});
    const [one, other] = [viewerOf(viewers), viewerOf(viewers)];
    await pass(clock, 0);
    expect(one.events.map(([name]) => name)).toEqual(['planner']);
    await put('ns#m', tickAt(BEGIN_MS + 1000, 4));
    const [decision] = await store.decisions('ns#m', { sinceMs: 0 }, NEVER);
    await store.move('ns#m', decision!, { status: 'APPLYING' }, NEVER);
    const before = readings();
    await pass(clock, 5000);
    expect(readings()).toBe(before + 1);
    expect(one.events).toEqual(other.events);
    const [name, change] = one.events.at(-1)!;
    expect(name).toBe('planned');
    expect(change.points.map(({ need }) => need.decode)).toEqual([4]);
    expect(change.decisions).toMatchObject([{ id: 0, outcome: 'under_way' }]);
    await pass(clock, 5000);
    expect(one.events.at(-1)?.[1]).toMatchObject({ points: [], points_gone: [], decisions: [], decisions_gone: [] });
  });

  it('cost nothing once they have left', async () => {
    const { clock, viewers, put, readings } = bed();
    await put('ns#m', tickAt(BEGIN_MS));
    const { leave } = viewerOf(viewers);
    await pass(clock, 0);
    leave();
    const before = readings();
    await pass(clock, 60_000);
    expect([readings(), clock.pendingTimers, viewers.size]).toEqual([before, 0, 0]);
  });

  it('get everything again if they were behind, and lose their place after a minute', async () => {
    const { clock, viewers, put } = bed();
    await put('ns#m', tickAt(BEGIN_MS));
    const { events, state } = viewerOf(viewers);
    await pass(clock, 0);
    state.isBehind = true;
    await pass(clock, 5000);
    state.isBehind = false;
    await pass(clock, 5000);
    expect(events.map(([name]) => name)).toEqual(['planner', 'planner']);
    state.isBehind = true;
    for (let at = 0; at < 12; at++) await pass(clock, 5000);
    expect(state.isCut).toBe(true);
  });

  it('read an hour of points and a hundred decisions at most, and drop what is older', async () => {
    const { clock, viewers, put } = bed();
    for (let at = 0; at < 400; at++) {
      await clock.advance(10_000);
      await put('ns#m', tickAt(clock.wallMs()), at < 130 ? { decisionId: at, decidedAtMs: clock.wallMs() } : undefined);
    }
    const shown = JSON.parse(await viewers.now('')) as ConsolePlanner;
    expect(shown.points.length).toBeGreaterThan(355);
    expect(shown.points.length).toBeLessThanOrEqual(361);
    expect(shown.decisions).toHaveLength(100);
    const { events } = viewerOf(viewers);
    for (let at = 0; at < 6; at++) await pass(clock, 5000);
    const gone = events.flatMap(([name, data]) => (name === 'planned' ? data.points_gone : []));
    expect(gone.length).toBeGreaterThanOrEqual(2);
  });

  it('find a decision among many that came between two readings', async () => {
    const { clock, viewers, put } = bed();
    await put('ns#m', tickAt(BEGIN_MS), { decisionId: 0 });
    const { events } = viewerOf(viewers);
    await pass(clock, 0);
    for (let at = 1; at <= 40; at++) await put('ns#m', tickAt(BEGIN_MS + at), { decisionId: at });
    await pass(clock, 5000);
    expect(
      events
        .at(-1)?.[1]
        .decisions.map(({ id }) => id)
        .toSorted((a, b) => a - b),
    ).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
  });

  it('see the model that they ask for, by its name or its group, and else the one that ticked last', async () => {
    const { viewers, put } = bed();
    const hostile = `ns#${encodeURIComponent('<img src=x>"')}`;
    await put(hostile, tickAt(BEGIN_MS - 1000));
    await put('ns#m', tickAt(BEGIN_MS));
    const groupOf = async (wanted: string) => (JSON.parse(await viewers.now(wanted)) as ConsolePlanner).group;
    expect(await groupOf('')).toBe('ns#m');
    expect(await groupOf('M')).toBe('ns#m');
    expect(await groupOf(hostile)).toBe(hostile);
    const { groups, why_none: why } = JSON.parse(await viewers.now('other')) as ConsolePlanner;
    expect(groups.map(({ model }) => model)).toEqual(['<img src=x>"', 'm']);
    expect(why).toBe('No planner has decided for other.');
  });

  it('see the model that ticked last anew once no client has looked for a while', async () => {
    const { clock, viewers, put } = bed();
    const groupNow = async () => (JSON.parse(await viewers.now('')) as ConsolePlanner).group;
    await put('ns#a', tickAt(BEGIN_MS - 2000));
    await put('ns#b', tickAt(BEGIN_MS - 1000));
    expect(await groupNow()).toBe('ns#b');
    await put('ns#a', tickAt(BEGIN_MS + 1000));
    await clock.advance(30_000);
    expect(await groupNow()).toBe('ns#b');
    await clock.advance(61_000);
    expect(await groupNow()).toBe('ns#a');
  });

  it('learn how to start a planner if there is none, and see the first one that comes', async () => {
    const { clock, viewers, put } = bed('Start one with a command.');
    const { events } = viewerOf(viewers);
    await pass(clock, 0);
    expect(events[0]?.[1].why_none).toBe('No planner has decided anything here. Start one with a command.');
    await put('ns#m', tickAt(BEGIN_MS));
    await pass(clock, 5000);
    expect(events.at(-1)?.[1]).toMatchObject({ why_none: null, group: 'ns#m', points: [{ need: { decode: 3 } }] });
    const without = new PlannerViewers(clock, 'Nothing here.', undefined);
    expect(JSON.parse(await without.now(''))).toMatchObject({ why_none: expect.stringContaining('Nothing here.') });
    expect(await without.ask({}, NEVER)).toBeUndefined();
  });

  it('see what was read before while the records cannot be read, and why', async () => {
    const { clock, viewers, put, fail } = bed();
    await put('ns#m', tickAt(BEGIN_MS));
    const { events } = viewerOf(viewers);
    await pass(clock, 0);
    fail(new Error('the table is away'));
    await pass(clock, 5000);
    expect(events.at(-1)?.[1]).toMatchObject({ problem: 'the table is away', group: 'ns#m', points_gone: [] });
    fail(undefined);
    await pass(clock, 5000);
    expect(events.at(-1)?.[1].problem).toBeNull();
  });
});
