import { useMemo } from 'preact/hooks';
import type { ConsoleHour } from '../../shared/console/wire/fleet.ts';
import { Chart, type Line, type Values } from '../chart.tsx';
import { duration, short, whole } from '../format.ts';

/** Charts of the last hour, which share their cursor. */
export function Charts({ hour }: { readonly hour: ConsoleHour }) {
  const pair = (p50: Values, p95: Values): readonly Line[] => [
    { label: 'p50', colour: '--line-1', values: p50 },
    { label: 'p95', colour: '--line-2', values: p95 },
  ];
  const requests: readonly Line[] = [
    { label: 'all', colour: '--line-1', values: hour.requests_per_second },
    { label: 'failed', colour: '--line-2', values: hour.failed_per_second },
  ];
  const one = (label: string, values: Values): readonly Line[] => [{ label, colour: '--line-1', values }];
  const times = useMemo(() => timesOf(hour), [hour]);
  return (
    <div class="charts">
      <Chart title="Output tokens a second" times={times} lines={one('tokens', hour.tokens_per_second)} write={short} />
      <Chart title="Requests a second" times={times} lines={requests} write={short} />
      <Chart title="Workers" times={times} lines={one('workers', hour.workers)} write={whole} />
      <Chart title="TTFT" times={times} lines={pair(hour.ttft_p50_ms, hour.ttft_p95_ms)} write={duration} />
      <Chart title="ITL" times={times} lines={pair(hour.itl_p50_ms, hour.itl_p95_ms)} write={duration} />
    </div>
  );
}

/** Returns the times of the ends of the steps, in Unix seconds. */
function timesOf({ end_ms, step_ms, requests_per_second: { length: steps } }: ConsoleHour): readonly number[] {
  return Array.from({ length: steps }, (_, at) => (end_ms - (steps - 1 - at) * step_ms) / 1000);
}
