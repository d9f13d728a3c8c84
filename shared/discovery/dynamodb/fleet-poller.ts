import { setMaxListeners } from 'node:events';
import type { Clock, Random, Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { ageMs, type Moment, momentOf } from '../table/table-time.ts';

/** Requirements for a reading. */
export interface ReadingRequest {
  /** Whether it must show everything written before its begin. */
  readonly isExact: boolean;
  readonly shardKey: string | undefined;
  /** Lowest count of wishes that it must fulfil (`FleetPollerOptions.wants`). @default 0 */
  readonly wants?: number;
  /** Whether it may show more of the last reading instead of newer data. @default false */
  readonly isFurther?: boolean;
}

export interface FleetPollerOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Time until the next reading, once reading was started. */
  readonly periodMs: () => number;
  /** Reads the fleet, and shows the result unless `signal` has aborted meanwhile. */
  readonly read: (request: ReadingRequest, signal: AbortSignal) => Promise<void>;
  /** Whether the shown records contain what the shard key requires. */
  readonly covers: (shardKey: string | undefined) => boolean;
  /** Returns the report about a failed reading, or undefined for a failure that says nothing about the table. */
  readonly explain: (error: unknown) => Error | undefined;
  readonly onFailing: (failure: Error) => void;
  /**
   * Time after a failure during which no caller waits for a reading. `refresh` then starts a reading if none is under
   * way, and returns. With 0, a failure counts for as long as a reading would. @default 0
   */
  readonly openMs?: number;
  /** Counter that increments when readings must contain more than before. @default always 0 */
  readonly wants?: () => number;
}

/** A reading under way. */
interface Attempt {
  readonly request: ReadingRequest;
  readonly began: Moment;
  /** Signal of the reading, which allows many listeners for its parallel calls. */
  readonly aborter: AbortController;
  /** Resolves with the failure of the reading, or with undefined once it is shown. Never rejects. */
  done: Promise<{ readonly error: unknown } | undefined>;
}

/** Longest pause between attempts while the table cannot be read. The pauses double up to this. */
const BACK_OFF_MS_MAX = 5000;
/**
 * First pause while a caller waits for fresh records, because a caller cannot wait for the long pauses. It doubles with
 * each failure.
 */
const REFRESH_RETRY_MS = 25;
/**
 * Age at which the poller aborts a reading that no caller waits for. By then its calls have been answered, or its
 * connection is dead.
 */
const SLOW_MS_MAX = 5000;

/** Repeats readings for the whole process, one at a time. */
export class FleetPoller {
  readonly #options: FleetPollerOptions;
  readonly #closing = new AbortController();
  #timer: Timer | undefined;
  #attempt: Attempt | undefined;
  #isStarted = false;
  #failures = 0;
  /** Begin of the shown reading; for a reading in parts, the begin of the first part. */
  #shown: Moment | undefined;
  /** Begin of the last reading, if it failed. */
  #failed: Moment | undefined;
  /** Time at which a caller last stopped waiting without a result. */
  #gaveUp: Moment | undefined;

