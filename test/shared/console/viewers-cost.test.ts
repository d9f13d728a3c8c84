import { describe, expect, it } from 'vitest';
import { openConsoleBed } from '../../support/console-bed.ts';
import { countSteps } from '../../support/count-steps.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const ALL = { view: 'fleet', model: undefined } as const;
const LOAD = { ranks: [{ dpRank: 0, requests: 3, decodeBlocks: 10, prefillTokens: 64 }], isDraining: false };
const SINK = { send: () => {}, isBehind: () => false, breakOff: () => {} };

const IDS = Array.from({ length: 1000 }, (_, at) => (at + 1).toString(16));

describe('a change of 1,000 workers', () => {
  it('costs a few steps while no client looks', async () => {
    const { setModels } = openConsoleBed(new VirtualClock());
    const workers = IDS.map(worker);
    const models = [1, 2].map((size) => [model({ workers: workers.slice(size) })]);
    expect(await countSteps(() => setModels(models[0]!))).toBeLessThan(200);
    expect(await countSteps(() => setModels(models[1]!))).toBeLessThan(200);
  });
});

describe('one look at 1,000 workers', () => {
  it('does not look at workers if nothing has changed, and costs no more for further viewers', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    setModels([model({ workers: IDS.map(worker) })]);
    setLoads(new Map(IDS.map((id) => [id, LOAD])));
    const leave = open.viewers.add(ALL, SINK);
    const look = () => countSteps(() => clock.advance(1000));
    await look();
    const one = await look();
    expect(one).toBeLessThan(1000);
    const viewers = Array.from({ length: 20 }, () => open.viewers.add(ALL, SINK));
    const many = await look();
    expect(many - one).toBeLessThan(20 * 100);
    for (const each of [leave, ...viewers]) each();
  });

  it('costs a few steps for each worker whose load has changed', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    setModels([model({ workers: IDS.map(worker) })]);
    const leave = open.viewers.add(ALL, SINK);
    const look = (requests: number) => {
      setLoads(new Map(IDS.map((id) => [id, { ...LOAD, ranks: [{ ...LOAD.ranks[0]!, requests }] }])));
      return countSteps(() => clock.advance(1000));
    };
    await look(1);
    expect(await look(2)).toBeLessThan(10_000);
    leave();
  });
});
