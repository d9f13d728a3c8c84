import type { Spread } from '../percentiles.ts';
import type { DisaggregationSummary, PoolSummary, ScalingSummary } from '../summary.ts';
import type { SeedSpread } from './figures.ts';
import { optionLines } from './option-lines.ts';
import { labelOf, type RunReport, verdictOf } from './run-report.ts';
import { fitTable, line, wrapText } from './text-layout.ts';

/** A report for a terminal: one run in detail, several as a table with a row each. */
export function renderText(runs: readonly RunReport[]): string {
  const [first] = runs;
  if (first === undefined) return '';
  return runs.length === 1 ? renderRun(first) : renderTable(runs);
}

function renderRun({ about, summary, seeds, wallMs }: RunReport): string {
  const { loadBalance } = summary;
  const lines = [
    wrapText(
      Object.entries(about)
        .map(([name, value]) => `${name} ${value}`)
        .join(', '),
    ),
    '',
    `${''.padEnd(22)}${['mean', 'p50', 'p90', 'p99'].map((head) => head.padStart(10)).join('')}`,
    spreadLine('TTFT ms', summary.ttftMs, 0),
    spreadLine('ITL ms', summary.itlMs, 1),
    spreadLine('E2E ms', summary.e2eMs, 0),
    spreadLine('router queue ms', summary.queueMs, 0),
    ...stageLines(summary.disaggregation),
    '',
    line('hit rate', `${percent(summary.hitRate)} of prompt tokens; one cache for all: ${percent(summary.hitCeiling)}`),
    line('output', `${summary.outputTokensPerS.toFixed(0)} tokens/s`),
    line('GPU hours', summary.gpuHours.toFixed(2)),
    ...scalingLines(summary.scaling),
    line(
      'busiest to mean',
      `${loadBalance.busyTime.toFixed(2)} time, ${loadBalance.promptTokens.toFixed(2)} prompt tokens, ${loadBalance.activeBlocks.toFixed(2)} blocks`,
    ),
    ...poolLines(summary.disaggregation),
    line('requests', `${summary.requests} answered, ${summary.refused} refused, ${summary.preemptions} preemptions`),
    ...seedLines(seeds),
    line('virtual time', `${(summary.durationMs / 1000).toFixed(1)} s, simulated in ${(wallMs / 1000).toFixed(1)} s`),
  ];
  return `${lines.join('\n')}\n`;
}

function seedLines(seeds: SeedSpread | undefined): readonly string[] {
  if (seeds === undefined) return [];
  const { ttftMean, ttftP99, e2eMean } = seeds.range;
  const ranges = `TTFT mean ${percent(ttftMean)}, TTFT p99 ${percent(ttftP99)}, E2E mean ${percent(e2eMean)}`;
  return [line('seeds', `${seeds.count}, with a range of ${ranges}`)];
}

function stageLines(stages: DisaggregationSummary | undefined): readonly string[] {
  if (stages === undefined) return [];
  return [spreadLine('prefill ms', stages.prefillMs, 0), spreadLine('transfer ms', stages.transferMs, 1)];
}

function scalingLines(scaling: ScalingSummary | undefined): readonly string[] {
  if (scaling === undefined) return [];
  const { attainment, ups, downs, readyMax, heldMax, dollars, interruptions, failures, moved } = scaling;
  const losses =
    interruptions + failures === 0
      ? []
      : [line('losses', `${interruptions} notices to leave, ${moved} requests moved; ${failures} starts failed`)];
  return [
    line('targets met', `${percent(attainment)} of the requests`),
    line('scaling', `${ups} ups, ${downs} downs, at most ${readyMax} workers; ${heldMax} requests held at most`),
    ...losses,
    ...optionLines(scaling),
    line('cost', `${dollars.toFixed(2)} US$`),
  ];
}

function poolLines(stages: DisaggregationSummary | undefined): readonly string[] {
  if (stages === undefined) return [];
  const poolLine = (name: string, { ranks, busyShare, loadBalance, preemptions }: PoolSummary): string =>
    line(
      name,
      `${ranks} ranks, ${percent(busyShare)} busy, busiest to mean ${loadBalance.busyTime.toFixed(2)}, ${preemptions} preemptions`,
    );
  return [poolLine('prefill pool', stages.prefill), poolLine('decode pool', stages.decode)];
}

function spreadLine(name: string, { mean, p50, p90, p99 }: Spread, digits: number): string {
  return `${name.padEnd(22)}${[mean, p50, p90, p99].map((value) => value.toFixed(digits).padStart(10)).join('')}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** Columns of the table of several runs, after those that set the runs apart. */
const COLUMNS: readonly { readonly head: string; readonly of: (run: RunReport) => string }[] = [
  { head: 'TTFT mean', of: ({ summary }) => summary.ttftMs.mean.toFixed(0) },
  { head: 'p50', of: ({ summary }) => summary.ttftMs.p50.toFixed(0) },
  { head: 'p90', of: ({ summary }) => summary.ttftMs.p90.toFixed(0) },
  { head: 'p99', of: ({ summary }) => summary.ttftMs.p99.toFixed(0) },
  { head: 'ITL mean', of: ({ summary }) => summary.itlMs.mean.toFixed(1) },
  { head: 'E2E mean', of: ({ summary }) => summary.e2eMs.mean.toFixed(0) },
  { head: 'E2E p99', of: ({ summary }) => summary.e2eMs.p99.toFixed(0) },
  { head: 'hits %', of: ({ summary }) => (100 * summary.hitRate).toFixed(1) },
  { head: 'ceiling %', of: ({ summary }) => (100 * summary.hitCeiling).toFixed(1) },
  { head: 'balance', of: ({ summary }) => summary.loadBalance.busyTime.toFixed(2) },
  { head: 'tokens/s', of: ({ summary }) => summary.outputTokensPerS.toFixed(0) },
  { head: 'GPU h', of: ({ summary }) => summary.gpuHours.toFixed(2) },
];

/** Further columns of runs whose workers come and go. */
const SCALING_COLUMNS: typeof COLUMNS = [
  { head: 'met %', of: ({ summary }) => (100 * (summary.scaling?.attainment ?? 0)).toFixed(1) },
  { head: 'ups/downs', of: ({ summary }) => `${summary.scaling?.ups ?? 0}/${summary.scaling?.downs ?? 0}` },
  { head: 'US$', of: ({ summary }) => (summary.scaling?.dollars ?? 0).toFixed(2) },
];

export function columnsOf(runs: readonly RunReport[]): typeof COLUMNS {
  return runs.some(({ summary }) => summary.scaling !== undefined) ? [...COLUMNS, ...SCALING_COLUMNS] : COLUMNS;
}

function renderTable(runs: readonly RunReport[]): string {
  const columns = columnsOf(runs);
  const rows = [['', ...columns.map(({ head }) => head)]];
  for (const run of runs) rows.push([labelOf(run), ...columns.map(({ of }) => of(run))]);
  const wallMs = runs.reduce((sum, run) => sum + run.wallMs, 0);
  const end = `Times in ms; ${runs.length} runs simulated in ${(wallMs / 1000).toFixed(1)} s.`;
  return `${fitTable(rows)}\n\n${wrapText(verdictOf(runs))}\n${end}\n`;
}
