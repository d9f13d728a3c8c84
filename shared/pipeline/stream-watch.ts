import type { Clock, Timer } from '../clock/index.ts';

/** A stream that may fall silent. */
export interface WatchedStream {
  /** `Clock.nowMs` of the last sign of life. */
  readonly lastActivityMs: number;
  /** Told once when it has been silent for too long; it is no longer watched then. */
  stalled(): void;
}

/**
 * Ends streams whose worker has been silent for too long (`DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS`). One coarse timer for all
 * streams, running only while there are any; a stall is noticed within a quarter of the bound after it.
 */
export class StreamWatch {
  readonly #clock: Clock;
  readonly #silenceMsMax: number;
  readonly #streams = new Set<WatchedStream>(); // bounded by the streams of the process
  #timer: Timer | undefined;

  constructor(clock: Clock, silenceMsMax: number) {
    this.#clock = clock;
    this.#silenceMsMax = silenceMsMax;
  }

  add(stream: WatchedStream): void {
    this.#streams.add(stream);
    this.#timer ??= this.#clock.every(this.#silenceMsMax / 4, () => this.#sweep());
  }

  delete(stream: WatchedStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #sweep(): void {
    const silentSinceMs = this.#clock.nowMs() - this.#silenceMsMax;
    for (const stream of this.#streams) {
      if (stream.lastActivityMs > silentSinceMs) continue;
      this.delete(stream);
      stream.stalled();
    }
  }
}
