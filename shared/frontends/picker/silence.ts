import type { Clock, Timer } from '../../clock/index.ts';

/**
 * Calls back when a gateway keeps the picker waiting for too long. Most messages only move the end of its one timer.
 */
export class Silence {
  readonly #clock: Pick<Clock, 'nowMs' | 'after'>;
  readonly #onSilence: () => void;
  /** Time at which the gateway is late; undefined = the picker waits for no message. */
  #dueMs: number | undefined;
  #firesMs = 0;
  #timer: Timer | undefined;

  constructor(clock: Pick<Clock, 'nowMs' | 'after'>, onSilence: () => void) {
    this.#clock = clock;
    this.#onSilence = onSilence;
  }

  /** Waits for a message of the gateway, from now on for at most `ms`. */
  expect(ms: number): void {
    this.#dueMs = this.#clock.nowMs() + ms;
    if (this.#timer === undefined || this.#dueMs < this.#firesMs) this.#arm(this.#dueMs, ms);
  }

  /** Waits no longer: it is the gateway that waits. */
  rest(): void {
    this.#dueMs = undefined;
  }

  close(): void {
    this.#dueMs = undefined;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(firesMs: number, ms: number): void {
    this.#timer?.cancel();
    this.#firesMs = firesMs;
    this.#timer = this.#clock.after(ms, () => this.#fired());
  }

  #fired(): void {
    this.#timer = undefined;
    if (this.#dueMs === undefined) return;
    const leftMs = this.#dueMs - this.#clock.nowMs();
    if (leftMs > 0) this.#arm(this.#dueMs, leftMs);
    else this.#onSilence();
  }
}
