import type { Clock, Timer } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import type { Engine } from '../../engines/index.ts';
import { ServeError } from '../../errors/index.ts';

/** Failures in a row after which an engine counts as down. */
const FAILURES_MAX = 3;

export interface EngineMonitorOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  /** Time between two checks; one that takes longer delays the next. */
  readonly intervalMs: number;
  /** Longest time that a check may take. */
  readonly timeoutMs: number;
  /** Three checks in a row have failed, or one has shown that the engine is gone. */
  onDown(reason: unknown): void;
  /** A check has passed again. */
  onUp(): void;
}

/** Asks the engine for its health for ever; one success after a failure counts as recovery. */
export class EngineMonitor {
  readonly #options: EngineMonitorOptions;
  readonly #timer: Timer;
  readonly #stopping = new AbortController();
  #failures = 0;
  #isChecking = false;

  constructor(options: EngineMonitorOptions) {
    this.#options = options;
    this.#timer = options.clock.every(options.intervalMs, () => this.checkNow());
  }

  /** Checks without waiting for the next turn, as something has shaken the trust in the engine. */
  checkNow(): void {
    if (!this.#isChecking && !this.#stopping.signal.aborted) void this.#check();
  }

  stop(): void {
    this.#timer.cancel();
    this.#stopping.abort(new Error('the worker stops'));
  }

  async #check(): Promise<void> {
    const { engine, clock, timeoutMs } = this.#options;
    this.#isChecking = true;
    const startedMs = clock.nowMs();
    const { signal } = this.#stopping;
    const lateMessage = `the engine's health check took more than ${timeoutMs} ms`;
    try {
      await withDeadline({ clock, timeoutMs, signal, lateMessage }, (limited) => engine.health(limited));
      this.#passed();
    } catch (reason) {
      // Nobody listens any more, or has for as long as is allowed, or says that it is dead: asking again would only take time.
      const isGone = isRefused(reason) || isDead(reason) || clock.nowMs() - startedMs >= timeoutMs;
      this.#failed(reason, isGone);
    } finally {
      this.#isChecking = false;
    }
  }

  #passed(): void {
    const wasDown = this.#failures >= FAILURES_MAX;
    this.#failures = 0;
    if (wasDown && !this.#stopping.signal.aborted) this.#options.onUp();
  }

  #failed(reason: unknown, isGone: boolean): void {
    if (this.#stopping.signal.aborted) return;
    const wasDown = this.#failures >= FAILURES_MAX;
    this.#failures = isGone ? Math.max(FAILURES_MAX, this.#failures + 1) : this.#failures + 1;
    if (this.#failures >= FAILURES_MAX && !wasDown) this.#options.onDown(reason);
  }
}

function isRefused(reason: unknown): boolean {
  return reason instanceof Error && (reason as NodeJS.ErrnoException).code === 'ECONNREFUSED';
}

function isDead(reason: unknown): boolean {
  return reason instanceof ServeError && reason.worker === 'EngineShutdown';
}
