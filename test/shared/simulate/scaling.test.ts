import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import type { Targets } from '../../../shared/planner/index.ts';
import { simulate } from '../../../shared/simulate/index.ts';
import { PlannerPolicy } from '../../../shared/simulate/scaling/policies.ts';
import type { ScalingOptions, ScalingView } from '../../../shared/simulate/scaling/scaling.ts';
import type { SimulationOptions } from '../../../shared/simulate/simulate.ts';
import { summarize } from '../../../shared/simulate/summary.ts';
import { options, REFERENCE_ENGINE, routing, workloadOf } from './simulation-bed.ts';

const TARGETS = { ttftTargetMs: 500, itlTargetMs: 50 };

/** So many requests, one every so many milliseconds, each with answers of so many tokens. */
function steady(count: number, everyMs: number, outputTokens: number) {
  return workloadOf(
    Array.from({ length: count }, (_, at) => ({ arrivalMs: at * everyMs, inputTokens: 400, outputTokens })),
  );
}

function scaled(
  decide: (nowMs: number) => Targets | undefined,
  given: Partial<ScalingOptions>,
  rest: Partial<SimulationOptions> & Pick<SimulationOptions, 'workload'>,
) {
  const policy = { tickMs: 1000, decide: ({ nowMs }: { readonly nowMs: number }) => decide(nowMs) };
  const simulation = simulate(options({ ...rest, scaling: { policy, startMs: 10_000, ...TARGETS, ...given } }));
  return { simulation, summary: summarize(simulation), scaling: summarize(simulation).scaling! };
}

describe('a fleet whose workers come and go', () => {
  it('pays a worker from its decision, and has it serve when it has started', () => {
    const workload = steady(100, 1000, 10);
    const { summary, simulation } = scaled((now) => ({ decode: now >= 20_000 ? 2 : 1 }), {}, { workload });
    const points = simulation.scaling!.points;
    expect(points.find(({ starting }) => starting > 0)?.atMs).toBe(21_000);
    expect(points.find(({ ready }) => ready === 2)?.atMs).toBe(31_000); // told one tick later
    expect(3600 * summary.gpuHours).toBeCloseTo(2 * (simulation.durationMs / 1000) - 20, 0);
  });

  it('holds requests that come while no worker serves, and answers them', () => {
    const workload = steady(20, 100, 10);
    const { summary, scaling } = scaled((now) => ({ decode: now >= 5000 ? 1 : 0 }), {}, { workload, workers: 0 });
    expect(summary.requests).toBe(20);
    expect(scaling.heldMax).toBe(20);
    expect(summary.ttftMs.p50).toBeGreaterThan(12_000);
    expect(scaling.attainment).toBe(0);
  });

  it.each([
    ['nothing, however many come while passes run', 256, 0],
    ['those for whom there was no room', 2, 58],
  ])('engines report with their passes as waiting: %s', (_, maxNumSeqs, most) => {
    const queued: number[] = [];
    const decide = ({ pools }: ScalingView): undefined => {
      const [worker] = pools.decode!.pool.workers;
      queued.push(worker!.ranks[0]!.lastPass?.queuedPrefillRequests ?? 0);
    };
    const engine = { ...REFERENCE_ENGINE, maxNumSeqs };
    scaled(() => undefined, { policy: { tickMs: 7, decide } }, { engine, workload: steady(60, 10, 200) });
    expect(Math.max(...queued)).toBe(most);
  });

  it("counts what waits in routers' queues as held: new workers can take it", () => {
    const workload = steady(60, 10, 200);
    const busy = { engine: { ...REFERENCE_ENGINE, maxNumBatchedTokens: 512 }, workload };
    const told: number[] = [];
    const played = (threshold: number | undefined) => {
      const policy = {
        tickMs: 100,
        decide: ({ pools }: ScalingView) => {
          told.push(pools.decode!.held);
          return undefined;
        },
      };
      const kv = routing('kv', { queueThreshold: threshold });
      const { scaling } = scaled(() => undefined, { policy }, { ...busy, routing: kv });
      return scaling.heldMax;
    };
    expect(played(undefined)).toBe(0);
    expect(told.every((held) => held === 0)).toBe(true);
    expect(played(0)).toBeGreaterThan(20);
    expect(Math.max(...told)).toBeGreaterThan(20);
    expect(told.at(-1)).toBe(0);
  });

  it('turns away what it cannot hold', () => {
    const workload = steady(20, 100, 10);
    const { summary } = scaled((now) => ({ decode: now >= 5000 ? 1 : 0 }), { heldMax: 8 }, { workload, workers: 0 });
    expect([summary.requests, summary.refused]).toEqual([8, 12]);
  });

  it('starts again what failed to start, and says how often', () => {
    const workload = steady(600, 1000, 10);
    const { scaling, simulation } = scaled(() => ({ decode: 4 }), { startFailures: 0.5 }, { workload });
    expect(scaling.failures).toBeGreaterThan(0);
    expect(simulation.scaling!.points.at(-1)?.ready).toBe(4);
  });

  it('calls off what starts before it stops what serves', () => {
    const workload = steady(60, 1000, 10);
    const { simulation } = scaled((now) => ({ decode: now < 5000 ? 3 : 1 }), {}, { workload });
    const { points } = simulation.scaling!;
    expect(points.every(({ ready }) => ready === 1)).toBe(true);
    expect(points.some(({ starting }) => starting === 2)).toBe(true);
    expect(points.at(-1)?.starting).toBe(0);
  });

  it('sends spares first, which cost while they wait', () => {
    const workload = steady(100, 1000, 10);
    const grow = (now: number) => ({ decode: now >= 20_000 ? 3 : 1 });
    const spares = scaled(grow, { warmWorkers: 1, warmStartMs: 2000 }, { workload });
    const ready = (count: number) => spares.simulation.scaling!.points.find((point) => point.ready === count)?.atMs;
    expect([ready(2), ready(3)]).toEqual([23_000, 31_000]);
    const none = scaled(grow, {}, { workload });
    expect(3600 * (spares.summary.gpuHours - none.summary.gpuHours)).toBeCloseTo(20, 0);
  });
});

