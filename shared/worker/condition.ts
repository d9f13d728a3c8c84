/** The way in which a worker treats requests. */
type WorkerState = 'serving' | 'withdrawn' | 'asleep' | 'refusing' | 'draining';

/**
 * Four facts about a worker, which change independently of each other, and the state that follows from them: the lowest
 * row of the table whose fact holds. A lost lease changes none of them: callers that still know the worker are served.
 *
 * | State | holds when | new request | engine down | engine up | drain |
 * |---|---|---|---|---|---|
 * | serving | no other row holds | to the engine; waits or `WorkerOverloaded` above the limits | fail streams, withdraw | - | -> draining |
 * | withdrawn | the engine is down | to the engine | - | restore | -> draining |
 * | asleep | `sleep` of the control | the engine refuses | withdrawn already | - | -> draining |
 * | refusing | a canary failed | `WorkerUnavailable`, withdrawn at the third | fail streams, withdraw | - | -> draining |
 * | draining | the drain began; it never ends | `WorkerUnavailable`; a prefill worker's blocks may be released | - | - | same promise |
 *
 * A worker is in discovery while it serves, and until the third canary in a row has failed. It is restored when the
 * last fact that prevented serving is gone.
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

  /** Whether a canary can prove anything. A canary also proves a refusing worker again. */
  get canBeProven(): boolean {
    return this.isEngineUp && !this.isAsleep && !this.isDraining;
  }
}
