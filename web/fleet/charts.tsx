import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { ConsoleHour } from '../../shared/console/wire.ts';
import { duration, short, whole } from '../format.ts';

const HEIGHT = 140;
const HOUR_SECS = 3600;
/** Shortest time that a chart shows, so that the first minutes of a frontend can be seen. */
const SPAN_SECS_MIN = 600;
const MS_PER_SECOND = 1000;

type Values = readonly (number | null)[];

/** One line of a chart, and the custom property that has its colour. */
interface Line {
  readonly label: string;
  readonly colour: '--line-1' | '--line-2';
  readonly values: Values;
}

interface ChartProps {
  readonly title: string;
  readonly hour: ConsoleHour;
  readonly lines: readonly Line[];
  readonly write: (value: number | null) => string;
}

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
  return (
    <div class="charts">
      <Chart title="Output tokens a second" hour={hour} lines={one('tokens', hour.tokens_per_second)} write={short} />
      <Chart title="Requests a second" hour={hour} lines={requests} write={short} />
      <Chart title="Workers" hour={hour} lines={one('workers', hour.workers)} write={whole} />
      <Chart title="TTFT" hour={hour} lines={pair(hour.ttft_p50_ms, hour.ttft_p95_ms)} write={duration} />
      <Chart title="ITL" hour={hour} lines={pair(hour.itl_p50_ms, hour.itl_p95_ms)} write={duration} />
    </div>
  );
}

function Chart({ title, hour, lines, write }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data = dataOf(hour, lines);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element, lines, write), latest.current, element);
    };
    draw();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', draw);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      dark.removeEventListener('change', draw);
      resized.disconnect();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [hour]);
  return (
    <figure class="card chart">
      <figcaption>
        {title}
        {lines.map(({ label, colour, values }) => (
          <span key={label} class={`key ${colour.slice(2)}`}>
            {lines.length > 1 && `${label} `}
            {write(values.at(-1) ?? null)}
          </span>
        ))}
      </figcaption>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}

function dataOf({ end_ms, step_ms, requests_per_second }: ConsoleHour, lines: readonly Line[]): uPlot.AlignedData {
  const steps = requests_per_second.length;
  const times = Array.from({ length: steps }, (_, at) => (end_ms - (steps - 1 - at) * step_ms) / MS_PER_SECOND);
  return [times, ...lines.map(({ values }) => [...values])];
}

function optionsOf(element: HTMLElement, lines: readonly Line[], write: ChartProps['write']): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--muted'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: colour('--border'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: 'hour' }, drag: { setScale: false }, points: { size: 6 } },
    scales: {
      x: { range: (_plot, min, max) => spanOf(min, max) },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 26, space: 70, values: (_plot, times) => times.map(hourAndMinute) },
      { ...axis, size: 54, space: 34, values: (_plot, values) => values.map(write) },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: name }) => ({
        label,
        stroke: colour(name),
        width: 1.5,
        points: { show: false },
      })),
    ],
  };
}

/** Returns the time that a chart shows, in Unix seconds. Without any step, both times are null. */
function spanOf(min: number | null, max: number | null): [number, number] {
  const end = max ?? Date.now() / MS_PER_SECOND;
  return [end - Math.min(HOUR_SECS, Math.max(SPAN_SECS_MIN, end - (min ?? end))), end];
}

function hourAndMinute(secs: number): string {
  return new Date(secs * MS_PER_SECOND).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
