import { afterEach, describe, expect, it } from 'vitest';
import { seededRandom, VirtualClock } from '../../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { createMemoryEventPlane } from '../../../../shared/planes/event/index.ts';
import { MemoryPlannerStore, parsePlannerConfig } from '../../../../shared/planner/index.ts';
import { FleetPlanner, LocalConnector } from '../../../../shared/planner/live/index.ts';
import type { TrafficTotals } from '../../../../shared/protocol/planner/index.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/planner-topics/index.ts';
import { captureLogger } from '../../../../shared/telemetry/index.ts';
import { heldAt, rollupOf } from '../../../support/planner/fleet-signals.ts';

const BEGIN_MS = 1_800_000_000_000;
const NEVER = new AbortController().signal;

interface BedOptions {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly readTraffic?: () => Promise<TrafficTotals | undefined>;
}

const open: FleetPlanner[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((planner) => planner.close()));
});

function bedOf({ config = {}, readTraffic }: BedOptions = {}) {
  const clock = new VirtualClock(BEGIN_MS);
  const random = seededRandom(1);
  const store = new MemoryPlannerStore({ wallMs: () => clock.wallMs() });
  const { logger, lines } = captureLogger();
  const told: string[] = [];
  const scaled: number[] = [];
  const workers = {
    ready: 0,
    starting: 0,
    startSeconds: undefined,
    scaleTo: (count: number) => void scaled.push(count),
  };
  const raw = { mode: 'agg', rate_requests_per_second: 10, min_endpoint: 0, start_seconds: 60, ...config };
  const planner = new FleetPlanner({
    planner: { config: parsePlannerConfig(raw), engines: { decode: { gpus: 1 } } },
    store,
    connector: new LocalConnector(workers),
    discovery: new MemoryDiscovery({ hub: new MemoryHub(clock), clock, random }),
    eventPlane: createMemoryEventPlane({ clock, random }),
    clock,
    random,
    logger,
    namespace: 'ns',
    ...(readTraffic === undefined ? {} : { readTraffic }),
    tell: (line) => void told.push(line),
  });
  open.push(planner);
  /** Lets happen what needs no time, and then `ms` pass. */
  const pass = async (ms = 0): Promise<void> => {
    for (let turn = 0; turn < 10; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(ms / 10);
    }
  };
  const decisions = () => store.decisions(planner.group ?? '', { sinceMs: 0 }, NEVER);
  return { clock, store, lines, told, scaled, workers, planner, pass, decisions };
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
