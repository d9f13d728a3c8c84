import type { Clock, Timer } from '../../../clock/index.ts';

/** A connection that is checked once per ping interval. */
export interface Pulse {
  beat(): void;
}

/**
 * One timer for the heartbeats of all connections of a plane. It counts silence in beats instead of reading the clock.
 * So a process that was itself stopped for long sees one late beat, and does not consider its peers dead.
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

  /** Returns how many beats `durationMs` has, at least one. */
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

/**
 * Judges by beats whether the peer of one connection is alive. Bytes of any kind prove life.
 *
 * | Streams open | Silent beats | Verdict |
 * |---|---|---|
 * | no | below the idle bound | rest |
 * | no | at the idle bound | idle |
 * | yes | below the dead bound | ping |
 * | yes | at the dead bound | dead |
 */
export class Liveness {
  readonly #deadBeats: number;
  readonly #idleBeats: number;
  #silentBeats = 0;
  #unusedBeats = 0;

  constructor(deadBeats: number, idleBeats: number) {
    this.#deadBeats = deadBeats;
    this.#idleBeats = idleBeats;
  }

  heard(): void {
    this.#silentBeats = 0;
  }

  beat(openStreams: number): 'rest' | 'ping' | 'dead' | 'idle' {
    if (openStreams === 0) {
      this.#silentBeats = 0;
      this.#unusedBeats++;
      return this.#unusedBeats >= this.#idleBeats ? 'idle' : 'rest';
    }
    this.#unusedBeats = 0;
    if (this.#silentBeats >= this.#deadBeats) return 'dead';
    this.#silentBeats++;
    return 'ping';
  }
}
