import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { simulate } from '../../../shared/simulate/index.ts';
import type { RoutingMode } from '../../../shared/simulate/routers.ts';
import type { Simulation, SimulationOptions } from '../../../shared/simulate/simulate.ts';
import { summarize } from '../../../shared/simulate/summary.ts';
import type { Workload } from '../../../shared/simulate/workload.ts';
import { mooncake, options, REFERENCE_ENGINE, routing, workloadOf } from './simulation-bed.ts';

/** 1 GB/s and 1,000 bytes a token: a microsecond each. */
const LINK = { bytesPerToken: 1000, bandwidthGbps: 1, movesMissingOnly: false };

function apart(
  given: Partial<SimulationOptions> & { readonly workload: Workload },
  prefillWorkers = 1,
): SimulationOptions {
  const prefill = { workers: prefillWorkers, dataParallelSize: 1, engine: REFERENCE_ENGINE, transfer: LINK };
  return options({ prefill, ...given });
}

function figures(simulation: Simulation): unknown {
  const { stages, ttftMs, e2eMs, durationMs } = simulation;
  return { durationMs, ttftMs: [...ttftMs], e2eMs: [...e2eMs], transferMs: [...(stages?.transferMs ?? [])] };
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

describe('one request in a fleet of two pools', () => {
  it('waits for its prefill, its blocks, and a decode step', () => {
    const { ttftMs, e2eMs, stages } = simulate(
      apart({ workload: workloadOf([{ inputTokens: 1000, outputTokens: 3 }]) }),
    );
    expect(stages?.prefillMs[0]).toBeCloseTo(32.1059, 4);
    expect(stages?.transferMs[0]).toBeCloseTo(1, 9);
    const stepMs = ttftMs[0]! - 33.1059;
    expect(stepMs).toBeCloseTo(5.79, 2);
    expect(e2eMs[0]! - ttftMs[0]!).toBeCloseTo(2 * stepMs, 1);
  });

  it('moves only what the decode worker does not have, if the settings say so', () => {
    const prompt = { inputTokens: 2048, segmentIds: [1, 2, 3, 4] };
    const workload = workloadOf([prompt, { ...prompt, arrivalMs: 10_000 }]);
    const prefill = { workers: 1, dataParallelSize: 1, engine: REFERENCE_ENGINE };
    const transferOf = (movesMissingOnly: boolean) => [
      ...simulate(apart({ workload, prefill: { ...prefill, transfer: { ...LINK, movesMissingOnly } } })).stages!
        .transferMs,
    ];
    expect(transferOf(false)).toEqual([2.048, 2.048]);
    expect(transferOf(true)).toEqual([2.048, 0.512]); // the last block is never a hit
  });

  it('takes no time on the way where there is no bandwidth to model', () => {
    const prefill = {
      workers: 1,
      dataParallelSize: 1,
      engine: REFERENCE_ENGINE,
      transfer: { ...LINK, bandwidthGbps: 0 },
    };
    const { stages } = simulate(apart({ workload: workloadOf([{ inputTokens: 1000 }]), prefill }));
    expect(stages?.transferMs[0]).toBe(0);
  });

  it('finds its prompt where it was computed before', () => {
    const prompt = { inputTokens: 4096, segmentIds: [1, 2, 3, 4, 5, 6, 7, 8] };
    const workload = workloadOf([0, 1, 2, 3].map((at) => ({ ...prompt, arrivalMs: 10_000 * at })));
    const { cachedTokens, ranks } = simulate(apart({ workload, workers: 2, routing: routing('kv') }, 2));
    expect([...cachedTokens]).toEqual([0, 3584, 3584, 3584]);
    expect(
      ranks
        .filter(({ role }) => role === 'prefill')
        .map(({ requests }) => requests)
        .sort(),
    ).toEqual([0, 4]);
  });

  it('holds its blocks until they have crossed, and no request computes in their place', () => {
    const engine = { ...REFERENCE_ENGINE, numGpuBlocks: 4 };
    const transfer = { ...LINK, bandwidthGbps: 0.001 }; // 1 ms a token
    const prefill = { workers: 1, dataParallelSize: 1, engine, transfer };
    const workload = workloadOf([{ inputTokens: 1600 }, { inputTokens: 1600 }]);
    const { stages } = simulate(apart({ workload, prefill }));
    expect(stages?.prefillMs[1]).toBeGreaterThan(1600); // the first one's blocks leave no room for it
  });

  it('is refused where one of the pools cannot hold it', () => {
    const small = { ...REFERENCE_ENGINE, numGpuBlocks: 4 };
    const workload = workloadOf([{ inputTokens: 4000 }, { inputTokens: 1000 }]);
    expect(simulate(apart({ workload, engine: small })).refused).toBe(1);
    const prefill = { workers: 1, dataParallelSize: 1, engine: small, transfer: LINK };
    expect(simulate(apart({ workload, prefill })).refused).toBe(1);
  });
});

describe('a fleet of two pools', () => {
  it('does the same for the same seed, and something else for another', () => {
    const workload = mooncake('conversation');
    const run = (seed: number) =>
      simulate(apart({ workload, workers: 3, arrivalSpeedup: 4, routing: routing('kv'), seed }, 3));
    const once = figures(run(1));
    expect(figures(run(1))).toEqual(once);
    expect(figures(run(2))).not.toEqual(once);
  });

  it('keeps the gaps between tokens even, which prompts on the same workers do not', () => {
    const workload = mooncake('conversation');
    const itl = (simulation: Simulation): number => summarize(simulation).itlMs.p99;
    const split = simulate(apart({ workload, workers: 2, arrivalSpeedup: 2 }, 2));
    const mixed = simulate(options({ workload, workers: 4, arrivalSpeedup: 2 }));
    expect(itl(split)).toBeLessThan(itl(mixed) / 2);
  });

  const MODES: readonly RoutingMode[] = ['round-robin', 'random', 'power-of-two', 'least-loaded', 'load-aware', 'kv'];

  it.each(MODES)('adds up, whatever it serves and however it is routed: %s', (mode) => {
    const request = fc.record({
      arrivalMs: fc.constant(0),
      inputTokens: fc.integer({ min: 1, max: 3000 }),
      outputTokens: fc.integer({ min: 1, max: 60 }),
      group: fc.nat(3),
      gapMs: fc.nat(60),
    });
    const fleet = fc.record({
      requests: fc.array(request, { minLength: 1, maxLength: 60 }),
      prefillWorkers: fc.integer({ min: 1, max: 3 }),
      workers: fc.integer({ min: 1, max: 3 }),
      ranks: fc.integer({ min: 1, max: 2 }),
      blocks: fc.integer({ min: 5, max: 40 }),
      routers: fc.integer({ min: 1, max: 2 }),
      bandwidthGbps: fc.constantFrom(0, 0.01, 1),
      engineType: fc.constantFrom('vllm', 'sglang', 'trtllm'),
      concurrency: fc.constantFrom(undefined, 3),
    });
    fc.assert(
      fc.property(fleet, (made) => {
        let arrivalMs = 0;
        const requests = made.requests.map(({ inputTokens, outputTokens, group, gapMs }) => {
          arrivalMs += gapMs;
          const segmentIds = Array.from({ length: Math.ceil(inputTokens / 512) }, (_, at) => 100 * group + at);
          return { arrivalMs, inputTokens, outputTokens, segmentIds };
        });
        const engine = { ...REFERENCE_ENGINE, numGpuBlocks: made.blocks, engineType: made.engineType } as const;
        const prefill = {
          workers: made.prefillWorkers,
          dataParallelSize: made.ranks,
          engine,
          transfer: { ...LINK, bandwidthGbps: made.bandwidthGbps },
        };
        const simulation = simulate(
          options({
            workload: workloadOf(requests),
            prefill,
            engine,
            workers: made.workers,
            concurrency: made.concurrency,
            routing: { ...routing(mode), routers: made.routers },
          }),
        );
        expectTotals(simulation, requests);
      }),
      { numRuns: 60 },
    );
  });
});

function expectTotals(
  simulation: Simulation,
  requests: readonly { readonly inputTokens: number; readonly outputTokens: number }[],
): void {
  const { ttftMs, e2eMs, stages, ranks, gaps, durationMs, refused } = simulation;
  const { requests: count, disaggregation, queueMs, preemptions } = summarize(simulation);
  const answered = requests.filter((_, at) => !Number.isNaN(ttftMs[at]!));
  const inputTokens = sum(answered.map((request) => request.inputTokens));
  const outputTokens = sum(answered.map((request) => request.outputTokens));
  expect(count + refused).toBe(requests.length);
  expect(answered).toHaveLength(count);
  expect(disaggregation?.prefill).toMatchObject({ requests: count, promptTokens: inputTokens, outputTokens: count });
  expect(disaggregation?.decode).toMatchObject({ requests: count, promptTokens: inputTokens, outputTokens });
  expect(preemptions).toBe((disaggregation?.prefill.preemptions ?? 0) + (disaggregation?.decode.preemptions ?? 0));
  expect(gaps.count).toBe(outputTokens - count);
  requests.forEach((_, at) => {
    if (Number.isNaN(ttftMs[at]!)) return;
    const partsMs = stages!.prefillMs[at]! + stages!.decodeQueuedMs[at]! + stages!.transferMs[at]!;
    expect(ttftMs[at]).toBeGreaterThan(partsMs); // and at least one decode step
    expect(e2eMs[at]).toBeGreaterThanOrEqual(ttftMs[at]!);
  });
  expect(queueMs.mean).toBeGreaterThanOrEqual((disaggregation?.decodeQueueMs.mean ?? 0) - 1e-9);
  for (const { busyMs, activeBlocks } of ranks) {
    expect(busyMs).toBeLessThanOrEqual(durationMs + 1e-6);
    expect(activeBlocks).toBe(0);
  }
}
