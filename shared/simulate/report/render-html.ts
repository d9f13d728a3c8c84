import { columnsOf } from './render-text.ts';
import { labelOf, type RunReport } from './run-report.ts';
import { type Bar, barChart, colourOf, escapeMarkup, type Line, lineChart } from './svg.ts';
import { verdictOf } from './verdict.ts';

/** Lines of one chart at most; a larger sweep is drawn in its bars and told in its table. */
const LINES_MAX = 8;

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2330; --soft: #667085; --line: #e3e6ec; --paper: #ffffff; --card: #f8f9fb; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2c3340; --paper: #12161d; --card: #191f29; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: clamp(16px, 3vw, 32px) clamp(12px, 2.5vw, 24px); font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 24px; margin: 0 0 4px; }
p { color: var(--soft); margin: 0 0 16px; max-width: 80ch; overflow-wrap: anywhere; }
.verdict { color: var(--ink); font-size: 17px; }
pre { margin: 0 0 24px; padding: 10px 12px; background: var(--card); border: 1px solid var(--line); border-radius: 8px; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 16px; align-items: start; }
figure { margin: 0; min-width: 0; padding: 16px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; fill: var(--soft); }
svg .title { font-size: 14px; font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: 1; }
table { border-collapse: collapse; margin: 0 0 24px; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
@media (max-width: 600px) {
  figure { padding: 10px; }
  svg { font-size: 15px; }
  svg .title { font-size: 18px; }
  thead th:first-child, tbody td:first-child { position: sticky; left: 0; background: var(--paper); max-width: 45vw; white-space: normal; }
  th, td { padding: 6px 8px; }
}
th, td { padding: 6px 9px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 8px; }
`;

/**
 * A page that stands alone: no script, no font, nothing to load.
 * @param commandLine what made it, to repeat it
 */
export function renderHtml(runs: readonly RunReport[], commandLine: string): string {
  const about = Object.entries(runs[0]?.about ?? {})
    .filter(([name]) => runs[0]?.swept[name] === undefined) // those differ from run to run
    .map(([name, value]) => `${name} ${value}`)
    .join(' · ');
  const figures = charts(runs).map((chart) => `<figure>${chart}</figure>`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stator simulation</title><style>${STYLE}</style></head>
<body><h1>Stator simulation</h1>
<p class="verdict">${escapeMarkup(verdictOf(runs))}</p>
<p>${escapeMarkup(about)}</p>
<pre>${escapeMarkup(commandLine)}</pre>
<div class="wide">${table(runs)}</div>
<div class="charts">${figures.join('\n')}</div></body></html>
`;
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

/** Demand, workers and what became of the requests over time, where workers come and go. */
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
    lineChart(
      scaled.map((run) => time(run, labelOf(run), ({ met }) => (met === null ? null : 100 * met))),
      { title: 'Targets met, by arrival', yLabel: '% of requests', yMax: 100, ...seconds },
    ),
  ];
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
