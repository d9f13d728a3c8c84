import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { hourAndMinute } from './format.ts';

const HEIGHT = 140;
const HOUR_SECS = 3600;
/** Shortest time that a chart shows, so that the first minutes of a process can be seen. */
const SPAN_SECS_MIN = 600;
const MS_PER_SECOND = 1000;

export type Values = readonly (number | null)[];

/** One line of a chart, and the custom property that has its colour. */
export interface Line {
  readonly label: string;
  readonly colour: `--line-${1 | 2 | 3 | 4 | 5}`;
  readonly values: Values;
  /** Whether the line is a wish or a bound, and is drawn with dashes. @default false */
  readonly isWish?: boolean;
}

interface ChartProps {
  readonly title: string;
  /** Unix times of the values, in seconds. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly write: (value: number | null) => string;
  /** Whether a value holds for the time before it. @default false */
  readonly isStepped?: boolean;
}

/** A chart of the last hour. All charts of a page share their cursor. Its lines stay the same. */
export function Chart({ title, times, lines, write, isStepped = false }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data: uPlot.AlignedData = [[...times], ...lines.map(({ values }) => [...values])];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element, { lines, write, isStepped }), latest.current, element);
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
  useEffect(() => plot.current?.setData(data), [times]);
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

function optionsOf(
  element: HTMLElement,
  { lines, write, isStepped }: Required<Pick<ChartProps, 'lines' | 'write' | 'isStepped'>>,
): uPlot.Options {
  const stepped = isStepped ? uPlot.paths.stepped?.({ align: -1 }) : undefined;
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
      {
        ...axis,
        size: 26,
        space: 70,
        values: (_plot, times) => times.map((secs) => hourAndMinute(secs * MS_PER_SECOND)),
      },
      { ...axis, size: 54, space: 34, values: (_plot, values) => values.map(write) },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: name, isWish = false }) => ({
        label,
        stroke: colour(name),
        width: 1.5,
        points: { show: true, size: 3, filter: lonelyOf },
        ...(isWish ? { dash: [5, 4] } : {}),
        ...(stepped === undefined ? {} : { paths: stepped }),
      })),
    ],
  };
}

/** Returns the places of values without neighbours, which no line shows. */
function lonelyOf(plot: uPlot, line: number): number[] {
  const values = plot.data[line] ?? [];
  const isGap = (at: number): boolean => (values[at] ?? null) === null;
  return Array.from(values, (_, at) => at).filter((at) => !isGap(at) && isGap(at - 1) && isGap(at + 1));
}

/** Returns the time that a chart shows, in Unix seconds. Without any step, both times are null. */
function spanOf(min: number | null, max: number | null): [number, number] {
  const end = max ?? Date.now() / MS_PER_SECOND;
  return [end - Math.min(HOUR_SECS, Math.max(SPAN_SECS_MIN, end - (min ?? end))), end];
}
