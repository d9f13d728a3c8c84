import { describe, expect, it } from 'vitest';
import { simulate } from '../../../shared/simulate/index.ts';
import type { RoutingMode } from '../../../shared/simulate/routers.ts';
import type { Simulation } from '../../../shared/simulate/simulate.ts';
import { summarize } from '../../../shared/simulate/summary.ts';
import { makeWorkload } from '../../../shared/simulate/synthetic.ts';
import type { Workload } from '../../../shared/simulate/workload.ts';
import { FINE_ENGINE, herd, mooncake, options, routersOf, SHARED_SESSIONS } from './simulation-bed.ts';

interface Given {
  readonly workload: Workload;
  readonly workers: number;
  readonly engine?: typeof FINE_ENGINE;
  readonly arrivalSpeedup?: number;
}

function play(mode: RoutingMode, routers: number, given: Given, asked = 4): Simulation {
  return simulate(options({ ...given, routing: routersOf(mode, routers, asked) }));
}

function busiestToMean({ ranks }: Simulation): number {
  const requests = ranks.map((rank) => rank.requests);
  return Math.max(...requests) / (requests.reduce((sum, count) => sum + count, 0) / requests.length);
}

describe('500 functions that do not see each other, with loads a second old', () => {
  it.each([
    ['all at once, the first request of each', 500, 400, 0.01],
    ['all at once, with hardly a word of their own', 500, 10, 0.01],
    ['for some seconds', 3000, 400, 1],
    ['for some seconds, with hardly a word of their own', 3000, 10, 1],
  ])('send no worker more than 2.5 times the mean: %s', (_, requests, words, arrivalIntervalMs) => {
    const given = { workload: herd(requests, words, arrivalIntervalMs), workers: 32, engine: FINE_ENGINE };
    for (const asked of [0, 4]) expect(busiestToMean(play('stateless', 500, given, asked))).toBeLessThanOrEqual(2.5);
  });
});

describe('50 functions with loads a second old, beside a resident', () => {
  const figures = (given: Given) => ({
    resident: summarize(play('kv', 1, given)),
    asking: summarize(play('stateless', 50, given)),
    roundRobin: summarize(play('round-robin', 1, given)),
  });

  it('come near it on sessions whose prompts are mostly shared', () => {
    const workload = makeWorkload({ ...SHARED_SESSIONS, lengthSpread: 0 });
    const given = { workload, workers: 8, engine: FINE_ENGINE };
    const { resident, roundRobin, asking } = figures(given);
    const hashing = summarize(play('stateless', 50, given, 0));
    for (const functions of [asking, hashing]) {
      expect(functions.hitRate).toBeGreaterThanOrEqual(0.95 * resident.hitRate);
      expect(functions.ttftMs.mean).toBeLessThanOrEqual(1.6 * resident.ttftMs.mean);
      expect(functions.ttftMs.mean).toBeLessThan(roundRobin.ttftMs.mean);
    }
    expect(asking.ttftMs.mean).toBeLessThanOrEqual(1.2 * resident.ttftMs.mean);
  });

  it('take on arrivals of ten at one instant at most half as long again, if workers answer them', () => {
    const workload = mooncake('conversation');
    const { resident, roundRobin, asking } = figures({ workload, workers: 8, arrivalSpeedup: 6 });
    expect(asking.hitRate).toBeGreaterThanOrEqual(0.85 * resident.hitRate);
    expect(asking.ttftMs.mean).toBeLessThanOrEqual(1.5 * resident.ttftMs.mean);
    expect(asking.ttftMs.mean).toBeLessThan(roundRobin.ttftMs.mean);
    const calm = { workload, workers: 8, arrivalSpeedup: 2 };
    const [askingMs, roundRobinMs] = [play('stateless', 50, calm), play('round-robin', 1, calm)].map(
      (run) => summarize(run).ttftMs.mean,
    );
    expect(askingMs).toBeLessThan(roundRobinMs as number);
  });
});
