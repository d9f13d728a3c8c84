import type { Clock, Random } from '../../clock/index.ts';
import { PeriodicTask } from '../../concurrency/index.ts';
import type { LeaseHolder } from './lease-holder.ts';
import type { LoadRow, PoolAddress, RouterState } from './types.ts';

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

export interface CounterSweepOptions {
  readonly state: RouterState;
  readonly pool: PoolAddress;
  /** Its holder sweeps. */
  readonly lease: Pick<LeaseHolder, 'fence'>;
  readonly clock: Clock;
  readonly random: Random;
  /** A worker that was silent for so long is dead: one that lives reports every 5 s. @default 60_000 */
  readonly silentMsMax?: number;
  /** Told how many ranks a round has forgotten, unless none. */
  onSwept?(ranks: number): void;
  /** Hears of rounds that failed; the next one goes on. */
  onProblem(problem: unknown): void;
}

const SILENT_MS_MAX = 60_000;
/** Rows that one round deletes at most, so that the end of a large fleet does not take the table's capacity. */
const SWEPT_MAX = 100;

/**
 * Forgets the counters of workers that died without withdrawing them, once a minute while the lease is held. Each deletion
 * depends on the report that was seen: a worker that was only silent keeps its row, and one whose row is gone makes it anew.
 */
export class CounterSweep {
  readonly #options: CounterSweepOptions;
  readonly #silentMsMax: number;
  readonly #task: PeriodicTask;

  constructor(options: CounterSweepOptions) {
    const { clock, random, silentMsMax = SILENT_MS_MAX, onProblem } = options;
    this.#options = options;
    this.#silentMsMax = silentMsMax;
    this.#task = new PeriodicTask({
      clock,
      random,
      periodMs: silentMsMax,
      run: (signal) => this.#round(signal),
      onProblem,
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { state, pool, lease, onSwept } = this.#options;
    if (lease.fence === undefined) return;
    const rows = await state.loads(pool, signal);
    const deadMs = state.nowMs() - this.#silentMsMax;
    const dead = rows.filter(({ reportedAtMs }) => reportedAtMs < deadMs).slice(0, SWEPT_MAX);
    let swept = 0;
    try {
      for (const row of dead) {
        if (lease.fence === undefined) return; // its next holder goes on
        if (await state.sweep(pool, row, signal)) swept++;
      }
    } finally {
      if (swept > 0) onSwept?.(swept);
    }
  }
}
