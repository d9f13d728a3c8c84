/** What times of health checks are multiplied by: how often one is made, and how long failures are borne. */
export interface TimeScales {
  readonly timeScale: number;
  readonly patienceScale: number;
}

/** Checks that failed in a row, counted as often as they are made on Fargate: a process is no faster here. */
export class FailureCount {
  readonly #spanMs: number;
  readonly #failuresMax: number;
  #sinceMs: number | undefined;
  #failures = 0;

  /** @param failuresMax in a row are the end */
  constructor(failuresMax: number, intervalMs: number, { patienceScale }: TimeScales) {
    this.#failuresMax = failuresMax;
    this.#spanMs = (failuresMax - 1) * intervalMs * patienceScale;
  }

  get isOver(): boolean {
    return this.#failures >= this.#failuresMax && performance.now() - (this.#sinceMs ?? 0) >= this.#spanMs;
  }

  add(): void {
    this.#sinceMs ??= performance.now();
    this.#failures++;
  }

  reset(): void {
    this.#sinceMs = undefined;
    this.#failures = 0;
  }
}
