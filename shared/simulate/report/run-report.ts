import type { PoolRole } from '../../router/index.ts';
import type { OptionPoint } from '../ec2/ledger.ts';
import type { Simulation } from '../simulate.ts';
import { meetsTargets, type Summary, summarize } from '../summary.ts';
import type { SeedSpread } from './figures.ts';

/** One run of a report. */
export interface RunReport {
  /** Values of the sweep that distinguish the run, by flag without dashes; empty without a sweep. */
  readonly swept: Readonly<Record<string, string>>;
  /** Description of the simulation for a reader: workload, fleet, routing. */
  readonly about: Readonly<Record<string, string | number>>;
  readonly summary: Summary;
  readonly curves: Curves;
  /** Differences between the seeds whose means the summary has; undefined for one seed. */
  readonly seeds?: SeedSpread | undefined;
  /** Milliseconds that the simulation took on this machine; everything else in a report repeats with its seed. */
  readonly wallMs: number;
}

/** Sums one simulation up for a report. */
export function reportRun(simulation: Simulation, facts: Pick<RunReport, 'swept' | 'about' | 'wallMs'>): RunReport {
  return { ...facts, summary: summarize(simulation), curves: curvesOf(simulation) };
}

/** Returns the name of a run among the others of its report: words stand for themselves, numbers need their flag. */
export function labelOf({ swept }: Pick<RunReport, 'swept'>): string {
  const parts = Object.entries(swept).map(([flag, value]) =>
    /^[\d.]+$|^(true|false)$/.test(value) ? `${flag} ${value}` : value,
  );
  return parts.length === 0 ? 'run' : parts.join(', ');
}

/** A run as it is printed: its figures at the top, beside what was simulated. */
function toPlain({ swept, about, summary, seeds, wallMs }: RunReport): object {
  return { ...summary, ...(seeds && { seeds }), wallMs, about, ...(Object.keys(swept).length === 0 ? {} : { swept }) };
}

/**
 * One JSON object: the figures of the run, or `runs` with one entry each in a sweep. `withCurves` adds what charts
 * show.
 */
export function renderJson(runs: readonly RunReport[], withCurves = false): string {
  const plain = runs.map((run) => (withCurves ? { ...toPlain(run), curves: run.curves } : toPlain(run)));
  const [only] = plain;
  return `${JSON.stringify(runs.length === 1 && Object.keys(runs[0]!.swept).length === 0 ? only : { runs: plain })}\n`;
}

/** A run whose first tokens come within this share of the soonest ones is as good a choice. */
const CLOSE_SHARE = 0.5;

/** Returns the verdict of a report in a sentence or two. */
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

/** Returns the cost of the soonest run, and the run that is nearly as good for less. */
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

const CDF_POINTS = 201;
const TIME_BINS = 120;
const SCALING_BINS = 240;

/** A simulation as lines to draw. */
interface Curves {
  /** TTFT at even shares of the requests, from the fastest to the slowest. */
  readonly ttftMs: readonly number[];
  readonly e2eMs: readonly number[];
  /** Width of an entry of the next three. */
  readonly binMs: number;
  /** Mean TTFT of the requests that arrived in each bin; null if none did. */
  readonly ttftByTimeMs: readonly (number | null)[];
  /** Requests under way at the end of each bin. */
  readonly underWay: readonly number[];
  /** Share of the prompt tokens that arrived in each bin that was found cached; null if none arrived. */
  readonly hitRate: readonly (number | null)[];
  readonly ranks: readonly RankUse[];
  /** Only if workers come and go. */
  readonly scaling?: readonly ScalingMoment[];
  /** Only for a fleet on EC2: each option over time, in instances. */
  readonly options?: readonly OptionCurve[];
}

interface OptionCurve {
  readonly pool: string;
  readonly option: string;
  readonly points: readonly OptionPoint[];
}

/** Part of the time of a fleet whose workers come and go. */
interface ScalingMoment {
  /** Its end. */
  readonly atMs: number;
  /** Requests a second. */
  readonly arrivals: number;
  readonly ready: number;
  /** Workers that serve, start and drain. */
  readonly paid: number;
  /** Share of its requests that met their targets; null if none arrived. */
  readonly met: number | null;
}

interface RankUse {
  readonly role: PoolRole;
  /** Number among the ranks of its role. */
  readonly worker: number;
  readonly dpRank: number;
  readonly requests: number;
  readonly promptTokens: number;
  /** Share of the time spent in passes. */
  readonly busyShare: number;
}

