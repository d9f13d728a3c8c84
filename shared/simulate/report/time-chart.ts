import { CHART, escapeMarkup, roundScale, type Scale, valueAxis } from './svg.ts';

/** One line of a chart over time, or one layer of a stack. */
export interface TimeSeries {
  readonly label: string;
  readonly colour: string;
  /** Pattern of dashes, as SVG takes it. @default a whole line */
  readonly dash?: string | undefined;
  /** Value of each bin; null leaves a gap. */
  readonly values: readonly (number | null)[];
}

/** Something that happened at one time. */
export interface TimeMark {
  readonly atMs: number;
  readonly label: string;
  readonly isTrouble: boolean;
}

export interface TimeChart {
  readonly title: string;
  /** One sentence for readers who do not see the drawing. */
  readonly about: string;
  readonly yLabel: string;
  readonly fromMs: number;
  readonly binMs: number;
  readonly series: readonly TimeSeries[];
  /** Draws the series on top of each other. */
  readonly isStacked?: boolean;
  readonly yMax?: number | undefined;
  readonly marks?: readonly TimeMark[] | undefined;
}

const STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800];
/** Most times that an axis names. */
const TICKS_MAX = 6;
const DAY_S = 86_400;
/** Width of the name of a time on a narrow screen, where letters are larger. */
const LABEL_WIDTH = 48;
const FLOOR = CHART.height - CHART.bottom;
const END = CHART.width - CHART.right;
/** Most marks of a chart; the tables have them all. */
const MARKS_MAX = 200;

/** Draws values over time. Its horizontal axis names times of UTC. */
export function timeChart(chart: TimeChart): string {
  const { title, about, yLabel, fromMs, binMs, series, isStacked = false, yMax, marks = [] } = chart;
  const bins = Math.max(1, ...series.map(({ values }) => values.length));
  const x = (ms: number): number => CHART.left + ((ms - fromMs) / (bins * binMs)) * (END - CHART.left);
  const layers = isStacked ? stacked(series, bins) : series.map((each) => ({ ...each, base: undefined }));
  const tops = layers.flatMap(({ values }) => values.map((value) => value ?? 0));
  const y = roundScale(yMax ?? Math.max(...tops, 0), tops.every(Number.isInteger));
  const drawn = layers.map((layer) => {
    const xOf = (at: number): number => x(fromMs + at * binMs);
    const shape =
      layer.base === undefined
        ? `d="${lineOf(layer.values, xOf, y.at)}" fill="none" stroke="${layer.colour}" stroke-width="1.8"` +
          (layer.dash === undefined ? '' : ` stroke-dasharray="${layer.dash}"`)
        : `d="${areaOf(layer.values, layer.base, xOf, y.at)}" fill="${layer.colour}" fill-opacity="0.85"`;
    return `<path ${shape}><title>${escapeMarkup(layer.label)}</title></path>`;
  });
  return (
    `<svg viewBox="0 0 ${CHART.width} ${CHART.height}" role="img" aria-label="${escapeMarkup(`${title}. ${about}`)}">` +
    `<text class="title" x="0" y="16">${escapeMarkup(title)}</text>` +
    `${timeAxis(fromMs, bins * binMs, x)}${valueAxis(y)}${drawn.join('')}` +
    marks
      .slice(0, MARKS_MAX)
      .map((mark) => drawMark(mark, x(mark.atMs)))
      .join('') +
    `<text class="unit" x="${CHART.left}" y="${CHART.top - 8}">${escapeMarkup(yLabel)}</text></svg>`
  );
}

/** Returns the names of series beside their colours, or beside their lines if they are not stacked. */
export function legendOf(series: readonly Pick<TimeSeries, 'label' | 'colour' | 'dash'>[], isStacked: boolean): string {
  const entries = series.map(({ label, colour, dash }) => {
    const pattern = dash === undefined ? '' : ` stroke-dasharray="${dash}"`;
    const key = isStacked
      ? `<span class="key" style="background:${colour}"></span>`
      : '<svg class="stroke" viewBox="0 0 28 10" aria-hidden="true">' +
        `<path d="M0 5h28" stroke="${colour}" stroke-width="2.5"${pattern}/></svg>`;
    return `<span>${key}${escapeMarkup(label)}</span>`;
  });
  return `<figcaption>${entries.join(' ')}</figcaption>`;
}

