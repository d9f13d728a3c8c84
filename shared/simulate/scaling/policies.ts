import { passMs, type SchedulerOptions } from '../../engines/index.ts';
import {
  type ForwardPass,
  type PerPool,
  type Planner,
  type PlannerInput,
  type PlannerState,
  type Pool,
  startPlanner,
  type Targets,
  type TrafficWindow,
  teach,
  tick,
} from '../../planner/index.ts';
import type { Workload } from '../workload.ts';
import type { ScaledPool, ScalingPolicy, ScalingView } from './scaling.ts';

interface Past {
  readonly atMs: number;
  readonly requests: number;
  readonly ended: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Scales by the product's planner, with the input that a fleet would give it. */
export class PlannerPolicy implements ScalingPolicy {
  readonly tickMs: number;
  readonly #planner: Planner;
  readonly #startSeconds: number;
  #state: PlannerState;
  #past: Past[] = [];

  /** @param profiles passes that were measured before */
  constructor(planner: Planner, startMs: number, profiles: PerPool<readonly (readonly ForwardPass[])[]> = {}) {
    this.#planner = planner;
    this.#state = teach(startPlanner(0), planner.config, profiles);
    this.#startSeconds = startMs / 1000;
    this.tickMs = planner.config.tickSeconds * 1000;
  }

  decide(view: ScalingView): Targets | undefined {
    this.#remember(view);
    const { state, effect } = tick(this.#state, this.#inputOf(view), this.#planner);
    this.#state = state;
    return effect.targets;
  }

  #inputOf({ nowMs, pools, started, isl, osl, running }: ScalingView): PlannerInput {
    const each = <T>(read: (pool: ScaledPool) => T): Partial<Record<Pool, T>> =>
      Object.fromEntries(Object.entries(pools).map(([name, pool]) => [name, read(pool)]));
    return {
      nowS: nowMs / 1000,
      counts: each(({ ready, starting }) => ({
        ready,
        starting,
        expected: ready + starting, // workers that were lost or failed to start are no longer on their way
      })),
      passes: each(({ pool }) => passesOf(pool)),
      traffic: this.#window(nowMs),
      started,
      isl,
      osl,
      held: Object.values(pools).reduce((total, { held }) => total + held, 0),
      running,
      backlog: each(({ pool }) => backlogOf(pool)),
      startSeconds: this.#startSeconds,
    };
  }

  #remember({ nowMs, started, ended, isl = 0, osl = 0 }: ScalingView): void {
    this.#past.push({ atMs: nowMs, requests: started, ended, inputTokens: ended * isl, outputTokens: ended * osl });
    const fromMs = nowMs - 1000 * this.#planner.config.throughputAdjustmentIntervalSeconds;
    this.#past = this.#past.filter(({ atMs }) => atMs > fromMs + 1e-6);
  }

  #window(nowMs: number): TrafficWindow {
    const sum = (read: (past: Past) => number): number => this.#past.reduce((total, past) => total + read(past), 0);
    const requests = sum((past) => past.requests);
    const ended = sum((past) => past.ended);
    const seconds = Math.min(nowMs / 1000, this.#planner.config.throughputAdjustmentIntervalSeconds);
    const mean = (total: number): number => (ended > 0 ? total / ended : 0);
    return {
      seconds,
      requests,
      isl: mean(sum((past) => past.inputTokens)),
      osl: mean(sum((past) => past.outputTokens)),
    };
  }
}

function passesOf(pool: ScaledPool['pool']): readonly ForwardPass[] {
  return pool.workers
    .filter(({ state }) => state === 'ready')
    .flatMap(({ ranks }) => ranks.flatMap(({ lastPass }) => lastPass ?? []));
}

/** Returns the workers at which more requests wait than run, and the requests that wait at workers. */
function backlogOf({ workers }: ScaledPool['pool']): { readonly workers: number; readonly requests: number } {
  let behind = 0;
  let requests = 0;
  for (const { ranks, state } of workers) {
    if (state !== 'ready') continue;
    const waiting = ranks.reduce((total, rank) => total + rank.waiting, 0);
    const load = ranks.reduce((total, rank) => total + rank.load, 0);
    requests += waiting;
    if (waiting > load - waiting) behind++;
  }
  return { workers: behind, requests };
}

/**
 * Knows the workload, and has the workers that every moment needs by the time that it comes: the best that a planner
 * could do.
 */
export class ForesightPolicy implements ScalingPolicy {
  readonly tickMs = 5000;
  readonly #workload: Workload;
  readonly #perEngine: number;
  readonly #startMs: number;

  /** @param perEngine requests a second that an engine serves within its targets */
  constructor(workload: Workload, perEngine: number, startMs: number) {
    this.#workload = workload;
    this.#perEngine = perEngine;
    this.#startMs = startMs;
  }

  decide({ nowMs }: ScalingView): Targets {
    const soon = this.#needAt(nowMs + this.#startMs, this.tickMs);
    const during = this.#needAt(nowMs, this.#startMs);
    return { decode: Math.max(1, soon, during) };
  }

  /** Returns the largest need of any 15 s within a time. */
  #needAt(fromMs: number, lengthMs: number): number {
    const { arrivalMs } = this.#workload;
    let most = 0;
    for (let at = fromMs; at < fromMs + lengthMs; at += this.tickMs) {
      const count = firstAfter(arrivalMs, at + 15_000) - firstAfter(arrivalMs, at);
      most = Math.max(most, count / 15);
    }
    return Math.ceil(most / this.#perEngine - 0.1);
  }
}

function firstAfter(times: Float64Array, atMs: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

const PROMPTS = [256, 512, 1024, 2048, 4096];
const BATCHES = [1, 4, 16, 48, 128, 256];
const CONTEXTS = [600, 1600];

/**
 * Returns passes of a mock engine over a grid of loads, as a profile would measure them: at most as many as a planner
 * keeps of each kind.
 */
export function profilePasses(
  engine: SchedulerOptions,
  kind: 'prefill' | 'decode' | 'aggregated',
): readonly (readonly ForwardPass[])[] {
  const capacityTokens = engine.numGpuBlocks * engine.blockSizeTokens;
  const prompts = kind === 'decode' ? [0] : kind === 'prefill' ? PROMPTS : [0, ...PROMPTS];
  const decodes =
    kind === 'prefill' ? [[0, 0] as const] : BATCHES.flatMap((batch) => CONTEXTS.map((each) => [batch, each] as const));
  return prompts.flatMap((tokens) =>
    decodes.flatMap(([batch, context]) => {
      const kvTokens = batch * context;
      if (tokens + batch === 0 || batch > engine.maxNumSeqs || kvTokens > capacityTokens) return [];
      const prefills = tokens > 0 ? 1 : 0;
      const work = { prefills, prefillStart: 0, prefillEnd: tokens, decodes: batch, decodeContext: kvTokens };
      const wallTimeS = passMs(work, capacityTokens, engine) / 1000;
      return [[passOf(prefills, tokens, batch, kvTokens, wallTimeS)]];
    }),
  );
}

function passOf(
  prefillRequests: number,
  prefillTokens: number,
  decodeRequests: number,
  decodeKvTokens: number,
  wallTimeS: number,
): ForwardPass {
  return {
    workerId: 'profile',
    dpRank: 0,
    wallTimeS,
    prefillRequests,
    prefillTokens,
    prefillKvTokens: 0,
    decodeRequests,
    decodeKvTokens,
    queuedPrefillRequests: 0,
    queuedPrefillTokens: 0,
    queuedDecodeRequests: 0,
    queuedDecodeKvTokens: 0,
  };
}
