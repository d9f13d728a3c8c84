import {
  forecast,
  NO_POINTS,
  observe,
  PREDICTORS,
  type PredictorOptions,
} from '../../../shared/planner/predictors/predictor.ts';
import { difference, differs, type Json, type PlannerRow, readRows } from './records.ts';

const REACTIVE = { qLevel: 10, qTrend: 1, r: 5, pointsMin: 3 };
/** Tolerance of fitted values, which depend on the library that fits. */
const GUIDE = 0.1;

function optionsOf(name: string): PredictorOptions | undefined {
  const kind = PREDICTORS.find((each) => name === each || name.startsWith(`${each}_`));
  if (kind === undefined) return undefined; // prophet, which Stator refuses by name
  return {
    name: kind,
    log1p: name.endsWith('_log1p'),
    ...(name === 'kalman_reactive' && { kalman: REACTIVE }),
  };
}

/** Whether a series is level except for one jump or gap. Libraries differ in whether a mean or a walk explains it. */
function isOneJump(series: readonly (number | null)[]): boolean {
  const steps = series.slice(1).filter((value, at) => value !== series[at]);
  return steps.length <= 2;
}

function play(row: Json): readonly string[] {
  const series = row.series as readonly (number | null)[];
  const failures: string[] = [];
  for (const [name, wanted] of Object.entries(row.forecasts as Readonly<Record<string, readonly number[]>>)) {
    const options = optionsOf(name);
    if (options === undefined) continue;
    const isFitted = options.name === 'arima';
    if (isFitted && (isOneJump(series) || series.includes(null))) continue;
    let state = NO_POINTS;
    series.forEach((value, at) => {
      state = observe(state, value ?? Number.NaN, options);
      if (wanted.length === 1 && at < series.length - 1) return;
      const predicted = forecast(state, options);
      state = predicted.state;
      const want = wanted.length === 1 ? wanted[0] : wanted[at];
      const isOff =
        isFitted && Math.abs(predicted.value - want!) < 0.01
          ? false
          : differs(predicted.value, want, isFitted ? GUIDE : 1e-4);
      if (isOff) failures.push(difference(`${name} after ${at + 1} points`, predicted.value, want));
    });
  }
  return failures;
}

export function predictorRows(folder: string): readonly PlannerRow[] {
  return readRows(folder, 'predictors.jsonl').map((row) => ({ id: `predictors ${row.name}`, play: () => play(row) }));
}
