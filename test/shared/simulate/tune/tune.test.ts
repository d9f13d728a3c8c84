import { describe, expect, it } from 'vitest';
import { kvRouterConfig } from '../../../../shared/scheduler/kv-config.ts';
import { simulate } from '../../../../shared/simulate/simulate.ts';
import { summarize } from '../../../../shared/simulate/summary.ts';
import { makeWorkload } from '../../../../shared/simulate/synthetic.ts';
import {
  configAt,
  DEFAULT_POINT,
  DYNAMO_AXES,
  DYNAMO_GRID,
  flagsAt,
} from '../../../../shared/simulate/tune/dynamo-settings.ts';
import { differenceOf, renderTuneJson, renderTuneText } from '../../../../shared/simulate/tune/render-tune.ts';
import { measureStator, tuneDynamo } from '../../../../shared/simulate/tune/tune.ts';
import { FINE_ENGINE, options, routing, SHARED_SESSIONS } from '../simulation-bed.ts';

/** Prompts that share much with others, nearly as fast as four workers answer them. */
const WORKLOAD = makeWorkload({
  ...SHARED_SESSIONS,
  shape: 'poisson',
  sessions: 60,
  turnsPerSession: 1,
  inputTokens: 6000,
  arrivalIntervalMs: 40,
});
const SIMULATIONS = [1, 2, 3].map((seed) =>
  options({ workload: WORKLOAD, workers: 4, engine: FINE_ENGINE, routing: routing('kv'), seed }),
);

describe('tuneDynamo', () => {
  it('finds settings that are better than the defaults, and says which', async () => {
    const told: number[] = [];
    const tuned = await tuneDynamo({
      simulations: SIMULATIONS,
      settingsMax: 8,
      tell: (setting) => told.push(setting),
    });
    expect(tuned.tried).toBe(8);
    expect(told).toEqual(Array.from({ length: 8 }, (_, at) => at + 1));
    const { setting, value } = tuned.best.ttftMean;
    expect(value).toBeLessThan(tuned.defaults.ttftMean);
    const point = DYNAMO_GRID.find((each) => JSON.stringify(flagsAt(each)) === JSON.stringify(setting))!;
    const means = SIMULATIONS.map((each) => {
      const kv = kvRouterConfig(configAt(point));
      return summarize(simulate({ ...each, routing: { ...each.routing, kv } })).ttftMs.mean;
    });
    expect(value).toBeCloseTo(means.reduce((sum, mean) => sum + mean, 0) / means.length, 9);
  });
});

describe('the settings of the search', () => {
  it('are within the axes and begin with the defaults, whose flags are few', () => {
    expect(DYNAMO_GRID[0]).toBe(DEFAULT_POINT);
    expect(flagsAt(DEFAULT_POINT)).toEqual({ 'router-cost-model': 'dynamo' });
    for (const point of DYNAMO_GRID) {
      expect(point).toHaveLength(DYNAMO_AXES.length);
      point.forEach((at, axis) => {
        expect(at).toBeLessThan(DYNAMO_AXES[axis]!);
      });
    }
    expect(new Set(DYNAMO_GRID.map((point) => point.join())).size).toBe(DYNAMO_GRID.length);
  });
});

describe('the report of a search', () => {
  const figures = (ttftMean: number) => ({ ttftMean, ttftP99: 500, e2eMean: 4000, hitRate: 0.5 });
  const setting = { 'router-cost-model': 'dynamo', 'router-prefill-load-scale': '8' };
  const best = { value: 100, setting };
  const queued = { ...setting, 'router-queue-threshold': '0.5', 'router-queue-policy': 'wspt' };
  const report = {
    about: { workload: 'tenants', workers: 4 },
    stator: figures(90),
    dynamo: {
      tried: 30,
      best: { ttftMean: best, ttftP99: best, e2eMean: { ...best, setting: queued } },
      defaults: figures(200),
    },
    wallMs: 1500,
  };

  it('compares the figures in text', () => {
    const text = renderTuneText(report);
    expect(text).toMatch(/^workload tenants, workers 4\n/);
    expect(text).toMatch(/TTFT mean ms +90 +100 +-10\.0 % +200\n/);
    expect(text).toContain('TTFT mean ms  --router-cost-model=dynamo --router-prefill-load-scale=8\n');
    expect(text).toContain('The best of 30 settings');
    expect(text).toContain('\n              --router-queue-policy=wspt');
    for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(100);
  });

  it('prints one object', () => {
    const { difference, ...rest } = JSON.parse(renderTuneJson(report));
    expect(rest).toEqual(report);
    expect(difference.ttftMean).toBeCloseTo(-0.1, 9);
    expect(differenceOf('ttftP99', report)).toBeCloseTo(4, 9);
  });
});

describe('measureStator', () => {
  it('is the mean over the seeds', () => {
    const kv = kvRouterConfig({ costModel: 'stator', queueThreshold: undefined });
    const means = SIMULATIONS.map(
      (each) => summarize(simulate({ ...each, routing: { ...each.routing, kv } })).e2eMs.mean,
    );
    expect(measureStator(SIMULATIONS).e2eMean).toBeCloseTo(means.reduce((sum, mean) => sum + mean, 0) / 3, 9);
  });
});
