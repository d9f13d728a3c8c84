import type { Clock, Random, Timer } from '../../clock/index.ts';

export interface RoundsOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly periodMs: number;
  /** One round; the next one starts only when it has ended. Ends soon when `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** Hears of a round that failed; it is tried again after a longer pause. */
  onProblem(problem: unknown): void;
  /** Longest pause between failing rounds. @default 5000 */
  readonly backOffMsMax?: number;
}

const JITTER = 0.1; // so that processes started together do not stay in step
const BACK_OFF_MS_MAX = 5000;

/** Does one thing again and again: every `periodMs`, give or take a tenth, with back-off while it fails. */
export class Rounds {
  readonly #options: RoundsOptions;
  readonly #stopping = new AbortController();
  #timer: Timer | undefined;
  #round: Promise<void> | undefined;
  #isWanted = false;
  #failures = 0;

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** The first round begins at once. */
  start(): void {
    this.soon();
  }

  /** A round begins now, or right after the one under way. */
  soon(): void {
    if (this.#stopping.signal.aborted) return;
    if (this.#round !== undefined) {
      this.#isWanted = true;
      return;
    }
    this.#timer?.cancel();
    this.#round = this.#run(); // never rejects
  }

  /** Ends the rounds; resolves when the one under way has ended. Idempotent. */
  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#stopping.abort(new Error('stopped'));
    await this.#round;
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
    this.#round = undefined;
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
