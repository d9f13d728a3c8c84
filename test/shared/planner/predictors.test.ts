import { describe, expect, it } from 'vitest';
import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import { forecast, NO_POINTS, observe, type PredictorOptions } from '../../../shared/planner/predictors/predictor.ts';

function fed(points: readonly number[], options: PredictorOptions) {
  const state = points.reduce((before, value) => observe(before, value, options), NO_POINTS);
  return { state, value: forecast(state, options).value };
}

describe('predictors that Dynamo has not', () => {
  it('moving takes the mean of the last windows', () => {
    expect(fed([100, 1, 2, 3], { name: 'moving', movingPoints: 3 }).value).toBe(2);
    expect(fed([4], { name: 'moving' }).value).toBe(4);
    expect(fed([], { name: 'moving' }).value).toBe(0);
  });

  const season = [10, 20, 40, 80, 40, 20];
  const options = { name: 'seasonal', seasonPoints: season.length } as const;
  it('seasonal repeats the last season at the level of now', () => {
    expect(fed([...season, ...season], options).value).toBeCloseTo(10);
    const grown = season.map((value) => 1.1 * value);
    expect(fed([...season, ...grown], options).value).toBeCloseTo(12.1);
  });

  it('and says the last value before a season is known', () => {
    expect(fed(season.slice(0, 3), options).value).toBe(40);
  });

  it('keeps no more than a season and what its level needs', () => {
    const many = Array.from({ length: 3000 }, (_, at) => 1 + (at % 1440));
    expect(fed(many, { name: 'seasonal', seasonPoints: 1440 }).state.points.length).toBeLessThan(1460);
  });

  it.each([
    [{ load_predictor: 'prophet' }, /prophet is not served; use seasonal,.* or arima/],
    [
      { load_predictor: 'seasonal', throughput_adjustment_interval_seconds: 5 },
      /seasonal_period_seconds 86400 must be/,
    ],
    [{ load_predictor: 'neural' }, /load_predictor/],
  ])('%j is refused by name', (settings, message) => {
    expect(() => parsePlannerConfig(settings)).toThrow(message);
  });
});
