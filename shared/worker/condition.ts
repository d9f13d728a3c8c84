/** State of a worker, which decides how it treats requests. */
type WorkerState = 'serving' | 'withdrawn' | 'asleep' | 'refusing' | 'draining';

/**
 * Four independent facts about a worker, and the state that follows from them: the lowest row of the table whose
 * condition holds. A lost lease changes none of them, because the worker still serves callers that know it.
 *
 * | State | holds when | new request | engine down | engine up | drain |
 * |---|---|---|---|---|---|
 * | serving | no other row holds | to the engine; waits or `WorkerOverloaded` above the limits | fail streams, withdraw | - | -> draining |
 * | withdrawn | the engine is down | to the engine | - | restore | -> draining |
 * | asleep | `sleep` of the control | the engine refuses | withdrawn already | - | -> draining |
 * | refusing | a canary failed | `WorkerUnavailable`, withdrawn at the third | fail streams, withdraw | - | -> draining |
 * | draining | the drain began; it never ends | `WorkerUnavailable`; a prefill worker's blocks may be released | - | - | same promise |
 *
 * A worker is in discovery while it serves, and until the third canary in a row has failed. It returns when the last
 * fact that prevented serving is gone.
 */
export class WorkerCondition {
  isEngineUp = true;
  /** Whether the last canary passed, or none has run. */
  isProven = true;
  isAsleep = false;
  isDraining = false;

  get state(): WorkerState {
    if (this.isDraining) return 'draining';
    if (!this.isProven) return 'refusing';
    if (this.isAsleep) return 'asleep';
    return this.isEngineUp ? 'serving' : 'withdrawn';
  }

  /** Whether no fact prevents the worker from serving. */
  get isFit(): boolean {
    return this.state === 'serving';
  }

  /** Whether a canary would be meaningful. A canary that passes makes a refusing worker serve again. */
  get canBeProven(): boolean {
    return this.isEngineUp && !this.isAsleep && !this.isDraining;
  }
}
