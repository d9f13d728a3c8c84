import type { Clock, Timer } from '../../../clock/index.ts';

/** A connection that is looked at once a ping interval. */
export interface Pulse {
  beat(): void;
}

/**
 * One timer for the heartbeat of every connection of a plane. Silence is counted in beats, not read off the clock: a
 * process that was itself held up for long sees one late beat, and does not take its peers for dead.
 */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #pulses = new Set<Pulse>();
  #timer: Timer | undefined;

  constructor(clock: Clock, intervalMs: number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
  }

  /** Beats in `durationMs`, at least one. */
  beatsIn(durationMs: number): number {
    return Math.max(1, Math.ceil(durationMs / this.#intervalMs));
  }

  add(pulse: Pulse): void {
    this.#pulses.add(pulse);
    this.#timer ??= this.#clock.every(this.#intervalMs, () => {
      for (const each of [...this.#pulses]) each.beat();
    });
  }

  remove(pulse: Pulse): void {
    this.#pulses.delete(pulse);
    if (this.#pulses.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
