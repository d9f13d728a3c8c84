import type { Clock } from '../../clock/index.ts';
import { ServeError } from '../../errors/index.ts';
import { RunningRequests } from './running-requests.ts';

/** When a client may ask again: another process serves by then. */
const RETRY_MS = 1000;

/**
 * Where a frontend process is in its life.
 *
 * | Stage | new inference requests | `/live` | `/health` |
 * |---|---|---|---|
 * | discovering | taken on | 200 | 503 `not_ready` |
 * | waiting (for initial workers) | 503 | 200 | 503 `not_ready` |
 * | failed (first discovery) | taken on | 200 | 503 `not_ready` |
 * | ready | taken on | 200 | 200 `healthy` |
 * | draining | 503 | 503 | 503 `not_ready` |
 * | stopping | 503 | 503 | 503 `shutting_down` |
 */
export type ServiceStage = 'discovering' | 'waiting' | 'failed' | 'ready' | 'draining' | 'stopping';

/** Stage of the process and the inference responses under way. */
export class ServiceLifecycle {
  /** Those of them that can be cancelled by their ids. */
  readonly running = new RunningRequests();
  #stage: ServiceStage = 'discovering';
  #failure: string | undefined;
  #waitsFor: () => string | undefined = () => undefined;
  #inflight = 0;
  #idleWaiters: (() => void)[] = [];
  readonly #followers = new Set<() => void>(); // one for each part of the process that follows it

  get stage(): ServiceStage {
    return this.#stage;
  }

  /** Why the first discovery failed. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** What a service that waits is waiting for. */
  get waitsFor(): string | undefined {
    return this.#waitsFor();
  }

  /** Inference responses that have not ended. */
  get inflight(): number {
    return this.#inflight;
  }

  /** The process is not about to end. */
  get isLive(): boolean {
    return this.#stage !== 'draining' && this.#stage !== 'stopping';
  }

  get isTakingRequests(): boolean {
    return this.isLive && this.#stage !== 'waiting';
  }

  /** Runs `tell` after every change of the stage, until the function that is returned is called. */
  follow(tell: () => void): () => void {
    this.#followers.add(tell);
    return () => void this.#followers.delete(tell);
  }

  /** Takes no requests before `discovered`. */
  waiting(waitsFor: () => string | undefined): void {
    if (!this.isLive) return;
    this.#waitsFor = waitsFor;
    this.#enter('waiting');
  }

  discovered(): void {
    if (this.isLive) this.#enter('ready');
  }

  discoveryFailed(reason: string): void {
    if (!this.isLive) return;
    this.#failure = reason;
    this.#enter('failed');
  }

  /** Refuses new inference requests; those under way go on. */
  drain(): void {
    if (this.isLive) this.#enter('draining');
  }

  stop(): void {
    this.#enter('stopping');
  }

  #enter(stage: ServiceStage): void {
    this.#stage = stage;
    for (const tell of this.#followers) tell();
  }

  /** Stops, and ends the inference responses that are still under way with an error; returns how many. */
  cut(): number {
    this.stop();
    return this.running.breakOff(
      new ServeError('service_unavailable', 'Service is shutting down', { retryAfterMs: RETRY_MS }),
    );
  }

  entered(): void {
    this.#inflight++;
  }

  left(): void {
    this.#inflight--;
    if (this.#inflight > 0) return;
    const waiters = this.#idleWaiters;
    this.#idleWaiters = [];
    for (const wake of waiters) wake();
  }

  /** Resolves with true when no inference response is under way any more, with false after `deadlineMs`. */
  idle(clock: Clock, deadlineMs: number): Promise<boolean> {
    if (this.#inflight === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = clock.after(deadlineMs, () => resolve(false));
      this.#idleWaiters.push(() => {
        timer.cancel();
        resolve(true);
      });
    });
  }
}
