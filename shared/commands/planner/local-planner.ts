import type { Clock } from '../../clock/index.ts';
import { type Planner, type PlannerState, tick } from '../../planner/index.ts';
import { type CountedDemand, demandSince } from './demand.ts';

/** Workers of this machine that may become more or fewer. */
export interface ScalableWorkers {
  readonly ready: number;
  readonly starting: number;
  /** Seconds from a start to a worker that serves, of the last starts: the 90th percentile; undefined before the first. */
  readonly startSeconds: number | undefined;
  /** Starts what is missing; what is too many takes nothing new and ends with its last request. */
  scaleTo(count: number): void;
}

export interface LocalPlannerOptions {
  readonly planner: Planner;
  /** What it has learned before. */
  readonly state: PlannerState;
  readonly clock: Clock;
  readonly workers: ScalableWorkers;
  count(): Promise<CountedDemand>;
  /** One line for each decision. */
  tell(line: string): void;
}

/** Scales the workers of one machine: looks at every tick, and at once when a request finds nobody. */
export class LocalPlanner {
  readonly #options: LocalPlannerOptions;
  readonly #ended = new AbortController();
  #state: PlannerState;
  #before: CountedDemand | undefined;
  #startedSinceTick = 0;
  #isWoken = false;
  #wake: () => void = () => {};
  #toldReady: number;

  constructor(options: LocalPlannerOptions) {
    this.#options = options;
    this.#state = options.state;
    this.#toldReady = options.workers.ready;
  }

  /** Runs until `close`. */
  async run(): Promise<void> {
    const { clock, planner } = this.#options;
    const { signal } = this.#ended;
    while (!signal.aborted) {
      await this.#look();
      if (signal.aborted) return;
      await this.#pause(planner.config.tick_seconds * 1000, clock);
    }
  }

  /** A request waits and nobody serves. */
  wake(): void {
    this.#isWoken = true;
    this.#wake();
  }

  close(): void {
    this.#ended.abort();
    this.#wake();
  }

  async #pause(ms: number, clock: Clock): Promise<void> {
    if (this.#isWoken) {
      this.#isWoken = false;
      return;
    }
    await new Promise<void>((resolve) => {
      const timer = clock.after(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
    this.#wake = () => {};
    this.#isWoken = false;
  }

  async #look(): Promise<void> {
    const { planner, workers, clock, tell, count } = this.#options;
    const now = await count();
    const seen = demandSince(this.#before ?? now, now);
    this.#before = now;
    this.#startedSinceTick += seen.started;
    const { ready, starting, startSeconds } = workers;
    this.#tellReady(ready);
    const { state, effect } = tick(
      this.#state,
      {
        nowS: clock.nowMs() / 1000,
        counts: { decode: { ready, starting } },
        started: this.#startedSinceTick,
        held: seen.held,
        running: seen.running,
        isl: seen.isl,
        osl: seen.osl,
        startSeconds,
        observed: { decode: { itlMs: seen.itlMs } },
      },
      planner,
    );
    this.#startedSinceTick = 0;
    this.#state = state;
    const target = effect.targets?.decode;
    if (target === undefined || target === ready + starting) return;
    tell(`${planner.config.advisory ? 'would change ' : ''}${effect.reason.replace('decode ', 'workers ')}`);
    if (!planner.config.advisory) workers.scaleTo(target);
  }

  #tellReady(ready: number): void {
    if (ready === this.#toldReady) return;
    this.#toldReady = ready;
    this.#options.tell(ready === 1 ? '1 worker serves' : `${ready} workers serve`);
  }
}
