import { parsePlannerConfig } from '../../../shared/planner/config.ts';
import {
  type Planner,
  type PlannerInput,
  type PlannerState,
  startPlanner,
  tick,
} from '../../../shared/planner/index.ts';

/** Seconds between two ticks. */
export const TICK_S = 5;

/** Returns a planner with the rate law for one pool of workers that each serve 15 requests a second. */
export function plannerOf(settings: object = {}): Planner {
  const config = parsePlannerConfig({ mode: 'agg', max_gpu_budget: 16, rate_requests_per_second: 15, ...settings });
  return { config, engines: { decode: { gpus: 1 } } };
}

interface Step {
  /** Requests per second. */
  readonly rate?: number | undefined;
  readonly held?: number;
  readonly running?: number;
  /** Number of workers with more waiting than running requests, and the requests that wait at workers. */
  readonly backlog?: { readonly workers: number; readonly requests: number } | undefined;
}

/** A fleet whose workers serve at once, so that it always has the decided size. */
export class ObedientFleet {
  state: PlannerState = startPlanner(0);
  nowS = 0;
  ready: number;
  reason = '';
  readonly #planner: Planner;

  constructor(planner: Planner, ready = 1) {
    this.#planner = planner;
    this.ready = ready;
  }

  input({ rate, held = 0, running = 0, backlog }: Step): PlannerInput {
    const started = rate === undefined ? undefined : Math.round(rate * TICK_S);
    const counts = { decode: { ready: this.ready } };
    return { nowS: this.nowS, counts, started, held, running, ...(backlog && { backlog: { decode: backlog } }) };
  }

  step(step: Step): number {
    this.nowS += TICK_S;
    const { state, effect } = tick(this.state, this.input(step), this.#planner);
    this.state = state;
    this.reason = effect.reason;
    this.ready = effect.targets?.decode ?? this.ready;
    return this.ready;
  }

  run(step: Step, seconds: number): number {
    for (const endS = this.nowS + seconds; this.nowS < endS; ) this.step(step);
    return this.ready;
  }
}
