import type { Clock } from '../../clock/index.ts';

const SETTLED = Promise.resolve();

/**
 * Reads the clock once for everything that happens before the next microtask. A worker's frame holds tokens of many
 * streams, and reading the machine's clock costs four times as much as counting one of them (45 against 10 ns).
 */
export class TurnClock {
  readonly #clock: Clock;
  readonly #expire: () => void;
  #nowMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#expire = () => {
      this.#nowMs = undefined;
    };
  }

  nowMs(): number {
    if (this.#nowMs === undefined) {
      this.#nowMs = this.#clock.nowMs();
      void SETTLED.then(this.#expire); // half the price of queueMicrotask; `expire` cannot throw
    }
    return this.#nowMs;
  }
}