describe('workers with two minutes of notice', () => {
  it('end what they can, and what is left goes on elsewhere from where it was cut', () => {
    const workload = steady(60, 1000, 30_000); // three minutes and more each
    const { simulation, summary, scaling } = scaled(
      () => ({ decode: 4 }),
      { interruptionsPerHour: 6 },
      { workload, workers: 4 },
    );
    expect(summary.requests).toBe(60);
    expect(scaling.interruptions).toBeGreaterThan(2);
    expect(scaling.moved).toBeGreaterThan(0);
    // Nobody waits for a first token twice, and nobody makes a token twice.
    expect(Math.max(...simulation.ttftMs)).toBeLessThan(5000);
    expect(Math.max(...simulation.e2eMs)).toBeLessThan(30_000 * 20);
  });

  it("are replaced by Dynamo's laws too, though the last one no longer reports its passes", () => {
    const config = parsePlannerConfig({ mode: 'agg', law: 'latency', min_endpoint: 2 });
    const policy = new PlannerPolicy({ config, engines: { decode: { gpus: 1 } } }, 10_000);
    const { simulation, scaling } = scaled(
      () => undefined,
      { policy, interruptionsPerHour: 12 },
      { workload: steady(900, 1000, 10), workers: 2 },
    );
    expect(scaling.interruptions).toBeGreaterThan(4);
    const missing = simulation.scaling!.points.filter(({ ready, starting }) => ready + starting < 2);
    expect(missing.length).toBeLessThanOrEqual(scaling.interruptions); // until the next tick, that is
  });

  it('lose no request in one pool or two, whatever goes and comes', () => {
    const transfer = { bytesPerToken: 1000, bandwidthGbps: 1, movesMissingOnly: false };
    const anyFleet = fc.record({
      isApart: fc.boolean(),
      mode: fc.constantFrom('kv' as const, 'round-robin' as const),
      notices: fc.integer({ min: 0, max: 60 }),
      failures: fc.constantFrom(0, 0.5),
      targets: fc.array(fc.record({ prefill: fc.nat(3), decode: fc.nat(3) }), { minLength: 1, maxLength: 12 }),
      outputTokens: fc.constantFrom(10, 20_000),
      seed: fc.nat(1000),
    });
    fc.assert(
      fc.property(anyFleet, ({ isApart, mode, notices, failures, targets, outputTokens, seed }) => {
        const workload = steady(40, 3000, outputTokens);
        const prefill = isApart ? { workers: 1, dataParallelSize: 1, engine: REFERENCE_ENGINE, transfer } : undefined;
        // In the end there is somebody.
        const decide = (now: number) => targets[Math.floor(now / 20_000)] ?? { prefill: 2, decode: 2 };
        const { simulation, summary } = scaled(
          decide,
          { interruptionsPerHour: notices, startFailures: failures },
          { workload, workers: 1, prefill, routing: routing(mode), seed },
        );
        expect(summary.requests + summary.refused).toBe(40);
        expect(summary.refused).toBe(0);
        simulation.e2eMs.forEach((e2eMs, at) => {
          expect(e2eMs).toBeGreaterThanOrEqual(simulation.ttftMs[at]!);
        });
        for (const rank of simulation.ranks) expect(rank.isIdle).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});
