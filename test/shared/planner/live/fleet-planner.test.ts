import { afterEach, describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../../shared/planner/config.ts';
import {
  createPlannerMetrics,
  type DecisionRecord,
  type FleetPlanner,
  LocalConnector,
} from '../../../../shared/planner/index.ts';
import { NO_TRAFFIC, ROLLUP_TOPIC } from '../../../../shared/protocol/index.ts';
import { MetricRegistry } from '../../../../shared/telemetry/index.ts';
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

  it('needs no passes if a rate was measured for each of two pools, and names the rate that is missing', async () => {
    const common = { mode: 'disagg', rate_requests_per_second: null, rate_prefill_requests_per_second: 4 };
    const complete = bedOf({ config: { ...common, rate_decode_requests_per_second: 2 } });
    const running = complete.planner.run();
    complete.planner.hear(rollupOf(0, 0, NO_TRAFFIC, BEGIN_MS));
    await complete.pass();
    await complete.planner.close();
    await running;
    const { planner, pass } = bedOf({ config: common });
    const ended = expect(planner.run()).rejects.toThrow(
      `'{"rate_decode_requests_per_second": N}' says what one serves`,
    );
    planner.hear(rollupOf(0, 0, NO_TRAFFIC, BEGIN_MS));
    await pass();
    await ended;
  });

  it('logs each problem of a decision, once', async () => {
    let failed: string | undefined;
    const scaled = { ready: 0, starting: 0, startSeconds: undefined, scaleTo: () => {} };
    const connector = Object.assign(new LocalConnector(scaled), {
      apply: async () => (failed === undefined ? 'waiting' : { failed }),
    });
    const statuses: string[] = [];
    const counted = createPlannerMetrics(new MetricRegistry(), parsePlannerConfig({}), () => 1, 'ns');
    const metrics = { ...counted, acted: ({ status }: DecisionRecord) => void statuses.push(status) };
    const { planner, pass, lines } = bedOf({ connector, metrics });
    void planner.run();
    planner.hear(heldAt(0, 0).signal);
    await pass(1000);
    for (const code of ['AccessDenied', 'UnknownOption']) {
      failed = code;
      await pass(20_000);
    }
    expect(lines.flatMap(({ fields }) => fields.code ?? [])).toEqual(['AccessDenied', 'UnknownOption']);
    expect(statuses).toEqual(['APPLYING']);
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

describe('a planner that hears no process', () => {
  const NOBODY = 'no worker or frontend has been heard for 30 s: nothing is decided by what they serve';
  const bedOfEars = (options: FleetPlannerBedOptions = {}) => {
    let unheard = 0;
    const metrics = { ...createPlannerMetrics(new MetricRegistry(), parsePlannerConfig({}), () => 1, 'ns') };
    const bed = bedOf({ ...options, metrics: { ...metrics, unheard: () => unheard++ } });
    const told = () => bed.lines.map(({ level, message }) => `${level}: ${message}`);
    const seconds = async (count: number): Promise<void> => {
      for (let at = 0; at < count; at += 5) await bed.pass(5000);
    };
    return { ...bed, told, seconds, unheard: () => unheard };
  };

  it('says so once half a minute is over and counts its ticks from then on, and says whom it hears first', async () => {
    const { planner, lines, told, seconds, unheard } = bedOfEars();
    void planner.run();
    await seconds(25);
    expect(told()).toEqual([]);
    await seconds(20);
    expect(new Set(told())).toEqual(new Set([`warn: ${NOBODY}`]));
    expect(lines[0]?.fields).toMatchObject({ namespace: 'ns', workers_found: 0 });
    expect(unheard()).toBeGreaterThan(2);
    planner.hear(rollupOf(0, 0, NO_TRAFFIC, BEGIN_MS));
    expect(told().at(-1)).toBe('info: the first worker or frontend is heard');
    const before = unheard();
    await seconds(300); // no worker is left that could say anything
    expect(unheard()).toBe(before);
  });

  it('says so at once where discovery is of this process alone', async () => {
    const { planner, told, pass, unheard } = bedOfEars({ isAlone: true });
    void planner.run();
    await pass();
    expect(told()).toEqual([
      expect.stringMatching(/^warn: no worker or frontend can be heard: --discovery-backend mem .*allowed: file/),
    ]);
    expect(unheard()).toBe(1);
  });

  it('names the models that it hears instead of its own', async () => {
    const { planner, lines, seconds } = bedOfEars({ model: 'sought' });
    void planner.run();
    for (let at = 0; at < 100; at++) planner.hear({ ...heldAt(0, at).signal, model: `other-${at}${'x'.repeat(200)}` });
    await seconds(40);
    const { other_models: others, model } = lines.at(-1)?.fields ?? {};
    expect(model).toBe('sought');
    expect(`${others}`.split(', ')).toHaveLength(8);
    expect(`${others}`.length).toBeLessThan(1000);
  });

  it('waits for workers that are starting', async () => {
    const { planner, workers, told, seconds } = bedOfEars();
    workers.starting = 1;
    void planner.run();
    await seconds(600);
    expect(told()).toEqual([]);
    workers.ready = 1;
    workers.starting = 0;
    await seconds(45);
    expect(told()[0]).toBe(`warn: ${NOBODY}`);
  });

  it('says when workers that are there fall silent, and when they speak again', async () => {
    const { planner, told, seconds, discovery } = bedOfEars();
    void planner.run();
    const ids = { instance_id: '1', worker_id: '1' };
    const scope = { kind: 'namespace', namespace: 'ns' } as const;
    const channel = {
      type: 'EventChannel',
      scope,
      topic: ROLLUP_TOPIC,
      transport: { kind: 'Memory', config: {} },
      ...ids,
    } as const;
    await discovery.put(channel);
    planner.hear(rollupOf(0, 0, NO_TRAFFIC, BEGIN_MS));
    await seconds(85);
    expect(told()).toEqual(['info: the first worker or frontend is heard']);
    await seconds(20);
    expect(told().at(-1)).toBe('warn: no worker or frontend has been heard for 90 s');
    planner.hear(rollupOf(0, 1, NO_TRAFFIC, BEGIN_MS + 105_000));
    expect(told().at(-1)).toBe('info: a worker or frontend is heard again');
    await discovery.remove(channel);
    await seconds(300);
    expect(told().at(-1)).toBe('info: a worker or frontend is heard again');
  });
});
