import type { Clock } from '../../clock/index.ts';
import type { PipelineObserver, StagePhase } from '../pipeline.ts';

/** Measures the time from sending a request to a worker until its first output. */
export class Waiting {
  readonly #observer: PipelineObserver;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #phase: StagePhase;
  readonly #sinceMs: number;

  constructor(observer: PipelineObserver, clock: Pick<Clock, 'nowMs'>, phase: StagePhase) {
    this.#observer = observer;
    this.#clock = clock;
    this.#phase = phase;
    this.#sinceMs = clock.nowMs();
    observer.stageEntered?.('dispatch', phase);
  }

  end(isAnswered: boolean): void {
    this.#observer.stageLeft?.('dispatch', this.#phase);
    if (isAnswered) this.#observer.stage?.('transport_roundtrip', this.#clock.nowMs() - this.#sinceMs);
  }
}
