import type { Clock, Timer } from '../../clock/index.ts';
import type { RoutableWorker, Router } from '../../router/index.ts';

export interface QueuedRequestsOptions {
  readonly clock: Clock;
  /** Requests of a model still wait: told every 5 s while any does, with when the oldest came as Unix time. */
  onWaiting(model: string, oldestAtMs: number): void;
}

/** As the wish for a first worker is repeated. */
const TOLD_EVERY_MS = 5000;

interface ModelQueue {
  /** When each came, in that order. */
  readonly waiting: Set<{ readonly atMs: number }>;
  readonly timer: Timer;
}

/**
 * Requests that wait in the queues of this process's router: new workers could take them. A wait that is over within 5 s is told to
 * nobody.
 */
export class QueuedRequests {
  readonly #options: QueuedRequestsOptions;
  readonly #queues = new Map<string, ModelQueue>(); // a queue leaves with its last request

  constructor(options: QueuedRequestsOptions) {
    this.#options = options;
  }

  /** Requests of the model that wait. */
  count(model: string): number {
    return this.#queues.get(model)?.waiting.size ?? 0;
  }

  /** `router`, with those that wait in its queue counted. */
  watch<Worker extends RoutableWorker>(router: Router<Worker>): Router<Worker> {
    return {
      mode: router.mode,
      setWorkers: (pool, workers) => router.setWorkers(pool, workers),
      removePool: (pool) => router.removePool(pool),
      choose: (request, signal) => {
        let leave = (): void => {};
        const { pool, onQueued } = request;
        const watched = {
          ...request,
          onQueued: (position: number) => {
            leave = this.#enter(pool.model ?? pool.key);
            onQueued?.(position);
          },
        };
        return router.choose(watched, signal).finally(() => leave());
      },
      inhibit: (workerId) => router.inhibit(workerId),
      forget: (workerId) => router.forget(workerId),
    };
  }

  #enter(model: string): () => void {
    const queue = this.#queues.get(model) ?? this.#open(model);
    const request = { atMs: this.#options.clock.wallMs() };
    queue.waiting.add(request);
    return () => {
      queue.waiting.delete(request);
      if (queue.waiting.size > 0) return;
      queue.timer.cancel();
      if (this.#queues.get(model) === queue) this.#queues.delete(model);
    };
  }

  #open(model: string): ModelQueue {
    const { clock, onWaiting } = this.#options;
    const waiting: ModelQueue['waiting'] = new Set();
    const timer = clock.every(TOLD_EVERY_MS, () => {
      for (const { atMs } of waiting) {
        onWaiting(model, atMs);
        return;
      }
    });
    const queue = { waiting, timer };
    this.#queues.set(model, queue);
    return queue;
  }
}
