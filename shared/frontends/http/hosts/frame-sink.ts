/**
 * Where the bytes of one HTTP response go. One implementation per host (Node response, Lambda stream, web stream), one
 * contract suite, so that hosts differ in nothing else.
 *
 * | State | `head` | `write` | `end` | `breakOff` |
 * |---|---|---|---|---|
 * | new | open (nothing leaves before the first write or end) | not allowed | not allowed | not allowed |
 * | open | not allowed | queued; all writes of one turn leave together | ended | ended, `closed` aborts |
 * | ended, or client gone | ignored | ignored | ignored | ignored |
 */
export interface FrameSink {
  /** No head was set: the status of the response is still open. */
  readonly isNew: boolean;
  /** Sets status and headers; they leave together with the first bytes. Names in lower case. */
  head(status: number, headers: Readonly<Record<string, string>>): void;
  /**
   * Queues bytes. `isKnownAscii` promises that every character of a text is ASCII, which saves measuring its UTF-8.
   * Frames written in the same turn of the event loop leave in one socket write.
   */
  write(frame: string | Uint8Array, isKnownAscii?: boolean): void;
  /** Ends the response after what was queued. Always called exactly once by the app, also after a failure. */
  end(): void;
  /** Cuts the response off where it is, so that no client takes it for whole: for a failure that it has no words for. */
  breakOff(reason: Error): void;
  /** Sends the head and queued bytes now, without waiting for more. */
  flush(): void;
  /** True while the client reads too slowly: more than the host's high-water mark is waiting. */
  isBlocked(): boolean;
  /** Runs `callback` once when the client has caught up or has left. */
  onUnblocked(callback: () => void): void;
  /** Aborts when the client leaves before `end`. Never aborts on hosts that cannot see it (docs/architecture.md). */
  readonly closed: AbortSignal;
}
