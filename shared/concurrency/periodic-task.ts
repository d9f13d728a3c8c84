import type { Clock, Random, Timer } from '../clock/index.ts';

export interface PeriodicTaskOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly periodMs: number;
  /** One run. The next one starts only after it has ended. It must end soon after `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** Called with the failure of a run, which is tried again after a longer pause. */
  onProblem(problem: unknown): void;
  /** Longest pause between failing runs. @default 5000 */
  readonly backOffMsMax?: number;
}

const JITTER = 0.1; // so that processes started together do not stay in step
const BACK_OFF_MS_MAX = 5000;

/** Does one thing again and again: every `periodMs`, plus or minus a tenth, with longer pauses while it fails. */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #stopping = new AbortController();
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #isWanted = false;
  #failures = 0;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
  }

  /** Starts the first run at once. */
  start(): void {
    this.soon();
  }

  /** Starts a run now, or right after the current one. */
  soon(): void {
    if (this.#stopping.signal.aborted) return;
    if (this.#running !== undefined) {
      this.#isWanted = true;
      return;
    }
    this.#timer?.cancel();
    this.#running = this.#run(); // never rejects
  }

  /** Ends the task. Resolves when the current run has ended. Idempotent. */
  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#stopping.abort(new Error('stopped'));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { run, onProblem } = this.#options;
    const { signal } = this.#stopping;
    this.#isWanted = false;
    try {
      await run(signal);
      this.#failures = 0;
    } catch (problem) {
      if (!signal.aborted) {
        this.#failures++;
        onProblem(problem);
      }
    }
    this.#running = undefined;
    if (!signal.aborted) this.#schedule();
  }

  #schedule(): void {
    const { clock, random, periodMs, backOffMsMax = BACK_OFF_MS_MAX } = this.#options;
    const pauseMs = Math.min(periodMs * 2 ** this.#failures, Math.max(backOffMsMax, periodMs));
    const jitteredMs = pauseMs * (1 - JITTER + 2 * JITTER * random.next());
    const delayMs = this.#isWanted && this.#failures === 0 ? 0 : jitteredMs;
    this.#timer = clock.after(delayMs, () => this.soon());
  }
}
