import { FIGURE_TITLES, type Figure } from '../report/figures.ts';
import { COLUMNS_MAX, fitTable, wrapText } from '../report/text-layout.ts';
import type { Measured, TunedDynamo } from './tune.ts';

/** A comparison of the cost model `stator` with the best settings of Dynamo's formula. */
export interface TuneReport {
  /** Description of the simulation for a reader: workload, fleet, routing. */
  readonly about: Readonly<Record<string, string | number>>;
  readonly stator: Measured;
  readonly dynamo: TunedDynamo;
  readonly wallMs: number;
}

/** Columns of the names of figures beside their settings. */
const NAME_COLUMNS = 14;

const FIGURES = Object.keys(FIGURE_TITLES) as readonly Figure[];

/** Returns `stator / best - 1`: negative if `stator` is better than the best setting for the figure. */
export function differenceOf(figure: Figure, { stator, dynamo }: Pick<TuneReport, 'stator' | 'dynamo'>): number {
  const { value } = dynamo.best[figure];
  return value > 0 ? stator[figure] / value - 1 : 0;
}

/** One JSON object. */
export function renderTuneJson(report: TuneReport): string {
  const differences = FIGURES.map((figure) => [figure, differenceOf(figure, report)] as const);
  return `${JSON.stringify({ ...report, difference: Object.fromEntries(differences) })}\n`;
}

/** A report for a terminal: a row for each figure, and the setting of Dynamo's formula that is best for it. */
export function renderTuneText(report: TuneReport): string {
  const { about, stator, dynamo, wallMs } = report;
  const rows = FIGURES.map((figure) => [
    FIGURE_TITLES[figure],
    stator[figure].toFixed(0),
    dynamo.best[figure].value.toFixed(0),
    percent(differenceOf(figure, report)),
    dynamo.defaults[figure].toFixed(0),
  ]);
  const head = Object.entries(about).map(([name, value]) => `${name} ${value}`);
  const settings = FIGURES.map((figure) => FIGURE_TITLES[figure].padEnd(NAME_COLUMNS) + flagsOf(dynamo.best[figure]));
  return [
    wrapText(head.join(', ')),
    '',
    fitTable([['', 'stator', 'best of dynamo', 'stator to best', 'dynamo defaults'], ...rows]),
    '',
    `The best of ${dynamo.tried} settings of Dynamo's formula, simulated in ${(wallMs / 1000).toFixed(1)} s:`,
    ...settings,
    '',
  ].join('\n');
}

function flagsOf({ setting }: TunedDynamo['best'][Figure]): string {
  const flags = Object.entries(setting).map(([flag, value]) => `--${flag}=${value}`);
  return wrapText(flags.join(' '), COLUMNS_MAX - NAME_COLUMNS).replaceAll('\n', `\n${' '.repeat(NAME_COLUMNS)}`);
}

function percent(share: number): string {
  return `${share >= 0 ? '+' : ''}${(100 * share).toFixed(1)} %`;
}
