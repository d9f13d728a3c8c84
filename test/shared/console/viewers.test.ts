import { describe, expect, it } from 'vitest';
import type { ConsoleChange, ConsoleFleet } from '../../../shared/console/wire/fleet.ts';
import type { RankLoad, WorkerLoad } from '../../../shared/discovery/index.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const LOAD: RankLoad = { dpRank: 0, requests: 3, decodeBlocks: 10, prefillTokens: 64 };
const loadOf = (more: Partial<RankLoad> = {}, isDraining = false): WorkerLoad => ({
  ranks: [{ ...LOAD, ...more }],
  isDraining,
});
const ALL = { view: 'fleet', model: undefined } as const;

function viewer() {
  const events: { readonly name: string; readonly data: unknown }[] = [];
  const state = { isBehind: false, isCut: false };
  const send = (text: string): void => {
    const [, name = '', data = ''] = /^event: (\w+)\ndata: (.*)\n\n$/.exec(text) ?? [];
    if (name !== '') events.push({ name, data: JSON.parse(data) });
  };
  const breakOff = (): void => {
    state.isCut = true;
  };
  const named = (name: string) => events.filter((event) => event.name === name).map(({ data }) => data);
  return { events, state, named, sink: { send, isBehind: () => state.isBehind, breakOff } };
}

function fleetOf(size: number) {
  const ids = Array.from({ length: size }, (_, at) => (at + 1).toString(16));
  return { ids, models: [model({ workers: ids.map((id) => ({ ...worker(id), totalKvBlocks: 100 })) })] };
}

