import { sleepOn } from '../../shared/clock/clock.ts';
import { type Clock, systemClock, type Timer } from '../../shared/clock/index.ts';

/**
 * A clock whose timers do not fire while it is frozen, like those of a stopped process. Time itself continues. `thaw`
 * runs the timers that fell due. Tests use it to play crashes and pauses of one handle within a process.
 */
export class FreezableClock implements Clock {
  readonly #inner: Clock;
  #wallOffsetMs: number;
  readonly #held: (() => void)[] = [];
  #isFrozen = false;

  /** `wallOffsetMs` makes this clock's Unix time wrong by that many milliseconds. */
  constructor(inner: Clock = systemClock, wallOffsetMs = 0) {
    this.#inner = inner;
    this.#wallOffsetMs = wallOffsetMs;
  }

  freeze(): void {
    this.#isFrozen = true;
  }

  /** Sets Unix time forward or back while everything runs, as an operator or NTP does. */
  stepWall(byMs: number): void {
    this.#wallOffsetMs += byMs;
  }

  thaw(): void {
    this.#isFrozen = false;
    for (const callback of this.#held.splice(0)) callback();
  }

  nowMs(): number {
    return this.#inner.nowMs();
  }

  wallMs(): number {
    return this.#inner.wallMs() + this.#wallOffsetMs;
  }

  after(delayMs: number, callback: () => void): Timer {
    let isCancelled = false;
    const timer = this.#inner.after(delayMs, () =>
      this.#run(() => {
        if (!isCancelled) callback();
      }),
    );
    return {
      cancel: () => {
        isCancelled = true;
        timer.cancel();
      },
    };
  }

  every(periodMs: number, callback: () => void): Timer {
    return this.#inner.every(periodMs, () => this.#run(callback));
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, delayMs, signal);
  }

  #run(callback: () => void): void {
    if (this.#isFrozen) this.#held.push(callback);
    else callback();
  }
}
