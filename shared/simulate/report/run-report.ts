import type { Simulation } from '../simulate.ts';
import { type Summary, summarize } from '../summary.ts';
import { type Curves, curvesOf } from './curves.ts';

/** One run of a report. */
export interface RunReport {
  /** What sets the run apart: the values of the sweep, by flag without dashes; empty without a sweep. */
  readonly swept: Readonly<Record<string, string>>;
  /** What was simulated, for a reader: workload, fleet, routing. */
  readonly about: Readonly<Record<string, string | number>>;
  readonly summary: Summary;
  readonly curves: Curves;
  /** How long the simulation took on this machine; all else in a report repeats with its seed. */
  readonly wallMs: number;
}

/** Sums one simulation up for a report. */
export function reportRun(simulation: Simulation, facts: Pick<RunReport, 'swept' | 'about' | 'wallMs'>): RunReport {
  return { ...facts, summary: summarize(simulation), curves: curvesOf(simulation) };
}

/** Name of a run among the others of its report: words stand for themselves, numbers need their flag. */
export function labelOf({ swept }: Pick<RunReport, 'swept'>): string {
  const parts = Object.entries(swept).map(([flag, value]) =>
    /^[\d.]+$|^(true|false)$/.test(value) ? `${flag} ${value}` : value,
  );
  return parts.length === 0 ? 'run' : parts.join(', ');
}

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
