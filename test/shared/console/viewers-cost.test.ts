import { describe, expect, it } from 'vitest';
import { openConsoleBed } from '../../support/console-bed.ts';
import { countSteps } from '../../support/count-steps.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { model, worker } from '../pipeline/fixtures.ts';

const ALL = { view: 'fleet', model: undefined } as const;
const LOAD = { ranks: [{ dpRank: 0, requests: 3, decodeBlocks: 10, prefillTokens: 64 }], isDraining: false };
const SINK = { send: () => {}, isBehind: () => false, breakOff: () => {} };

describe('one look at 1,000 workers', () => {
  it('costs a few steps for each worker that has not changed, and no more for further viewers', async () => {
    const clock = new VirtualClock();
    const { open, setModels, setLoads } = openConsoleBed(clock);
    const ids = Array.from({ length: 1000 }, (_, at) => (at + 1).toString(16));
    setModels([model({ workers: ids.map(worker) })]);
    setLoads(new Map(ids.map((id) => [id, LOAD])));
    const leave = open.viewers.add(ALL, SINK);
    const look = () => countSteps(() => clock.advance(1000));
    await look();
    const one = await look();
    expect(one).toBeLessThan(20_000);
    const viewers = Array.from({ length: 20 }, () => open.viewers.add(ALL, SINK));
    const many = await look();
    expect(many - one).toBeLessThan(20 * 100);
    for (const each of [leave, ...viewers]) each();
  });
});
