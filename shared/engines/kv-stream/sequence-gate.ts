/**
 * What a batch with a sequence number is to those before it:
 * `next` follows them, `gap` leaves some out, `duplicate` was seen, `restart` is of a new incarnation of the engine.
 */
export type Verdict = 'next' | 'gap' | 'duplicate' | 'restart';

/**
 * Orders the batches of one publisher, which arrive live and by replay. Numbers count
 * from 0 and start over with the engine's process. A number that was seen is a copy unless its time is later than all
 * times so far.
 */
export class SequenceGate {
  #last = -1;
  #lastTimestampSecs = Number.NEGATIVE_INFINITY;

  /** Number of the last batch taken; -1 = none. */
  get last(): number {
    return this.#last;
  }

  judge(sequence: number, timestampSecs: number): Verdict {
    if (sequence === this.#last + 1) return 'next';
    if (sequence > this.#last) return 'gap';
    return timestampSecs > this.#lastTimestampSecs ? 'restart' : 'duplicate';
  }

  take(sequence: number, timestampSecs: number): void {
    this.#last = sequence;
    this.#lastTimestampSecs = timestampSecs;
  }

  /** The publisher is a new process. */
  reset(): void {
    this.#last = -1;
    this.#lastTimestampSecs = Number.NEGATIVE_INFINITY;
  }
}
