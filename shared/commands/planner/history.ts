import type { Look } from '../../planner/index.ts';
import type { Pool } from '../../planner/live/index.ts';

/** Numbers of one look, or the means of several, by name. */
export interface HistoryPoint {
  readonly atMs: number;
  readonly figures: Readonly<Record<string, number>>;
  /** Why the latest of them decided as it did. */
  readonly reason: string;
}

const POINTS_MAX = 4096;

/** The looks of a planner over time: bounded, so that of a long time neighbours are one point. */
export class PlannerHistory {
  readonly #gpusOf: (pool: Pool) => number;
  #points: HistoryPoint[] = [];
  /** Looks that a point stands for. */
  #looksOfPoint = 1;
  #waiting: HistoryPoint[] = [];
  #gpuSeconds = 0;
  #lookedAtS: number | undefined;

  constructor(gpusOf: (pool: Pool) => number) {
    this.#gpusOf = gpusOf;
  }

  get points(): readonly HistoryPoint[] {
    return this.#waiting.length === 0 ? this.#points : [...this.#points, joined(this.#waiting)];
  }

  add(look: Look): void {
    const seconds = look.atS - (this.#lookedAtS ?? look.atS - look.seconds);
    this.#lookedAtS = look.atS;
    for (const pool of ['prefill', 'decode'] as const) {
      const { ready = 0, starting = 0 } = look.counts[pool] ?? {};
      this.#gpuSeconds += (ready + starting) * this.#gpusOf(pool) * seconds;
    }
    this.#put({ ...pointOf(look), gpu_hours: this.#gpuSeconds / 3600 }, look);
  }

  /** Nothing happened so far, but for the hours. */
  clear(): void {
    this.#points = [];
    this.#waiting = [];
    this.#looksOfPoint = 1;
  }

  #put(figures: Readonly<Record<string, number>>, { atS, effect: { reason } }: Look): void {
    this.#waiting.push({ atMs: Math.round(atS * 1000), figures, reason });
    if (this.#waiting.length < this.#looksOfPoint) return;
    this.#points.push(joined(this.#waiting));
    this.#waiting = [];
    if (this.#points.length < POINTS_MAX) return;
    const pairs = Array.from({ length: POINTS_MAX / 2 }, (_, at) => this.#points.slice(2 * at, 2 * at + 2));
    this.#points = pairs.map(joined);
    this.#looksOfPoint *= 2;
  }
}

/** Names as those of the gauges, without their prefix. */
function pointOf({ counts, effect, started, seconds, held, running, ...look }: Look): Record<string, number> {
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
  put('observed_ttft_ms', look.ttftMs);
  put('observed_itl_ms', look.itlMs);
  put('estimated_ttft_ms', effect.loops?.load?.estimatedTtftMs);
  put('estimated_itl_ms', effect.loops?.load?.estimatedItlMs);
  put('observed_input_sequence_tokens', look.isl);
  put('observed_output_sequence_tokens', look.osl);
  return figures;
}

/** Means of what is known of each; hours only grow. */
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
