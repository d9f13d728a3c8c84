import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { LawTick, PlannerConfig, Pool } from '../../planner/index.ts';

/** Numbers of one tick, or the means of several, by name. */
export interface HistoryPoint {
  readonly atMs: number;
  readonly figures: Readonly<Record<string, number>>;
  /** Reason of the latest tick. */
  readonly reason: string;
}

const POINTS_MAX = 4096;

/** Ticks of a planner over time. Their number is bounded: over a long time, neighbours become one point. */
export class PlannerHistory {
  readonly #gpusOf: (pool: Pool) => number;
  #points: HistoryPoint[] = [];
  /** Ticks that a point stands for. */
  #ticksOfPoint = 1;
  #waiting: HistoryPoint[] = [];
  #gpuSeconds = 0;
  #tickedAtS: number | undefined;

  constructor(gpusOf: (pool: Pool) => number) {
    this.#gpusOf = gpusOf;
  }

  get points(): readonly HistoryPoint[] {
    return this.#waiting.length === 0 ? this.#points : [...this.#points, joined(this.#waiting)];
  }

  add(tick: LawTick): void {
    const seconds = tick.atS - (this.#tickedAtS ?? tick.atS - tick.seconds);
    this.#tickedAtS = tick.atS;
    for (const pool of ['prefill', 'decode'] as const) {
      const { ready = 0, starting = 0 } = tick.counts[pool] ?? {};
      this.#gpuSeconds += (ready + starting) * this.#gpusOf(pool) * seconds;
    }
    this.#put({ ...pointOf(tick), gpu_hours: this.#gpuSeconds / 3600 }, tick);
  }

  /** Forgets everything except the hours. */
  clear(): void {
    this.#points = [];
    this.#waiting = [];
    this.#ticksOfPoint = 1;
  }

  #put(figures: Readonly<Record<string, number>>, { atS, effect: { reason } }: LawTick): void {
    this.#waiting.push({ atMs: Math.round(atS * 1000), figures, reason });
    if (this.#waiting.length < this.#ticksOfPoint) return;
    this.#points.push(joined(this.#waiting));
    this.#waiting = [];
    if (this.#points.length < POINTS_MAX) return;
    const pairs = Array.from({ length: POINTS_MAX / 2 }, (_, at) => this.#points.slice(2 * at, 2 * at + 2));
    this.#points = pairs.map(joined);
    this.#ticksOfPoint *= 2;
  }
}

/** Returns the numbers of a tick, named as the gauges without their prefix. */
function pointOf({ counts, effect, started, seconds, held, running, ...tick }: LawTick): Record<string, number> {
  const figures: Record<string, number> = { held_requests: held, running_requests: running };
  const put = (name: string, value: number | undefined): void => {
    if (value !== undefined && Number.isFinite(value)) figures[name] = value;
  };
  for (const pool of ['prefill', 'decode'] as const) {
    const { ready, starting } = counts[pool] ?? { ready: 0, starting: 0 };
    put(`num_${pool}_replicas`, ready);
    put(`starting_${pool}_replicas`, starting);
    put(`scale_to_${pool}`, effect.targets?.[pool] ?? ready + starting);
    put(`engine_rps_${pool}`, effect.rate?.pools[pool]?.perEngine ?? effect.loops?.throughput?.capacities[pool]);
  }
  put('observed_requests_per_second', started === undefined ? undefined : started / Math.max(seconds, 1e-3));
  put('predicted_requests_per_second', effect.rate?.pools.decode?.forecast ?? effect.rate?.pools.prefill?.forecast);
  put('observed_ttft_ms', tick.ttftMs);
  put('observed_itl_ms', tick.itlMs);
  put('estimated_ttft_ms', effect.loops?.load?.estimatedTtftMs);
  put('estimated_itl_ms', effect.loops?.load?.estimatedItlMs);
  put('observed_input_sequence_tokens', tick.isl);
  put('observed_output_sequence_tokens', tick.osl);
  return figures;
}

/** Returns the means of the known numbers; hours are not averaged, because they only grow. */
function joined(points: readonly HistoryPoint[]): HistoryPoint {
  const latest = points.at(-1)!; // never called with none
  if (points.length === 1) return latest;
  const names = new Set(points.flatMap(({ figures }) => Object.keys(figures)));
  const mean = (name: string): number => {
    const values = points.flatMap(({ figures }) => (figures[name] === undefined ? [] : [figures[name]]));
    return values.reduce((total, value) => total + value, 0) / values.length;
  };
  const figures = Object.fromEntries([...names].map((name) => [name, mean(name)]));
  const { gpu_hours = 0 } = latest.figures;
  return { ...latest, figures: { ...figures, gpu_hours } };
}

const SCHEMA = 'planner_diagnostics_snapshot_log_v1';

interface ReportContents {
  readonly html: string;
  readonly points: readonly HistoryPoint[];
  /** Number of the report of this process, from 1. */
  readonly number: number;
}

/**
 * Writes a report, and its numbers beside it, and returns the path of the page. It replaces existing files as a whole.
 */
export async function writeReport({ html, points, number }: ReportContents, config: PlannerConfig): Promise<string> {
  const { reportOutputDir: folder, reportFilename: fixed, reportWriteGzipLog: hasLog } = config;
  const last = points.at(-1);
  const label = new Date(last?.atMs ?? 0).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '_');
  const name = fixed ?? `planner_report_${label}_${String(number).padStart(3, '0')}.html`;
  const path = join(folder, name);
  await mkdir(folder, { recursive: true });
  await replace(path, html);
  if (hasLog) await replace(`${path.replace(/\.html$/i, '')}.log.jsonl.gz`, await logOf(path, points, config));
  return path;
}

async function replace(path: string, contents: string | Buffer): Promise<void> {
  await writeFile(`${path}.tmp`, contents);
  await rename(`${path}.tmp`, path);
}

async function logOf(path: string, points: readonly HistoryPoint[], config: PlannerConfig): Promise<Buffer> {
  const at = new Date(points.at(-1)?.atMs ?? 0).toISOString();
  const head = {
    kind: 'metadata',
    generated_at_utc: at,
    num_snapshots: points.length,
    html_report_path: path,
    ttft_ms: config.ttftMs,
    itl_ms: config.itlMs,
  };
  const rows = points.map(({ atMs, figures, reason }) => ({
    kind: 'snapshot',
    timestamp_s: atMs / 1000,
    timestamp_utc: new Date(atMs).toISOString(),
    reason,
    ...figures,
  }));
  const lines = [head, ...rows].map((row) => `${JSON.stringify({ schema: SCHEMA, ...row })}\n`);
  return promisify(gzip)(lines.join(''));
}
