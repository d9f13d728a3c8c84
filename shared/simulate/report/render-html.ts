import { OPTION_COLUMNS, optionName } from './option-lines.ts';
import { renderPage } from './page.ts';
import { columnsOf } from './render-text.ts';
import { labelOf, type RunReport, verdictOf } from './run-report.ts';
import { type Bar, barChart, colourOf, escapeMarkup, type Line, lineChart } from './svg.ts';

/** Most lines of one chart; bars and table show a larger sweep. */
const LINES_MAX = 8;

/**
 * Renders a self-contained page: no script, no font, nothing to load.
 * @param commandLine command that made the report, to repeat it
 */
export function renderHtml(runs: readonly RunReport[], commandLine: string): string {
  const about = Object.entries(runs[0]?.about ?? {})
    .filter(([name]) => runs[0]?.swept[name] === undefined) // those differ from run to run
    .map(([name, value]) => `${name} ${value}`)
    .join(' · ');
  const figures = charts(runs).map((chart) => `<figure>${chart}</figure>`);
  return renderPage({
    title: 'Stator simulation',
    body: `<p class="verdict">${escapeMarkup(verdictOf(runs))}</p>
<p>${escapeMarkup(about)}</p>
<pre>${escapeMarkup(commandLine)}</pre>
<div class="wide">${table(runs)}</div>
${runs.map(optionTable).join('')}<div class="charts">${figures.join('\n')}</div>`,
  });
}

