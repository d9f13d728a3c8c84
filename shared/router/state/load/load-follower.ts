import type { Clock, Random } from '../../../clock/index.ts';
import { PeriodicTask } from '../../../concurrency/index.ts';
import type { LoadRow, PoolAddress, RouterState } from '../types.ts';

export interface LoadFollowerOptions {
  readonly state: RouterState;
  readonly pool: PoolAddress;
  readonly clock: Clock;
  readonly random: Random;
  /** Between two looks. @default 1000 */
  readonly intervalMs?: number;
  /** Told of every look that succeeded. */
  onLoads(rows: readonly LoadRow[]): void;
  /** Hears of looks that failed; what was last known stands. */
  onProblem(problem: unknown): void;
}

const INTERVAL_MS = 1000;

/** The loads of a pool as the table knows them, for routers that stay. */
export class LoadFollower {
  readonly #task: PeriodicTask;
  readonly #clock: Clock;
  #rows: readonly LoadRow[] = [];
  #readAtMs: number | undefined;

  constructor(options: LoadFollowerOptions) {
    const { state, pool, clock, random, intervalMs = INTERVAL_MS, onLoads, onProblem } = options;
    this.#clock = clock;
    this.#task = new PeriodicTask({
      clock,
      random,
      periodMs: intervalMs,
      run: async (signal) => {
        const askedAtMs = clock.nowMs();
        this.#rows = await state.loads(pool, signal);
        this.#readAtMs = askedAtMs;
        onLoads(this.#rows);
      },
      onProblem,
    });
  }

  start(): void {
    this.#task.start();
  }

  /** As of the last look that succeeded. */
  get rows(): readonly LoadRow[] {
    return this.#rows;
  }

  /** Age of `rows` in milliseconds; undefined before the first look. */
  get ageMs(): number | undefined {
    return this.#readAtMs === undefined ? undefined : this.#clock.nowMs() - this.#readAtMs;
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
