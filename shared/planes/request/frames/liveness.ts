/**
 * Whether the peer of one connection is alive, counted in heartbeats. Bytes of any kind prove life.
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
