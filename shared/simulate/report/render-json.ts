import type { RunReport } from './run-report.ts';

/** A run as it is printed: its figures at the top, beside what was simulated. */
function toPlain({ swept, about, summary, wallMs }: RunReport): object {
  return { ...summary, wallMs, about, ...(Object.keys(swept).length === 0 ? {} : { swept }) };
}

/** One JSON object: the figures of the run, or `runs` with one entry each in a sweep. `withCurves` adds what charts show. */
export function renderJson(runs: readonly RunReport[], withCurves = false): string {
  const plain = runs.map((run) => (withCurves ? { ...toPlain(run), curves: run.curves } : toPlain(run)));
  const [only] = plain;
  return `${JSON.stringify(runs.length === 1 && Object.keys(runs[0]!.swept).length === 0 ? only : { runs: plain })}\n`;
}
