import { setMaxListeners } from 'node:events';
import type { Clock, Random, Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { ageMs, type Moment, momentOf } from '../table/table-time.ts';

/** What a reading is to show. */
export interface ReadingRequest {
  /** Everything that was written before it began. */
  readonly isExact: boolean;
  readonly shardKey: string | undefined;
  /** Number of what it is to hold (`FleetPollerOptions.wants`). @default 0 */
  readonly wants?: number;
  /** More of what was read just now is wanted, and nothing newer. @default false */
  readonly isFurther?: boolean;
}

export interface FleetPollerOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Until the next reading, once it was started. */
  readonly periodMs: () => number;
  /** Reads and shows what was read, unless `signal` has aborted by then. */
  readonly read: (request: ReadingRequest, signal: AbortSignal) => Promise<void>;
  /** Whether what is shown holds what the shard key asks for. */
  readonly covers: (shardKey: string | undefined) => boolean;
  /** What is told of a failed reading; undefined for a failure that says nothing of the table. */
  readonly explain: (error: unknown) => Error | undefined;
  readonly onFailing: (failure: Error) => void;
  /**
   * How long after a failure nobody waits for a reading: a `refresh` begins one where none is under way, and is over. 0 = a failure
   * counts as long as a reading would. @default 0
   */
  readonly openMs?: number;
  /** Raised when readings are to hold more than before. @default always 0 */
  readonly wants?: () => number;
}

/** A reading under way. */
interface Attempt {
  readonly request: ReadingRequest;
  readonly began: Moment;
  /** Its signal is widened for the parallel calls of a reading. */
  readonly aborter: AbortController;
  /** Undefined when it is shown. Never rejects. */
  done: Promise<{ readonly error: unknown } | undefined>;
}

/** While the table cannot be read, it is tried again after twice the time, up to this. */
const BACK_OFF_MS_MAX = 5000;
/** A caller waits for fresh records: it does not sit out the back-off. Doubled with each failure. */
const REFRESH_RETRY_MS = 25;
/** A reading that others go on without is given up after so long: its calls have had their answers, or it has stood still. */
const SLOW_MS_MAX = 5000;

/** Reads for the whole process, again and again, one reading at a time. */
export class FleetPoller {
  readonly #options: FleetPollerOptions;
  readonly #closing = new AbortController();
  #timer: Timer | undefined;
  #attempt: Attempt | undefined;
  #isStarted = false;
  #failures = 0;
  /** When the reading began that is shown; of one that was read further, the first part of it. */
  #shown: Moment | undefined;
  /** When the last reading began, if it failed. */
  #failed: Moment | undefined;
  /** When a reading was last waited for in vain. */
  #gaveUp: Moment | undefined;

  constructor(options: FleetPollerOptions) {
    this.#options = options;
    setMaxListeners(0, this.#closing.signal);
  }

  /** Readings have failed since the last one that worked. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** A reading was waited for in vain just now: nobody is to wait for one. */
  get isOpen(): boolean {
    const { clock, openMs = 0 } = this.#options;
    return this.#gaveUp !== undefined && ageMs(this.#gaveUp, clock) <= openMs;
  }

  /** Reads from now on, every period. */
  start(): void {
    this.#isStarted = true;
    this.#schedule();
  }

  /** Something asks for readings more often than before. */
  hasten(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#schedule();
  }

  /** True when what is shown began to be read at most `maxAgeMs` ago. */
  isShown(maxAgeMs: number): boolean {
    return this.#shown !== undefined && ageMs(this.#shown, this.#options.clock) <= maxAgeMs;
  }

  /** Reads once, or waits for a reading under way that shows as much. Rejects with its failure, or with the signal's reason. */
  async readOnce(given: ReadingRequest, signal: AbortSignal): Promise<void> {
    const request = { ...given, wants: this.#wants };
    // What is under way began before it was asked for.
    if (request.isExact && this.#attempt !== undefined) await untilAborted(this.#attempt.done, signal);
    const outcome = await untilAborted((this.#fitting(request) ?? this.#begin(request)).done, signal);
    if (outcome !== undefined) throw outcome.error;
  }

  /**
   * Resolves once a reading is shown that began at most `maxAgeMs` ago, and at once where one is; with 0 it is an exact one.
   * Failed readings are repeated until `signal` aborts, but a failure of that same age is not worth a wait: the next one finds
   * out. With `openMs`, so is one that was waited for in vain, for as long.
   */
  async refresh(maxAgeMs: number, shardKey: string | undefined, signal: AbortSignal): Promise<void> {
    const { clock, covers: isCovered, openMs = 0 } = this.#options;
    const request = { isExact: maxAgeMs <= 0, shardKey, wants: this.#wants };
    const isWithin = (moment: Moment | undefined, ms: number): boolean =>
      moment !== undefined && ageMs(moment, clock) <= ms;
    if (!request.isExact && this.isShown(maxAgeMs) && isCovered(shardKey)) return;
    if (isWithin(this.#failed, maxAgeMs)) return;
    // Where nobody waits for long, a slow reading is left to end: given up for a newer one each time, none ever would.
    const [keptMs, isPatient] = openMs > 0 && !request.isExact ? [SLOW_MS_MAX, true] : [maxAgeMs, false];
    const attempt = this.#attempt;
    if (attempt !== undefined && !(isWithin(attempt.began, keptMs) && (isPatient || covers(attempt, request)))) {
      this.#supersede(attempt);
    }
    if (isPatient && this.isOpen) {
      if (this.#attempt === undefined) this.#begin(request);
      return;
    }
    if (isPatient && this.#attempt !== undefined && (await untilAborted(this.#attempt.done, signal)) === undefined) {
      if (this.isShown(maxAgeMs) && isCovered(shardKey)) return;
    }
    for (let delayMs = REFRESH_RETRY_MS; ; delayMs *= 2) {
      const attempt = this.#fitting(request) ?? this.#begin(request);
      if ((await untilAborted(attempt.done, signal)) === undefined) return;
      await clock.sleep(delayMs, signal);
    }
  }

  /** Somebody has waited for a reading as long as they could. */
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

  /** Does not show what is asked for: begun before the process was frozen, for instance, on a connection that is dead by now. */
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

/** Whether the reading shows what is asked for. */
function covers({ request: { isExact, shardKey, wants = 0 } }: Attempt, request: ReadingRequest): boolean {
  if (wants < (request.wants ?? 0)) return false;
  return (isExact || !request.isExact) && (shardKey === undefined || shardKey === request.shardKey);
}
