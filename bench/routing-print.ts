import { FIGURE_TITLES, type Figure } from '../shared/simulate/report/figures.ts';
import { differenceOf } from '../shared/simulate/tune/render-tune.ts';
import type { Measured, TunedDynamo } from '../shared/simulate/tune/tune.ts';
import { nameOf, type RoutingRow } from './routing-rows.ts';

/** One line of the file of results. The last line of a row and side counts. */
export type ResultLine = { readonly row: string; readonly seeds: string; readonly cpuMs: number } & (
  | { readonly side: 'stator'; readonly result: Measured }
  | { readonly side: 'dynamo'; readonly result: TunedDynamo }
);

const FIGURES = Object.keys(FIGURE_TITLES) as readonly Figure[];
/** A row is met if no figure is worse than this by the best setting for it. */
const WORSE_MAX = 0.02;
/** A figure is clearly better from here on. */
const CLEARLY_BETTER = -0.1;

/** Prints the rows that have both sides as a table, and how many of them are better or worse. */
export function printTable(rows: readonly RoutingRow[], lines: readonly ResultLine[]): void {
  const heads = ['Row', ...FIGURES.map((figure) => FIGURE_TITLES[figure]), 'hits %'];
  console.log(`| ${heads.join(' | ')} |\n| ${heads.map(() => '---').join(' | ')} |`);
  const differences: number[][] = [];
  for (const row of rows) {
    const own = lines.filter((line) => line.row === nameOf(row));
    const stator = own.findLast((line) => line.side === 'stator');
    const dynamo = own.findLast((line) => line.side === 'dynamo');
    if (stator?.side !== 'stator' || dynamo?.side !== 'dynamo') continue;
    const sides = { stator: stator.result, dynamo: dynamo.result };
    const changes = FIGURES.map((figure) => differenceOf(figure, sides));
    differences.push(changes);
    const cells = FIGURES.map((figure, at) => {
      const best = sides.dynamo.best[figure].value.toFixed(0);
      return `${sides.stator[figure].toFixed(0)} / ${best}, ${percent(changes[at]!)}`;
    });
    console.log(`| ${[nameOf(row), ...cells, (100 * sides.stator.hitRate).toFixed(1)].join(' | ')} |`);
  }
  const all = differences.flat();
  const behind = differences.filter((changes) => changes.some((change) => change > WORSE_MAX)).length;
  const ahead = all.filter((change) => change <= CLEARLY_BETTER).length;
  console.log(
    `\nEach cell: stator / best setting of Dynamo's formula for that figure. ${differences.length} rows, ${behind} of them with a figure more than 2 % worse; ${ahead} of ${all.length} figures at least 10 % better.`,
  );
}

function percent(share: number): string {
  return `${share >= 0 ? '+' : ''}${(100 * share).toFixed(1)} %`;
}