function table(runs: readonly RunReport[]): string {
  const columns = columnsOf(runs);
  const head = columns.map((column) => `<th>${escapeMarkup(column.head)}</th>`).join('');
  const rows = runs.map((run, series) => {
    const key = `<span class="key" style="background:${colourOf(series)}"></span>`;
    const cells = columns.map(({ of }) => `<td>${escapeMarkup(of(run))}</td>`).join('');
    return `<tr><td>${key}${escapeMarkup(labelOf(run))}</td>${cells}</tr>`;
  });
  return `<table><thead><tr><th>times in ms</th>${head}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

/** Returns what became of the options of a fleet on EC2; nothing for other fleets. */
function optionTable(run: RunReport): string {
  const { options = [] } = run.summary.scaling ?? {};
  if (options.length === 0) return '';
  const head = OPTION_COLUMNS.map((column) => `<th>${escapeMarkup(column.head)}</th>`).join('');
  const rows = options.map((option) => {
    const cells = OPTION_COLUMNS.map(({ of }) => `<td>${escapeMarkup(of(option))}</td>`).join('');
    return `<tr><td>${escapeMarkup(optionName(option, options))}</td>${cells}</tr>`;
  });
  const name = `<thead><tr><th>${escapeMarkup(`options of ${labelOf(run)}`)}</th>${head}</tr></thead>`;
  return `<div class="wide"><table>${name}<tbody>${rows.join('')}</tbody></table></div>\n`;
}

function charts(runs: readonly RunReport[]): readonly string[] {
  const drawn = runs.slice(0, LINES_MAX);
  const lines = (of: (run: RunReport) => Line['points']): readonly Line[] =>
    drawn.map((run) => ({ label: labelOf(run), points: of(run) }));
  const bars = (of: (run: RunReport) => number): readonly Bar[] =>
    runs.map((run, series) => ({ label: labelOf(run), value: of(run), series }));
  const time = (values: (run: RunReport) => readonly (number | null)[]) =>
    lines((run) => values(run).map((value, bin) => [((bin + 0.5) * run.curves.binMs) / 1000, value] as const));
  const isSweep = runs.length > 1;
  return [
    ...scalingCharts(drawn, isSweep),
    lineChart(
      lines(({ curves }) => shares(curves.ttftMs)),
      { title: 'Time to first token', xLabel: 'ms', yLabel: '% of requests', isLogX: true, yMax: 100 },
    ),
    lineChart(
      lines(({ curves }) => shares(curves.e2eMs)),
      { title: 'Time to last token', xLabel: 'ms', yLabel: '% of requests', isLogX: true, yMax: 100 },
    ),
    lineChart(
      time(({ curves }) => curves.ttftByTimeMs),
      {
        title: 'Mean time to first token by arrival',
        xLabel: 's of virtual time',
        yLabel: 'ms',
      },
    ),
    lineChart(
      time(({ curves }) => curves.underWay),
      {
        title: 'Requests under way',
        xLabel: 's of virtual time',
        yLabel: 'requests',
      },
    ),
    lineChart(
      time(({ curves }) => curves.hitRate.map((rate) => (rate === null ? null : 100 * rate))),
      {
        title: 'Prompt tokens found cached, by arrival',
        xLabel: 's of virtual time',
        yLabel: '%',
        yMax: 100,
      },
    ),
    ...(isSweep
      ? [
          barChart(
            bars(({ summary }) => summary.ttftMs.mean),
            'Mean time to first token',
            (ms) => `${ms.toFixed(0)} ms`,
          ),
          barChart(
            bars(({ summary }) => 100 * summary.hitRate),
            'Hit rate',
            (share) => `${share.toFixed(1)} %`,
          ),
          barChart(
            bars(({ summary }) => summary.gpuHours),
            'GPU hours',
            (hours) => hours.toFixed(2),
          ),
        ]
      : runs.map((run) => barChart(rankBars(run), 'Time in passes, by rank', (share) => `${share.toFixed(0)} %`))),
  ];
}

/** Draws demand, workers and the outcome of requests over time, if workers come and go. */
function scalingCharts(runs: readonly RunReport[], isSweep: boolean): readonly string[] {
  const scaled = runs.filter(({ curves }) => curves.scaling !== undefined);
  const [first] = scaled;
  if (first === undefined) return [];
  type Point = NonNullable<RunReport['curves']['scaling']>[number];
  const time = (run: RunReport, label: string, of: (point: Point) => number | null): Line => ({
    label,
    points: (run.curves.scaling ?? []).map((point) => [point.atMs / 1000, of(point)] as const),
  });
  const seconds = { xLabel: 's of virtual time' };
  return [
    lineChart([time(first, 'requests', ({ arrivals }) => arrivals)], {
      title: 'Demand',
      yLabel: 'requests/s',
      ...seconds,
    }),
    lineChart(
      isSweep
        ? scaled.map((run) => time(run, labelOf(run), ({ ready }) => ready))
        : [time(first, 'serving', ({ ready }) => ready), time(first, 'paid', ({ paid }) => paid)],
      { title: 'Workers', yLabel: 'workers', hasLegend: !isSweep, ...seconds },
    ),
    ...(isSweep ? [] : optionChart(first)),
    lineChart(
      scaled.map((run) => time(run, labelOf(run), ({ met }) => (met === null ? null : 100 * met))),
      { title: 'Targets met, by arrival', yLabel: '% of requests', yMax: 100, ...seconds },
    ),
  ];
}

/** Draws the instances of each option that serve; nothing for other fleets. */
function optionChart({ curves: { options } }: RunReport): readonly string[] {
  if (options === undefined) return [];
  const lines = options.map(({ option, points }) => ({
    label: option,
    points: points.map(({ atMs, serving }) => [atMs / 1000, serving] as const),
  }));
  const drawn = { title: 'Instances that serve', xLabel: 's of virtual time', yLabel: 'instances', hasLegend: true };
  return [lineChart(lines, drawn)];
}

function shares(sortedMs: readonly number[]): Line['points'] {
  return sortedMs.map((ms, at) => [ms, (100 * at) / Math.max(1, sortedMs.length - 1)] as const);
}

const RANK_BARS_MAX = 64;

function rankBars({ curves }: RunReport): readonly Bar[] {
  return curves.ranks.slice(0, RANK_BARS_MAX).map(({ role, worker, dpRank, requests, busyShare }) => ({
    label: `${role === 'aggregated' ? '' : `${role} `}worker ${worker}${dpRank > 0 ? `.${dpRank}` : ''} (${requests} requests)`,
    value: 100 * busyShare,
    series: 0,
  }));
}
