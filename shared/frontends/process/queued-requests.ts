import type { Clock, Timer } from '../../clock/index.ts';
import { type RoutableWorker, type Router, withChoose } from '../../router/index.ts';

interface QueuedRequestsOptions {
  readonly clock: Clock;
  /** Returns the name that clients use for a model, from the name that its workers use. @default the same name */
  readonly nameOf?: ((ownName: string) => string) | undefined;
  /** Called every 5 s while requests of a model wait, with the time at which the oldest came, as Unix ms. */
  onWaiting(model: string, oldestAtMs: number): void;
  /** Called when no request of a model waits any more. @default nothing is called */
  onEmpty?(model: string): void;
}

/**
 * Interval between two reports of waiting requests, in milliseconds: as often as the request for a first worker is
 * repeated.
 */
const TOLD_EVERY_MS = 5000;

interface ModelQueue {
  /** Times at which the requests came, in that order. */
  readonly waiting: Set<{ readonly atMs: number }>;
  readonly timer: Timer;
}

/**
 * Requests that wait in the queues of this process's router, and that new workers could take. Planners learn nothing of
 * a wait that is over within 5 s.
 */
export class QueuedRequests {
  readonly #options: QueuedRequestsOptions;
  readonly #queues = new Map<string, ModelQueue>(); // a queue leaves with its last request

  constructor(options: QueuedRequestsOptions) {
    this.#options = options;
  }

  /** Models with waiting requests. */
  get models(): readonly string[] {
    return [...this.#queues.keys()];
  }

  /** Returns how many requests of the model wait. */
  count(model: string): number {
    return this.#queues.get(model)?.waiting.size ?? 0;
  }

  /** Returns `router`, wrapped so that requests that wait in its queue are counted. */
  watch<Worker extends RoutableWorker>(router: Router<Worker>): Router<Worker> {
    return withChoose(router, (request, signal) => {
      let leave = (): void => {};
      const { pool, onQueued } = request;
      const name = pool.model ?? pool.key;
      const watched = {
        ...request,
        onQueued: (position: number) => {
          leave = this.#enter(this.#options.nameOf?.(name) ?? name);
          return onQueued?.(position);
        },
      };
      return router.choose(watched, signal).finally(() => leave());
    });
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
      this.#options.onEmpty?.(model);
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