describe('viewers of a console', () => {
  it('see the whole fleet, and then only what changes', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    const { models } = fleetOf(3);
    setModels(models);
    setLoads(new Map([['1', loadOf()]]));
    const { sink, named } = viewer();
    open.viewers.add(ALL, sink);
    const [whole] = named('fleet') as ConsoleFleet[];
    expect(whole?.models).toMatchObject([{ name: 'letters', workers: 3, is_ready: true }]);
    expect(whole?.workers).toMatchObject([
      { id: '1', state: 'ready', requests: 3, kv_blocks: 10, kv_blocks_total: 100, prefill_tokens: 64 },
      { id: '2', requests: null },
      { id: '3', requests: null },
    ]);
    setLoads(new Map([['2', loadOf({ requests: 1 }, true)]]));
    setModels([model({ workers: models[0]!.workers.slice(0, 2) })]);
    await clock.advance(1000);
    const [change] = named('change') as ConsoleChange[];
    expect(change?.workers).toMatchObject([
      { id: '1', requests: null },
      { id: '2', state: 'draining' },
    ]);
    expect(change).toMatchObject({ workers_gone: ['3'], models: [{ workers: 2 }] });
    await clock.advance(1000);
    expect((named('change') as ConsoleChange[])[1]).toMatchObject({ workers: [], models: [], workers_gone: [] });
  });

  it('cost nothing while there are none, and one look however many there are', async () => {
    const clock = new VirtualClock();
    const { open, looks, setModels } = openConsoleBed(clock);
    setModels(fleetOf(2).models);
    const before = looks();
    await clock.advance(60_000);
    expect(looks()).toBe(before);
    expect(clock.pendingTimers).toBe(0);
    const [one, other] = [viewer(), viewer()];
    const leave = [open.viewers.add(ALL, one.sink), open.viewers.add(ALL, other.sink)];
    const begun = looks();
    await clock.advance(5000);
    expect(looks() - begun).toBe(5);
    expect(one.named('change')).toHaveLength(5);
    expect(other.named('change')).toHaveLength(5);
    for (const each of leave) each();
    expect(clock.pendingTimers).toBe(0);
    expect(open.viewers.size).toBe(0);
  });

  it('that read too slowly get everything again once they have caught up', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    setModels(fleetOf(1).models);
    const { sink, state, events, named } = viewer();
    open.viewers.add(ALL, sink);
    state.isBehind = true;
    setLoads(new Map([['1', loadOf()]]));
    await clock.advance(3000);
    expect(events).toHaveLength(1);
    state.isBehind = false;
    await clock.advance(1000);
    expect(named('fleet')).toHaveLength(2);
    expect((named('fleet') as ConsoleFleet[])[1]?.workers).toMatchObject([{ id: '1', requests: 3 }]);
  });

  it('of requests get those that match their filter, and a comment in silence', async () => {
    const clock = new VirtualClock();
    const { open, console } = openConsoleBed(clock);
    const { sink, named } = viewer();
    let comments = 0;
    const send = (text: string): void => {
      if (text.startsWith(':')) comments++;
      sink.send(text);
    };
    open.viewers.add({ view: 'requests', filter: { model: 'a' } }, { ...sink, send });
    for (const name of ['a', 'b']) {
      console.log.began({ endpoint: 'chat', xRequestId: name, key: undefined, receivedMs: 0 }).named(name);
    }
    await clock.advance(1000);
    expect(named('changed')).toMatchObject([{ requests: [{ model: 'a' }], left_out: 0 }]);
    await clock.advance(30_000);
    expect(named('changed')).toHaveLength(1);
    expect(comments).toBe(2);
  });

  it('have the row of a worker made again only if the worker has changed', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    let made = 0;
    const counted = ['1', '2', '3'].map((id) => ({
      ...worker(id),
      get totalKvBlocks() {
        made++;
        return 100;
      },
    }));
    const loads = new Map(counted.map(({ id }) => [id, loadOf()]));
    setModels([model({ workers: counted })]);
    setLoads(loads);
    open.viewers.add(ALL, viewer().sink);
    made = 0;
    await clock.advance(3000);
    expect(made).toBe(0);
    setModels([model({ workers: [counted[0]!, { ...counted[1]!, endpoint: 'ns.c.other' }, counted[2]!] })]);
    made = 0;
    await clock.advance(3000);
    expect(made).toBeLessThanOrEqual(1); // the row before, to compare
  });

  it('get only the numbers of a worker whose load alone has changed', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    setModels(fleetOf(2).models);
    setLoads(new Map([['1', loadOf()]]));
    const { sink, named } = viewer();
    open.viewers.add(ALL, sink);
    setLoads(new Map([['1', loadOf({ requests: 9 })]]));
    await clock.advance(1000);
    setLoads(new Map([['1', loadOf({ requests: 9 }, true)]]));
    await clock.advance(1000);
    const [loaded, draining] = named('change') as ConsoleChange[];
    expect(loaded).toMatchObject({ workers: [], loads: [['1', 9, 10, 64]] });
    expect(draining).toMatchObject({ workers: [{ id: '1', state: 'draining', requests: 9 }], loads: [] });
  });

  it('let the loads of workers be read only while there are some, and for a minute after a question', async () => {
    const clock = new VirtualClock();
    const { open, watches } = openConsoleBed(clock);
    const leave = [open.viewers.add(ALL, viewer().sink), open.viewers.add(ALL, viewer().sink)];
    expect(watches()).toBe(1);
    for (const each of leave) each();
    expect(watches()).toBe(0);
    open.viewers.now(ALL);
    await clock.advance(30_000);
    open.viewers.now(ALL);
    await clock.advance(50_000);
    expect(watches()).toBe(1);
    await clock.advance(10_000);
    expect(watches()).toBe(0);
  });

  it('show the fleet at once, also if only viewers of requests have looked', () => {
    const { open, setModels } = openConsoleBed(new VirtualClock());
    setModels(fleetOf(2).models);
    open.viewers.add({ view: 'requests', filter: {} }, viewer().sink);
    const fleet = JSON.parse(open.viewers.now(ALL)) as ConsoleFleet;
    expect([fleet.models.length, fleet.workers.length]).toEqual([1, 2]);
  });

  it('that come between two looks do not keep a wait that is over at the next one', async () => {
    const clock = new VirtualClock();
    const { open, console } = openConsoleBed(clock);
    open.viewers.add(ALL, viewer().sink);
    await clock.advance(500);
    console.coldStarts.holding('letters', 1, false);
    const { sink, named } = viewer();
    open.viewers.add(ALL, sink);
    await clock.advance(100);
    console.coldStarts.holding('letters', 0, false);
    await clock.advance(1000);
    const [whole] = named('fleet') as ConsoleFleet[];
    const shown = (named('change') as ConsoleChange[]).reduce(
      (rows, each) => each.cold_starts ?? rows,
      whole?.cold_starts,
    );
    expect(shown).toEqual([]);
  });

  it('say that a worker is silent until it is not', async () => {
    const clock = new VirtualClock();
    const { open, console, setModels } = openConsoleBed(clock);
    setModels(fleetOf(1).models);
    const { sink, named } = viewer();
    open.viewers.add(ALL, sink);
    console.observer.workerStalled('letters', '1');
    await clock.advance(1000);
    console.observer.workerRecovered('letters', '1');
    await clock.advance(1000);
    const states = (named('change') as ConsoleChange[]).map(({ workers }) => workers[0]?.state);
    expect(states).toEqual(['stalled', 'ready']);
  });

  it('are cut off if they read nothing for a minute', async () => {
    const clock = new VirtualClock();
    const { open } = openConsoleBed(clock);
    const [frozen, slow] = [viewer(), viewer()];
    for (const each of [frozen, slow]) open.viewers.add(ALL, each.sink);
    for (const each of [frozen, slow]) each.state.isBehind = true;
    await clock.advance(50_000);
    slow.state.isBehind = false;
    await clock.advance(1000);
    slow.state.isBehind = true;
    await clock.advance(30_000);
    expect([frozen.state.isCut, slow.state.isCut]).toEqual([true, false]);
  });

  it('learn whose hour they see', async () => {
    const clock = new VirtualClock();
    const { open, console, setModels } = openConsoleBed(clock);
    setModels([model({ workers: [worker('1')] }), { ...model({ workers: [worker('1')] }), name: 'alias' }]);
    const hourOf = (name: string) =>
      (JSON.parse(open.viewers.now({ view: 'fleet', model: name })) as ConsoleFleet).hour.model;
    expect(hourOf('letters')).toBeNull();
    console.log.began({ endpoint: 'chat', xRequestId: 'x', key: undefined, receivedMs: 0 }).named('letters');
    expect(hourOf('letters')).toBe('letters');
    expect(hourOf('alias')).toBe('letters');
    expect(hourOf('other')).toBeNull();
  });

  it('give no hour to models without requests, so that one with requests gets it', () => {
    const { open, console, setModels } = openConsoleBed(new VirtualClock());
    const named = (name: string) => ({ ...model({ workers: [worker('1')] }), name, primaryName: name });
    setModels(Array.from({ length: 40 }, (_, at) => named(`m${at}`)));
    open.viewers.now(ALL);
    console.log.began({ endpoint: 'chat', xRequestId: 'x', key: undefined, receivedMs: 0 }).named('m39');
    const fleet = JSON.parse(open.viewers.now(ALL)) as ConsoleFleet;
    expect(fleet.models.filter(({ figures }) => figures !== null)).toMatchObject([{ name: 'm39' }]);
  });
});
