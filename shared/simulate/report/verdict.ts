import { labelOf, type RunReport } from './run-report.ts';

/** A run whose first tokens come within this share of the soonest ones is as good a choice. */
const CLOSE_SHARE = 0.5;

/** What a report comes to, in a sentence or two. */
export function verdictOf(runs: readonly RunReport[]): string {
  const [first] = runs;
  if (first === undefined) return '';
  const refused = runs.reduce((sum, { summary }) => sum + summary.refused, 0);
  const refusal = refused === 0 ? '' : ` ${refused} requests were refused.`;
  return (runs.length === 1 ? verdictOfOne(first) : verdictOfSweep(runs)) + refusal;
}

function verdictOfOne({ summary }: RunReport): string {
  const { ttftMs, hitRate, hitCeiling, scaling, gpuHours } = summary;
  if (scaling !== undefined) {
    return (
      `${percent(scaling.attainment)} of the requests met their targets, with ${gpuHours.toFixed(2)} GPU hours (${scaling.dollars.toFixed(2)} US$) ` +
      `and at most ${scaling.readyMax} workers; one in a hundred waits longer than ${ms(ttftMs.p99)} for its first token.`
    );
  }
  return (
    `Half of the requests have their first token within ${ms(ttftMs.p50)}, and one in a hundred waits longer than ${ms(ttftMs.p99)}; ` +
    `${percent(hitRate)} of the prompt tokens were found cached, where one cache for all would have found ${percent(hitCeiling)}.`
  );
}

function verdictOfSweep(runs: readonly RunReport[]): string {
  const bySpeed = runs.toSorted((a, b) => ttftOf(a) - ttftOf(b));
  const best = bySpeed[0]!; // a sweep has runs
  const worst = bySpeed.at(-1)!;
  const head = `${named(best)} has its first tokens soonest: ${ms(ttftOf(best))} on average, ${against(best, worst)}`;
  return `${head} ${costOf(best, runs)}`;
}

function against(best: RunReport, worst: RunReport): string {
  const times = ttftOf(worst) / Math.max(ttftOf(best), 1e-9);
  if (times < 1.02) return `and ${named(worst)} is as good (${ms(ttftOf(worst))}).`;
  return `${times.toFixed(1)} times as soon as ${named(worst)} (${ms(ttftOf(worst))}).`;
}

/** What the soonest run costs, and which one is nearly as good for less. */
function costOf(best: RunReport, runs: readonly RunReport[]): string {
  const hours = hoursOf(best);
  const near = runs.filter(
    (run) => run !== best && ttftOf(run) <= ttftOf(best) * (1 + CLOSE_SHARE) && hoursOf(run) < hours * 0.95,
  );
  const [cheapest] = near.toSorted((a, b) => hoursOf(a) - hoursOf(b));
  if (cheapest === undefined) return `It takes ${hours.toFixed(2)} GPU hours; none that is nearly as soon takes less.`;
  const saved = percent(1 - hoursOf(cheapest) / hours);
  return `${named(cheapest)} is nearly as soon (${ms(ttftOf(cheapest))}) and saves ${saved} of the GPU hours (${hoursOf(cheapest).toFixed(2)} against ${hours.toFixed(2)}).`;
}

/** In quotes: a name may be several words. */
function named(run: RunReport): string {
  return `"${labelOf(run)}"`;
}

function ttftOf({ summary }: RunReport): number {
  return summary.ttftMs.mean;
}

function hoursOf({ summary }: RunReport): number {
  return summary.gpuHours;
}

function ms(value: number): string {
  return `${value.toFixed(0)} ms`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
