import { useMemo } from 'preact/hooks';
import type { ConsolePoint } from '../../shared/console/planner/wire.ts';
import { Chart, type Line, type Values } from '../chart.tsx';
import { duration, short } from '../format.ts';
import { poolOf } from './phases.ts';
import type { Planner } from './use-planner.ts';

const SERVING = 'serving';
const DRAINING = 'draining';
/** Options with a line of their own. */
const OPTIONS_MAX = 5;
const COLOURS = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5'] as const;

type Read = (point: ConsolePoint) => number | null | undefined;

/** Charts of what a planner saw and decided. */
export function PlannerCharts({ planner }: { readonly planner: Planner }) {
  const { config } = planner;
  // The first record speaks of a time, too, and one point would draw no line
  const points = useMemo(() => withBegin(planner.points), [planner.points]);
  const times = useMemo(() => points.map(({ at_ms }) => at_ms / 1000), [points]);
  const pools = [...new Set(points.flatMap(({ workers, target }) => [...Object.keys(workers), ...Object.keys(target)]))]
    .map(poolOf)
    .filter((pool, at, all) => all.indexOf(pool) === at)
    .sort();
  const options = [...new Set(points.flatMap(({ workers }) => Object.keys(workers)))].filter((key) =>
    key.includes('/'),
  );
  const valuesOf = (read: Read): Values => points.map((point) => read(point) ?? null);
  const line = (label: string, colour: Line['colour'], read: Read, isWish = false): Line => {
    return { label, colour, values: valuesOf(read), isWish };
  };
  const titleOf = (subject: string, pool: string): string => (pools.length > 1 ? `${subject}: ${pool}` : subject);
  const shared = { times, isStepped: true };
  return (
    <div class="charts">
      {pools.map((pool) => (
        <Chart
          key={pool}
          {...shared}
          title={titleOf('Workers', pool)}
          write={short}
          lines={[
            line('serving', '--line-1', (point) => countOf(point, pool, (phase) => phase === SERVING)),
            line('coming', '--line-3', (point) => countOf(point, pool, isComing)),
            line('needed', '--line-2', ({ need }) => need[pool], true),
            line('target', '--line-4', ({ target }) => target[pool], true),
          ]}
        />
      ))}
      <Chart
        {...shared}
        title="Requests a second"
        write={short}
        lines={[
          line('begin', '--line-1', ({ requests_per_second: rate }) => rate),
          line('expected', '--line-2', ({ forecast }) => forecast.decode ?? forecast.prefill, true),
        ]}
      />
      <Chart
        {...shared}
        title="Requests"
        write={short}
        lines={[
          line('running', '--line-1', ({ running }) => running),
          line('waiting for a worker', '--line-2', ({ held_max: held }) => held),
        ]}
      />
      <Chart
        {...shared}
        title="TTFT"
        write={duration}
        lines={[
          line('seen', '--line-1', ({ ttft_ms: ms }) => ms),
          line('target', '--line-4', () => config?.ttft_ms, true),
        ]}
      />
      <Chart
        {...shared}
        title="ITL"
        write={duration}
        lines={[
          line('seen', '--line-1', ({ itl_ms: ms }) => ms),
          line('target', '--line-4', () => config?.itl_ms, true),
        ]}
      />
      {options.length > 0 && (
        <Chart
          key={options.join()}
          {...shared}
          title="Serving, by option"
          write={short}
          lines={options
            .slice(0, OPTIONS_MAX)
            .map((key, at) => line(key, COLOURS[at] ?? '--line-1', ({ workers }) => workers[key]?.[SERVING] ?? 0))}
        />
      )}
    </div>
  );
}

function isComing(phase: string): boolean {
  return phase !== SERVING && phase !== DRAINING;
}

/** Returns the workers of a pool in some phases; null if nothing was recorded of workers. */
function countOf({ workers }: ConsolePoint, pool: string, isOf: (phase: string) => boolean): number | null {
  const own = Object.entries(workers).filter(([key]) => poolOf(key) === pool);
  if (Object.keys(workers).length === 0) return 0;
  return own
    .flatMap(([, phases]) => Object.entries(phases))
    .reduce((total, [phase, count]) => total + (isOf(phase) ? count : 0), 0);
}

function withBegin(points: readonly ConsolePoint[]): readonly ConsolePoint[] {
  const [first] = points;
  if (first === undefined || first.seconds === 0) return points;
  return [{ ...first, at_ms: first.at_ms - first.seconds * 1000 }, ...points];
}