  constructor(options: FleetPollerOptions) {
    this.#options = options;
    setMaxListeners(0, this.#closing.signal);
  }

  /** Whether readings have failed since the last one that worked. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Whether a caller has just waited without a result, so that no other caller should wait. */
  get isOpen(): boolean {
    return this.#isWithin(this.#gaveUp, this.#options.openMs ?? 0);
  }

  /** Reads from now on, every period. */
  start(): void {
    this.#isStarted = true;
    this.#schedule();
  }

  /** Notes that readings are now needed more often. */
  hasten(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#schedule();
  }

  /** Returns true if the shown reading began at most `maxAgeMs` ago. */
  isShown(maxAgeMs: number): boolean {
    return this.#isWithin(this.#shown, maxAgeMs);
  }

  /**
   * Reads once, or waits for a reading under way that meets the requirements. Rejects with its failure, or with the
   * signal's reason.
   */
  async readOnce(given: ReadingRequest, signal: AbortSignal): Promise<void> {
    const request = { ...given, wants: this.#wants };
    // A reading under way began before this call.
    if (request.isExact && this.#attempt !== undefined) await untilAborted(this.#attempt.done, signal);
    const outcome = await untilAborted((this.#fitting(request) ?? this.#begin(request)).done, signal);
    if (outcome !== undefined) throw outcome.error;
  }

  /**
   * Resolves once a reading is shown that began at most `maxAgeMs` ago, or at once if there is one. With 0, the reading
   * must begin after the call. Failed readings are repeated until `signal` aborts.
   *
   * It does not wait if a reading that began at most `maxAgeMs` ago has failed, because the next reading of the period
   * tries again. With `openMs`, it also does not wait for that long after a wait without a result.
   */
  async refresh(maxAgeMs: number, shardKey: string | undefined, signal: AbortSignal): Promise<void> {
    const isExact = maxAgeMs <= 0;
    const isFresh = (): boolean => this.isShown(maxAgeMs) && this.#options.covers(shardKey);
    if (!isExact && isFresh()) return;
    if (this.#isWithin(this.#failed, maxAgeMs)) return;
    const request = { isExact, shardKey, wants: this.#wants };
    const attempt = this.#attempt;
    if ((this.#options.openMs ?? 0) > 0 && !isExact) {
      if (await this.#waitBriefly(request, isFresh, signal)) return;
    } else if (attempt !== undefined && !(this.#isWithin(attempt.began, maxAgeMs) && covers(attempt, request))) {
      this.#supersede(attempt);
    }
    for (let delayMs = REFRESH_RETRY_MS; ; delayMs *= 2) {
      const attempt = this.#fitting(request) ?? this.#begin(request);
      if ((await untilAborted(attempt.done, signal)) === undefined) return;
      await this.#options.clock.sleep(delayMs, signal);
    }
  }

  /**
   * Waits for the reading under way, whatever it shows. Does not wait if a wait has just ended in vain. A slow reading
   * may end: if a newer one replaced it each time, no reading would ever end. Returns whether nothing is left to wait
   * for.
   */
  async #waitBriefly(request: ReadingRequest, isFresh: () => boolean, signal: AbortSignal): Promise<boolean> {
    if (this.#attempt !== undefined && !this.#isWithin(this.#attempt.began, SLOW_MS_MAX))
      this.#supersede(this.#attempt);
    if (this.isOpen) {
      if (this.#attempt === undefined) this.#begin(request);
      return true;
    }
    if (this.#attempt === undefined) return false;
    const outcome = await untilAborted(this.#attempt.done, signal);
    return outcome === undefined && isFresh();
  }

  #isWithin(moment: Moment | undefined, ms: number): boolean {
    return moment !== undefined && ageMs(moment, this.#options.clock) <= ms;
  }

  /** Notes that a caller has waited for a reading without a result. */
  gaveUp(): void {
    this.#gaveUp = momentOf(this.#options.clock);
  }

  close(): void {
    this.#timer?.cancel();
    const reason = new Error('the discovery handle is closed');
    this.#closing.abort(reason);
    this.#attempt?.aborter.abort(reason);
  }

  get #wants(): number {
    return this.#options.wants?.() ?? 0;
  }

  #fitting(request: ReadingRequest): Attempt | undefined {
    return this.#attempt !== undefined && covers(this.#attempt, request) ? this.#attempt : undefined;
  }

  #schedule(): void {
    const isBusy = this.#timer !== undefined || this.#attempt !== undefined;
    const { clock, random, periodMs } = this.#options;
    if (isBusy || !this.#isStarted || this.#closing.signal.aborted) return;
    const wantedMs = periodMs();
    const backOffMs = Math.min(wantedMs * 2 ** this.#failures, Math.max(BACK_OFF_MS_MAX, wantedMs));
    this.#timer = clock.after(backOffMs * (0.9 + 0.2 * random.next()), () => {
      this.#timer = undefined;
      this.#begin({ isExact: false, shardKey: undefined, wants: this.#wants });
    });
  }

  #begin(request: ReadingRequest): Attempt {
    if (this.#attempt !== undefined) this.#supersede(this.#attempt);
    this.#timer?.cancel();
    this.#timer = undefined;
    const aborter = new AbortController();
    setMaxListeners(0, aborter.signal);
    const attempt: Attempt = {
      request,
      began: momentOf(this.#options.clock),
      aborter,
      done: Promise.resolve(undefined),
    };
    this.#attempt = attempt;
    attempt.done = this.#read(attempt);
    return attempt;
  }

  /**
   * Aborts a reading that does not meet the requirements. It may have begun before the process was frozen, on a
   * connection that is now dead.
   */
  #supersede(attempt: Attempt): void {
    this.#attempt = undefined;
    attempt.aborter.abort(new Error('a newer reading has begun'));
  }

  async #read(attempt: Attempt): Promise<{ readonly error: unknown } | undefined> {
    const { signal } = attempt.aborter;
    let outcome: { readonly error: unknown } | undefined;
    try {
      await this.#options.read(attempt.request, signal);
      this.#failures = 0;
      this.#failed = undefined;
      this.#gaveUp = undefined;
      if (attempt.request.isFurther !== true) this.#shown = attempt.began;
    } catch (error) {
      outcome = { error };
      if (!signal.aborted) this.#failedWith(error, attempt.began);
    }
    if (this.#attempt === attempt) this.#attempt = undefined;
    this.#schedule();
    return outcome;
  }

  #failedWith(error: unknown, began: Moment): void {
    const failure = this.#options.explain(error);
    if (failure === undefined) return;
    this.#failures++;
    this.#failed = began;
    this.gaveUp();
    this.#options.onFailing(failure);
  }
}

/** Whether the reading meets the requirements. */
function covers({ request: { isExact, shardKey, wants = 0 } }: Attempt, request: ReadingRequest): boolean {
  if (wants < (request.wants ?? 0)) return false;
  return (isExact || !request.isExact) && (shardKey === undefined || shardKey === request.shardKey);
}