/** Draws a simulation. */
function curvesOf(simulation: Simulation): Curves {
  const { ranks, durationMs } = simulation;
  return {
    ttftMs: quantiles(simulation.ttftMs),
    e2eMs: quantiles(simulation.e2eMs),
    ...timelines(simulation),
    ranks: ranks.map(({ role, worker, dpRank, requests, promptTokens, busyMs }) => ({
      role,
      worker,
      dpRank,
      requests,
      promptTokens,
      busyShare: durationMs > 0 ? busyMs / durationMs : 0,
    })),
    ...scalingCurve(simulation),
    ...optionCurves(simulation),
  };
}

/** In bins of at least three ticks: single ones would be noise. */
function scalingCurve(simulation: Simulation): Pick<Curves, 'scaling'> {
  const { scaling, durationMs } = simulation;
  const points = scaling?.points ?? [];
  if (points.length === 0) return {};
  const stride = Math.max(3, Math.ceil(points.length / SCALING_BINS));
  const binMs = (points[1]?.atMs ?? durationMs) - (points[0]?.atMs ?? 0) || durationMs;
  const bins = Math.ceil(points.length / stride) + 1;
  const arrived = new Float64Array(bins);
  const met = new Float64Array(bins);
  simulation.arrivedMs.forEach((arrivedMs, request) => {
    const bin = Math.min(bins - 1, Math.floor(arrivedMs / (binMs * stride)));
    arrived[bin]!++;
    if (meetsTargets(simulation, request)) met[bin]!++;
  });
  return {
    scaling: points
      .filter((_, at) => at % stride === stride - 1)
      .map(({ atMs, ready, starting, draining }, bin) => ({
        atMs,
        arrivals: arrived[bin]! / ((binMs * stride) / 1000),
        ready,
        paid: ready + starting + draining,
        met: arrived[bin] === 0 ? null : met[bin]! / arrived[bin]!,
      })),
  };
}

function optionCurves({ scaling }: Simulation): Pick<Curves, 'options'> {
  if (scaling?.ec2 === undefined) return {};
  return {
    options: scaling.ec2.options.map(({ pool, option, points }) => {
      const stride = Math.max(1, Math.ceil(points.length / SCALING_BINS));
      return { pool, option, points: points.filter((_, at) => at % stride === 0) };
    }),
  };
}

function quantiles(values: Float64Array): readonly number[] {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort();
  if (sorted.length === 0) return [];
  return Array.from(
    { length: CDF_POINTS },
    (_, at) => sorted[Math.round((at / (CDF_POINTS - 1)) * (sorted.length - 1))]!,
  );
}

function timelines(simulation: Simulation): Pick<Curves, 'binMs' | 'ttftByTimeMs' | 'underWay' | 'hitRate'> {
  const binMs = Math.max(1, simulation.durationMs / TIME_BINS);
  const { inputTokens } = simulation.options.workload;
  const requests = new Float64Array(TIME_BINS);
  const ttftMs = new Float64Array(TIME_BINS);
  const promptTokens = new Float64Array(TIME_BINS);
  const cachedTokens = new Float64Array(TIME_BINS);
  const change = new Float64Array(TIME_BINS + 1);
  const binOf = (timeMs: number): number => Math.min(TIME_BINS - 1, Math.floor(timeMs / binMs));
  simulation.ttftMs.forEach((value, request) => {
    if (Number.isNaN(value)) return;
    const arrivedMs = simulation.arrivedMs[request]!;
    const bin = binOf(arrivedMs);
    requests[bin]!++;
    ttftMs[bin]! += value;
    promptTokens[bin]! += inputTokens[request]!;
    cachedTokens[bin]! += simulation.cachedTokens[request]!;
    change[bin]!++;
    change[binOf(arrivedMs + simulation.e2eMs[request]!)]!--;
  });
  let underWay = 0;
  return {
    binMs,
    ttftByTimeMs: Array.from(requests, (count, bin) => (count === 0 ? null : ttftMs[bin]! / count)),
    underWay: Array.from(requests, (_, bin) => {
      underWay += change[bin]!;
      return underWay;
    }),
    hitRate: Array.from(promptTokens, (tokens, bin) => (tokens === 0 ? null : cachedTokens[bin]! / tokens)),
  };
}
