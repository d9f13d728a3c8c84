import { describe, expect, it } from 'vitest';
import { kvRouterConfig } from '../../../shared/router/scheduler/index.ts';
import {
  type RoutingMode,
  type Simulation,
  simulate,
  summarize,
  type Workload,
} from '../../../shared/simulate/index.ts';
import { makeWorkload, type SyntheticOptions } from '../../../shared/simulate/synthetic.ts';
import { mooncake, options, REFERENCE_ENGINE } from './simulation-bed.ts';

const ENGINE = { ...REFERENCE_ENGINE, numGpuBlocks: 16_384, blockSizeTokens: 16 };
const SYNTHETIC: SyntheticOptions = {
  shape: 'sessions',
  sessions: 500,
  turnsPerSession: 5,
  interTurnDelayMs: 5000,
  arrivalIntervalMs: 250,
  burstSize: 1,
  inputTokens: 2048,
  outputTokens: 256,
  lengthSpread: 0.5,
  sharedPrefixRatio: 0.9,
  prefixGroups: 8,
  stretchTokens: 16,
  seed: 1,
};

interface Given {
  readonly workload: Workload;
  readonly workers: number;
  readonly engine?: typeof ENGINE;
  readonly arrivalSpeedup?: number;
}

function play(mode: RoutingMode, routers: number, given: Given): Simulation {
  const routing = {
    mode,
    routers,
    replicaSyncDelayMs: 1,
    loadAgeMs: 1000,
    kv: kvRouterConfig({ costModel: 'stator' }),
  };
  return simulate(options({ ...given, routing }));
}

function busiestToMean({ ranks }: Simulation): number {
  const requests = ranks.map((rank) => rank.requests);
  return Math.max(...requests) / (requests.reduce((sum, count) => sum + count, 0) / requests.length);
}

describe('500 functions that do not see each other, with loads a second old', () => {
  /** Prompts of a system prompt of 208 tokens that all share and `words` of their own. */
  const herd = (requests: number, words: number, arrivalIntervalMs: number): Workload =>
    makeWorkload({
      ...SYNTHETIC,
      shape: 'poisson',
      sessions: requests,
      turnsPerSession: 1,
      arrivalIntervalMs,
      inputTokens: 208 + words,
      lengthSpread: 0,
      sharedPrefixRatio: 208 / (208 + words),
      prefixGroups: 1,
    });

  it.each([
    ['all at once, the first request of each', 500, 400, 0.01],
    ['all at once, with hardly a word of their own', 500, 10, 0.01],
    ['for some seconds', 3000, 400, 1],
    ['for some seconds, with hardly a word of their own', 3000, 10, 1],
  ])('send no worker more than 2.5 times the mean: %s', (_, requests, words, arrivalIntervalMs) => {
    const workload = herd(requests, words, arrivalIntervalMs);
    expect(busiestToMean(play('stateless', 500, { workload, workers: 32, engine: ENGINE }))).toBeLessThanOrEqual(2.5);
  });
});

describe('functions that do not see each other, with loads a second old', () => {
  const figures = (functions: number, given: Given) => ({
    resident: summarize(play('kv', 1, given)),
    functions: summarize(play('stateless', functions, given)),
    roundRobin: summarize(play('round-robin', 1, given)),
  });

  it('come near a resident on sessions whose prompts are mostly shared', () => {
    const workload = makeWorkload({ ...SYNTHETIC, lengthSpread: 0 });
    const { resident, functions, roundRobin } = figures(50, { workload, workers: 8, engine: ENGINE });
    expect(functions.hitRate).toBeGreaterThanOrEqual(0.95 * resident.hitRate);
    expect(functions.ttftMs.mean).toBeLessThanOrEqual(1.5 * resident.ttftMs.mean);
    expect(functions.ttftMs.mean).toBeLessThan(roundRobin.ttftMs.mean);
  });

  it('find on the conversation trace nearly what a resident finds, and keep nobody waiting as turns would', () => {
    const given = { workload: mooncake('conversation'), workers: 8, arrivalSpeedup: 6 };
    const { resident, functions, roundRobin } = figures(12, given);
    expect(functions.hitRate).toBeGreaterThanOrEqual(0.8 * resident.hitRate); // 0.9 on the whole trace
    expect(functions.e2eMs.mean).toBeLessThanOrEqual(1.15 * resident.e2eMs.mean);
    expect(functions.ttftMs.mean).toBeLessThan(roundRobin.ttftMs.mean);
  });
});
