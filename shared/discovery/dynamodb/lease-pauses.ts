import type { Clock, Random } from '../../clock/index.ts';
import { ageMs, type Moment, momentOf } from '../table/table-time.ts';

/** First pause, in periods of reading. Processes that notice a late view in the same second spread over it. */
const FIRST_PERIODS = 5;
/** Longest pause, in periods of reading. */
const PERIODS_MAX = 20;

interface LeasePausesOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Period of reading, in milliseconds. */
  readonly pollMs: number;
}

/**
 * Decides when a process reads the leases in place of a view that is too old. If every process did so each second, the
 * load could keep the gatherer of a slow table from ever writing the view again. So each pause is drawn, and twice as
 * long as the one before, up to a limit.
 *
 * | State | the view is usable | leases asked for | leases read, or not readable |
 * |---|---|---|---|
 * | fresh | - | -> waiting, for up to five periods | -> waiting |
 * | waiting | -> fresh | not before the pause is over | -> waiting, twice as long |
 */
export class LeasePauses {
  readonly #options: LeasePausesOptions;
  #since: Moment | undefined;
  #pauseMs = 0;
  #reads = 0;

  constructor(options: LeasePausesOptions) {
    this.#options = options;
  }

  /** Notes that the view is usable, so that the next pause is short again. */
  viewed(): void {
    this.#since = undefined;
    this.#reads = 0;
  }

  /** Whether to read the leases now. The first time after a usable view, a pause begins. */
  isDue(): boolean {
    const { clock, random, pollMs } = this.#options;
    if (this.#since === undefined) {
      this.#since = momentOf(clock);
      this.#pauseMs = pollMs * FIRST_PERIODS * random.next();
    }
    return ageMs(this.#since, clock) >= this.#pauseMs;
  }

  /** Notes that the leases were read, or could not be read. */
  tried(): void {
    const { clock, random, pollMs } = this.#options;
    const periods = Math.min(FIRST_PERIODS * 2 ** this.#reads++, PERIODS_MAX);
    this.#since = momentOf(clock);
    this.#pauseMs = pollMs * periods * (0.5 + random.next());
  }
}