function stacked(series: readonly TimeSeries[], bins: number) {
  let base: readonly number[] = Array.from({ length: bins }, () => 0);
  return series.map((each) => {
    const below = base;
    const values = each.values.map((value, at) => (value === null ? null : (below[at] ?? 0) + value));
    base = values.map((value, at) => value ?? below[at] ?? 0);
    return { ...each, values, base: below };
  });
}

/** Joins the middles of bins. A line begins and ends at the edges of its bins, so that a bin beside gaps is seen. */
function lineOf(values: TimeSeries['values'], x: (bin: number) => number, y: Scale['at']): string {
  const valueAt = (at: number): number | null => values[at] ?? null;
  let path = '';
  values.forEach((value, at) => {
    if (value === null) return;
    const height = y(value).toFixed(1);
    const [before, after] = [valueAt(at - 1), valueAt(at + 1)];
    if (before === null) path += `M${x(at).toFixed(1)} ${height}`;
    if (before !== value || after !== value) path += `L${x(at + 0.5).toFixed(1)} ${height}`;
    if (after === null) path += `L${x(at + 1).toFixed(1)} ${height}`;
  });
  return path;
}

/** Fills the space between two lines of steps, as far as the upper one has values. */
function areaOf(
  values: TimeSeries['values'],
  base: readonly number[],
  x: (bin: number) => number,
  y: Scale['at'],
): string {
  let path = '';
  for (let from = 0; from < values.length; from++) {
    if (values[from] === null) continue;
    let to = from;
    while (to < values.length && values[to] !== null) to++;
    const upper = stepsOf(from, to, (at) => values[at] ?? 0, x, y);
    const lower = stepsOf(from, to, (at) => base[at] ?? 0, x, y);
    path += `M${upper.join('L')}L${lower.toReversed().join('L')}Z`;
    from = to;
  }
  return path;
}

/** Returns the corners of a line of steps over the bins from `from` to before `to`. */
function stepsOf(
  from: number,
  to: number,
  valueAt: (bin: number) => number,
  x: (bin: number) => number,
  y: Scale['at'],
): readonly string[] {
  const corners: string[] = [];
  for (let at = from; at < to; at++) {
    const value = valueAt(at);
    const height = y(value).toFixed(1);
    if (at === from || valueAt(at - 1) !== value) corners.push(`${x(at).toFixed(1)} ${height}`);
    if (at === to - 1 || valueAt(at + 1) !== value) corners.push(`${x(at + 1).toFixed(1)} ${height}`);
  }
  return corners;
}

function timeAxis(fromMs: number, lengthMs: number, x: (ms: number) => number): string {
  const stepS = STEPS_S.find((step) => lengthMs / 1000 / step <= TICKS_MAX) ?? 7 * DAY_S;
  const first = Math.ceil(fromMs / (stepS * 1000)) * stepS * 1000;
  const times = Array.from({ length: TICKS_MAX + 1 }, (_, at) => first + at * stepS * 1000);
  const ticks = times
    .filter((ms) => ms <= fromMs + lengthMs)
    .map((ms) => {
      const at = x(ms).toFixed(1);
      const anchor = x(ms) > END - LABEL_WIDTH / 2 ? 'end' : 'middle';
      const text = `<text x="${at}" y="${FLOOR + 16}" text-anchor="${anchor}">${timeOf(ms, stepS)}</text>`;
      return `<line class="grid" x1="${at}" y1="${CHART.top}" x2="${at}" y2="${FLOOR}"/>${text}`;
    });
  const middle = (CHART.left + END) / 2;
  const caption = `<text x="${middle}" y="${CHART.height - 8}" text-anchor="middle">UTC</text>`;
  return `${ticks.join('')}${caption}`;
}

/** Returns a time as far as an axis with such steps needs it. */
function timeOf(ms: number, stepS: number): string {
  const text = new Date(ms).toISOString();
  if (stepS < 60) return text.slice(11, 19);
  return stepS < DAY_S / 2 ? text.slice(11, 16) : text.slice(5, 16).replace('T', ' ');
}

/** A decision is a line above the axis; trouble is a cross. */
function drawMark({ label, isTrouble }: TimeMark, at: number): string {
  if (at < CHART.left - 0.5 || at > END + 0.5) return '';
  const x = at.toFixed(1);
  const shape = isTrouble
    ? `<path class="trouble" d="M${(at - 4).toFixed(1)} ${CHART.top - 5}l8 8m0 -8l-8 8"/>`
    : `<path class="decided" d="M${x} ${FLOOR}v6"/>`;
  return `<g><title>${escapeMarkup(label)}</title>${shape}</g>`;
}
