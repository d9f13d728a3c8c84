import type { Clock } from '../../clock/index.ts';

/** Workers that failed lately and are passed over until their time is up. */
export class Inhibition {
  readonly #untilMs = new Map<string, number>(); // bounded: entries whose time is up leave when they are read or swept
  readonly #clock: Clock;
  readonly #durationMs: number;

  /** @param durationMs 0 turns inhibition off. */
  constructor(clock: Clock, durationMs: number) {
    this.#clock = clock;
    this.#durationMs = durationMs;
  }

  add(workerId: string): void {
    if (this.#durationMs <= 0) return;
    const nowMs = this.#clock.nowMs();
    for (const [id, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(id);
    this.#untilMs.set(workerId, nowMs + this.#durationMs);
  }

  forget(workerId: string): void {
    this.#untilMs.delete(workerId);
  }

  /** True when nobody has to be passed over, so that lists can be used as they are. */
  get isEmpty(): boolean {
    return this.#untilMs.size === 0;
  }

  has(workerId: string): boolean {
    if (this.#untilMs.size === 0) return false;
    const untilMs = this.#untilMs.get(workerId);
    if (untilMs === undefined) return false;
    if (untilMs > this.#clock.nowMs()) return true;
    this.#untilMs.delete(workerId);
    return false;
  }
}
