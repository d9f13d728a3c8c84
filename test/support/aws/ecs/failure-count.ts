/** Factors for the times of health checks: for the interval between checks, and for how long failures are tolerated. */
export interface TimeScales {
  readonly timeScale: number;
  readonly patienceScale: number;
}

/** Counts failed checks in a row at the pace of Fargate, because a process answers no faster here. */
export class FailureCount {
  readonly #spanMs: number;
  readonly #failuresMax: number;
  #sinceMs: number | undefined;
  #failures = 0;

  /**
   * @param failuresMax failures in a row that make the target unhealthy
   */
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
