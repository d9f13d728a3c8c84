/** Colours of lines and bars that readers who see few hues can tell apart too. */
const COLOURS = ['#2f6fde', '#e07a1f', '#1f9d76', '#b5419b', '#8a6d1f', '#d43f52', '#4aa3c7', '#6b5fd3'];

export function colourOf(series: number): string {
  return COLOURS[series % COLOURS.length]!;
}

export function escapeMarkup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

export interface Line {
  readonly label: string;
  /** Null leaves a gap. */
  readonly points: readonly (readonly [x: number, y: number | null])[];
}

export interface ChartOptions {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  /** Draws x on a logarithmic scale; values below 1 count as 1. */
  readonly isLogX?: boolean;
  readonly yMax?: number;
  /** Whether the chart names the lines in their colours, because no table beside it does. */
  readonly hasLegend?: boolean;
}

/** Place of the drawing within a chart, in units of its view box. */
export const CHART = { width: 560, height: 300, left: 56, bottom: 44, top: 40, right: 14 } as const;
const { width: WIDTH, height: HEIGHT, left: LEFT, bottom: BOTTOM, top: TOP, right: RIGHT } = CHART;

/** A chart of lines. */
export function lineChart(lines: readonly Line[], options: ChartOptions): string {
  const xs = lines.flatMap(({ points }) => points.map(([x]) => x));
  const ys = lines.flatMap(({ points }) => points.map(([, y]) => y ?? 0));
  const xScale = scaleOf(xs, LEFT, WIDTH - RIGHT, options.isLogX ?? false);
  const yScale = roundScale(options.yMax ?? Math.max(...ys, 0), ys.every(Number.isInteger));
  const paths = lines.map(({ label, points }, series) => {
    const path = pathOf(points, xScale.at, yScale.at);
    return `<path d="${path}" fill="none" stroke="${colourOf(series)}" stroke-width="1.8"><title>${escapeMarkup(label)}</title></path>`;
  });
  return frame(options, xScale, yScale, paths.join('') + (options.hasLegend ? legend(lines) : ''));
}

function legend(lines: readonly Line[]): string {
  return lines
    .map(({ label }, series) => {
      const x = WIDTH - RIGHT - 90 * (lines.length - series);
      return `<rect x="${x}" y="${TOP - 17}" width="10" height="10" rx="2" fill="${colourOf(series)}"/><text x="${x + 15}" y="${TOP - 8}">${escapeMarkup(label)}</text>`;
    })
    .join('');
}

export interface Bar {
  readonly label: string;
  readonly value: number;
  readonly series: number;
}

/** A chart of bars, one under the other. */
export function barChart(bars: readonly Bar[], title: string, format: (value: number) => string): string {
  const rowHeight = 22;
  const left = 190;
  const height = TOP + bars.length * rowHeight + 8;
  const most = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE);
  const rows = bars.map(({ label, value, series }, at) => {
    const y = TOP + at * rowHeight;
    const width = Math.max(1, (value / most) * (WIDTH - left - 80));
    return (
      `<text x="${left - 8}" y="${y + 14}" text-anchor="end">${escapeMarkup(shorten(label))}<title>${escapeMarkup(label)}</title></text>` +
      `<rect x="${left}" y="${y + 3}" width="${width.toFixed(1)}" height="15" rx="2" fill="${colourOf(series)}"/>` +
      `<text x="${(left + width + 6).toFixed(1)}" y="${y + 14}">${escapeMarkup(format(value))}</text>`
    );
  });
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeMarkup(title)}"><text class="title" x="0" y="16">${escapeMarkup(title)}</text>${rows.join('')}</svg>`;
}

function shorten(label: string): string {
  return label.length > 30 ? `${label.slice(0, 28)}…` : label;
}

/** Positions of values along an axis, and the values that it names. */
export interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

function scaleOf(values: readonly number[], from: number, to: number, isLog: boolean, stepGiven?: number): Scale {
  const finite = values.filter(Number.isFinite);
  let low = Math.min(...finite, isLog ? Number.POSITIVE_INFINITY : 0);
  let high = Math.max(...finite, 0);
  if (!isLog) {
    if (high <= low) high = low + 1;
    const step = stepGiven ?? niceStep((high - low) / 5);
    const ticks = Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, at) => at * step);
    return { at: (value) => from + ((value - low) / (high - low)) * (to - from), ticks };
  }
  low = 10 ** Math.floor(Math.log10(Math.max(1, Number.isFinite(low) ? low : 1)));
  high = 10 ** Math.ceil(Math.log10(Math.max(low * 10, high)));
  const decades = Math.round(Math.log10(high / low));
  const ticks = Array.from({ length: decades + 1 }, (_, at) => low * 10 ** at);
  return { at: (value) => from + (Math.log10(Math.max(low, value) / low) / decades) * (to - from), ticks };
}

/**
 * The vertical axis: its highest line is not below the highest value. `isWhole`: all are counts, which have no
 * fractions.
 */
export function roundScale(highest: number, isWhole: boolean): Scale {
  const high = highest > 0 ? highest : 1;
  const step = isWhole ? Math.max(1, niceStep(high / 5)) : niceStep(high / 5);
  return scaleOf([0, Math.ceil(high / step - 1e-9) * step], HEIGHT - BOTTOM, TOP, false, step);
}

/** The step of 1, 2 or 5 times a power of ten that is next above `step`. */
function niceStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= step) ?? 10;
  return factor * power;
}

function pathOf(points: Line['points'], x: Scale['at'], y: Scale['at']): string {
  let path = '';
  let isPenDown = false;
  for (const [pointX, pointY] of points) {
    if (pointY !== null) path += `${isPenDown ? 'L' : 'M'}${x(pointX).toFixed(1)} ${y(pointY).toFixed(1)}`;
    isPenDown = pointY !== null;
  }
  return path;
}

function frame({ title, xLabel, yLabel }: ChartOptions, x: Scale, y: Scale, content: string): string {
  const floor = HEIGHT - BOTTOM;
  const xTicks = x.ticks.map(
    (tick) =>
      `<line class="grid" x1="${x.at(tick).toFixed(1)}" y1="${TOP}" x2="${x.at(tick).toFixed(1)}" y2="${floor}"/>` +
      `<text x="${x.at(tick).toFixed(1)}" y="${floor + 16}" text-anchor="middle">${compact(tick)}</text>`,
  );
  return (
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeMarkup(title)}"><text class="title" x="0" y="16">${escapeMarkup(title)}</text>` +
    `${xTicks.join('')}${valueAxis(y)}${content}` +
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 8}" text-anchor="middle">${escapeMarkup(xLabel)}</text>` +
    `<text class="unit" x="${LEFT}" y="${TOP - 8}">${escapeMarkup(yLabel)}</text></svg>`
  );
}

/** Draws the lines and numbers of a vertical axis. */
export function valueAxis({ at, ticks }: Scale): string {
  return ticks
    .map((tick) => {
      const y = at(tick);
      const text = `<text x="${LEFT - 6}" y="${(y + 4).toFixed(1)}" text-anchor="end">${compact(tick)}</text>`;
      return `<line class="grid" x1="${LEFT}" y1="${y.toFixed(1)}" x2="${WIDTH - RIGHT}" y2="${y.toFixed(1)}"/>${text}`;
    })
    .join('');
}

/** Returns a number of an axis: `1.5k` for 1,500. */
function compact(value: number): string {
  if (value >= 1000) return `${+(value / 1000).toPrecision(3)}k`;
  return `${+value.toPrecision(3)}`;
}
