import type { Clock } from '../clock/index.ts';

/**
 * Bound of the wait. The largest models can load in it, and a fleet that has lost a worker for good must still come up.
 */
const WAIT_MS_MAX = 1_800_000;

export interface InitialWorkersOptions {
  /** 0 = no wait. */
  readonly workersMin: number;
  readonly clock: Pick<Clock, 'after'>;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/** How a wait for the first workers ended. */
export type InitialWorkersOutcome = 'enough' | 'late' | 'aborted';

/** Waits at the start until enough workers exist, for half an hour at most (`--router-min-initial-workers`). */
export class InitialWorkers {
  /** Resolves with the end of the wait. Never rejects. */
  readonly awaited: Promise<InitialWorkersOutcome>;
  readonly workersMin: number;
  #present = 0;
  #isOver = false;
  #end: (outcome: InitialWorkersOutcome) => void = () => {};

  constructor({ workersMin, clock, signal }: InitialWorkersOptions) {
    this.workersMin = workersMin;
    const timer = clock.after(WAIT_MS_MAX, () => this.#end('late'));
    this.awaited = new Promise((resolve) => {
      this.#end = (outcome) => {
        this.#isOver = true;
        timer.cancel();
        signal.removeEventListener('abort', abort);
        resolve(outcome);
      };
    });
    const abort = (): void => this.#end('aborted');
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    else this.seen(0);
  }

  /** Notes how many workers exist now. */
  seen(workers: number): void {
    if (this.#isOver) return;
    this.#present = workers;
    if (workers >= this.workersMin) this.#end('enough');
  }

  /** Text for people that says what the start waits for; undefined after the wait. */
  get pending(): string | undefined {
    return this.#isOver ? undefined : `Waiting for workers: ${this.#present} of ${this.workersMin} exist`;
  }
}
