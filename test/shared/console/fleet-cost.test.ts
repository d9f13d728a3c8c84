import { describe, expect, it } from 'vitest';
import { costOf } from '../../../shared/console/fleet-cost.ts';
import type { ConsoleChange, ConsoleFleet } from '../../../shared/console/wire/fleet.ts';
import type { EndpointRecord } from '../../../shared/discovery/index.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const PRICES = [
  { type: 'g6e.xlarge', market: 'on-demand', hourUsd: 1.5 },
  { type: 'g6e.xlarge', market: 'spot', hourUsd: 0.5 },
] as const;
const ALL = { view: 'fleet', model: undefined } as const;

function recordOf(id: string, machine: string, market?: string): EndpointRecord {
  const host = {
    instance_id: machine,
    instance_type: 'g6e.xlarge',
    ...(market === undefined ? {} : { market }),
  };
  const address = { namespace: 'ns', component: 'c', endpoint: 'e', instance_id: id };
  return { type: 'Endpoint', ...address, transport: {}, host };
}

describe('the cost of a fleet', () => {
  it('is the sum of the machines with a known price, each once, whatever workers are on it', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setInstances } = openConsoleBed(clock, 10, { prices: PRICES });
    const records = [recordOf('1', 'i-1', 'spot'), recordOf('2', 'i-1', 'spot'), recordOf('3', 'i-2', 'on-demand')];
    const { host: _, ...control } = { ...recordOf('1', 'i-1'), endpoint: 'z' };
    setInstances([...records, recordOf('4', 'i-3', 'capacity-block'), control]);
    setModels([model({ workers: ['1', '2', '3', '4', '5'].map(worker) })]);
    const events: string[] = [];
    open.viewers.add(ALL, { send: (text) => void events.push(text), isBehind: () => false, breakOff: () => {} });
    const dataOf = (text = '') => JSON.parse(text.split('\ndata: ')[1] ?? '');
    expect((dataOf(events[0]) as ConsoleFleet).cost).toEqual({
      hour_usd: 2,
      types: [
        { type: 'g6e.xlarge', market: 'spot', machines: 1, hour_usd: 0.5 },
        { type: 'g6e.xlarge', market: 'on-demand', machines: 1, hour_usd: 1.5 },
        { type: 'g6e.xlarge', market: 'capacity-block', machines: 1, hour_usd: null },
      ],
      workers_without_machine: 1,
    });
    setModels([model({ workers: ['3'].map(worker) })]);
    await clock.advance(1000);
    expect((dataOf(events[1]) as ConsoleChange).cost).toMatchObject({ hour_usd: 1.5, workers_without_machine: 0 });
    await clock.advance(1000);
    expect((dataOf(events[2]) as ConsoleChange).cost).toBeUndefined();
  });

  it('counts the machines of workers that are not shown, too', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setInstances, setLoads } = openConsoleBed(clock, 10, { prices: PRICES });
    const ids = Array.from({ length: 4100 }, (_, at) => String(at));
    const records = ids.map((id) => recordOf(id, `i-${id}`, 'spot'));
    const load = { ranks: [{ dpRank: 0, requests: 1, decodeBlocks: 0, prefillTokens: 0 }], isDraining: false };
    setInstances(records.slice(0, -1));
    setModels([model({ workers: ids.map(worker) })]);
    setLoads(new Map(ids.map((id) => [id, load] as const)));
    const seen = (): ConsoleFleet => JSON.parse(open.viewers.now(ALL));
    seen();
    const first = seen();
    expect(first.workers_left_out).toBe(4);
    expect(first.cost).toMatchObject({ hour_usd: 4099 * 0.5, workers_without_machine: 1 });
    expect(first.frontends.worker_requests).toBe(4100);
    setInstances(records);
    expect(seen().cost).toMatchObject({ hour_usd: 4100 * 0.5, workers_without_machine: 0 });
  });

  it('is unknown without prices, and for a machine whose market is not stated', () => {
    const host = { instance_id: 'i-1', instance_type: 'g6e.xlarge' };
    expect(costOf([host], 0, PRICES)).toMatchObject({ hour_usd: null, types: [{ market: null, hour_usd: null }] });
    expect(costOf([{ ...host, market: 'spot' }], 0, []).hour_usd).toBeNull();
  });
});

describe('the frontends', () => {
  it('are this one and the other routers with their bookings, beside what workers report', () => {
    const bookings = new Map(Array.from({ length: 70 }, (_, at) => [`r${at}`, at]));
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock, 10, { peers: () => ({ routerId: 'aa', bookings }) });
    setModels([model({ workers: ['1', '2', '3'].map(worker) })]);
    const load = { ranks: [{ dpRank: 0, requests: 4, decodeBlocks: 0, prefillTokens: 0 }], isDraining: false };
    setLoads(new Map([['1', load] as const, ['2', load] as const]));
    open.viewers.now(ALL);
    const { frontend, frontends } = JSON.parse(open.viewers.now(ALL)) as ConsoleFleet;
    expect(frontend).toMatchObject({ host: 'h', pid: 7 });
    expect(frontends).toMatchObject({ router_id: 'aa', worker_requests: 8, left_out: 6 });
    expect(frontends.others?.slice(0, 2)).toEqual([
      { router_id: 'r69', bookings: 69 },
      { router_id: 'r68', bookings: 68 },
    ]);
  });

  it('are not known if routers do not tell each other', () => {
    const { open } = openConsoleBed(new VirtualClock(), 10, {});
    const { frontends } = JSON.parse(open.viewers.now(ALL)) as ConsoleFleet;
    expect(frontends).toEqual({ router_id: null, worker_requests: null, others: null, left_out: 0 });
  });
});
