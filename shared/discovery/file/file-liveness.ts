interface Sighting {
  readonly stamp: string;
  /** Monotonic time of the first look at this stamp, delayed by the time of outages. */
  seenAtMs: number;
  /** Age of the stamp then, in the time of the file system. */
  readonly ageThenMs: number;
  lastSeenAtMs: number;
}

/**
 * Judges which files are alive: those whose stamp changes at least once per time to live, by the monotonic clock of the
 * observer. Wall clocks do not count, neither the owner's nor the observer's. A new file has no history here, so its
 * age is that of its stamp in the file system's own time.
 */
export class FileLiveness {
  readonly #ttlMs: number;
  readonly #sightings = new Map<string, Sighting>(); // by name; forgotten one time to live after the last look

  constructor(ttlMs: number) {
    this.#ttlMs = ttlMs;
  }

  /** Whether the file was looked at within the last time to live, so that a change of its stamp would be noticed. */
  knows(name: string, nowMs: number): boolean {
    const sighting = this.#sightings.get(name);
    return sighting !== undefined && nowMs - sighting.lastSeenAtMs <= this.#ttlMs;
  }

  /**
   * Notes a file as it was at monotonic `nowMs`. Returns true if it is alive.
   * @param ageMs age of the stamp in the file system's time; counts for files that are not known
   */
  observe(name: string, stamp: string, ageMs: number, nowMs: number): boolean {
    const before = this.knows(name, nowMs) ? this.#sightings.get(name) : undefined;
    if (before !== undefined && before.stamp === stamp) {
      before.lastSeenAtMs = nowMs;
      return nowMs - before.seenAtMs + before.ageThenMs < this.#ttlMs;
    }
    const ageThenMs = before === undefined ? Math.max(0, ageMs) : 0;
    this.#sightings.set(name, { stamp, seenAtMs: nowMs, ageThenMs, lastSeenAtMs: nowMs });
    return ageThenMs < this.#ttlMs;
  }

  /** Whether the file was watched for a whole time to live and did not change. */
  hasEnded(name: string, nowMs: number): boolean {
    const sighting = this.#sightings.get(name);
    return sighting !== undefined && nowMs - sighting.seenAtMs >= this.#ttlMs;
  }

  /**
   * Notes that the folder could not be read, and perhaps not be written, until `nowMs`. That time does not count
   * against its files.
   */
  excuseOutage(nowMs: number): void {
    for (const sighting of this.#sightings.values()) {
      sighting.seenAtMs += nowMs - sighting.lastSeenAtMs;
      sighting.lastSeenAtMs = nowMs;
    }
  }

  prune(nowMs: number): void {
    for (const name of this.#sightings.keys()) if (!this.knows(name, nowMs)) this.#sightings.delete(name);
  }
}
