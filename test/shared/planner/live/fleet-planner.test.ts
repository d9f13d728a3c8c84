import { afterEach, describe, expect, it } from 'vitest';
import type { FleetPlanner } from '../../../../shared/planner/index.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';
import { type FleetPlannerBedOptions, fleetPlannerBed } from '../../../support/planner/fleet-planner-bed.ts';
import { heldAt, rollupOf } from '../../../support/planner/fleet-signals.ts';

const BEGIN_MS = 1_800_000_000_000;
const NEVER = new AbortController().signal;

const open: FleetPlanner[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((planner) => planner.close()));
});

function bedOf(options: FleetPlannerBedOptions = {}) {
  const bed = fleetPlannerBed(options);
  const { planner, store } = bed;
  open.push(planner);
  const decisions = () => store.decisions(planner.group ?? '', { sinceMs: 0 }, NEVER);
  return { ...bed, decisions };
}

describe('the planner of a fleet', () => {
  it('plans for the first model of its namespace that it hears, and for no other', async () => {
    const { planner, lines } = bedOf();
    planner.hear({ ...heldAt(0, 0).signal, namespace: 'another' });
    expect(planner.model).toBeUndefined();
    planner.hear({ type: 'request.held', v: 1 });
    expect(lines).toMatchObject([{ level: 'warn', message: 'an event was refused' }]);
    planner.hear(heldAt(0, 0).signal);
    planner.hear({ ...heldAt(0, 1).signal, model: 'other' });
    expect(planner.model).toBe('m');
  });

  it('refuses a law that the engines it hears cannot serve, by name', async () => {
    const { planner, pass } = bedOf({ config: { law: 'sla' } });
    const ended = expect(planner.run()).rejects.toThrow(
      /law sla asks for that, and the engine of worker w0+ does not say/,
    );
    planner.hear(rollupOf(0, 0, NO_TRAFFIC, BEGIN_MS));
    await pass();
    await ended;
  });

  it('holds the fleet while the traffic that is counted elsewhere cannot be read', async () => {
    let started: number | undefined = 0;
    const readTraffic = async () => (started === undefined ? undefined : { ...NO_TRAFFIC, started });
    const { planner, pass, workers, decisions } = bedOf({ readTraffic });
    workers.ready = 1;
    void planner.run();
    const second = async (at: number): Promise<void> => {
      if (at % 5 === 0) planner.hear(rollupOf(0, at / 5, NO_TRAFFIC, BEGIN_MS + at * 1000)); // its own counts say: nothing
      await pass(1000);
    };
    for (let at = 0; at < 40; at++) {
      if (started !== undefined) started += 30;
      await second(at);
    }
    const before = await decisions();
    expect(before[0]?.targets.decode).toBeGreaterThan(2);
    started = undefined;
    for (let at = 40; at < 400; at++) await second(at); // longer than what was needed is remembered
    const after = await decisions();
    expect(Math.min(...after.map(({ targets }) => targets.decode ?? 9))).toBeGreaterThan(2);
  });
});
