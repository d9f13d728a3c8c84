import { hasTurnRoom, spendOfTurn, whenTurnHasRoom } from '../../../concurrency/index.ts';

/** Read between two looks at what the turn has room for. */
const SLICE_BYTES = 16 * 1024;
/** A byte of a worker is decoded, detokenized and put into an event: it costs about as much as writing this many. */
const COST_OF_BYTE = 32;

interface PacedReadsOptions {
  /** Takes the next bytes, which are valid only during the call. */
  readonly onBytes: (bytes: Buffer) => void;
  /** All that was read was taken: there may be more, after `push` had said that there is too much. */
  readonly onRoom: () => void;
}

/** Hands on what a channel reads, in its order, and in each turn of the event loop only what that has room for. */
export class PacedReads {
  readonly #options: PacedReadsOptions;
  #kept: Buffer[] = [];
  #isScheduled = false;

  constructor(options: PacedReadsOptions) {
    this.#options = options;
  }

  /**
   * Takes what was read; what is kept of it is copied.
   * @returns false while something is kept: no more is to be read before `onRoom`
   */
  push(bytes: Buffer): boolean {
    if (this.#kept.length > 0) {
      this.#kept.push(Buffer.from(bytes));
      return false;
    }
    let at = 0;
    while (at < bytes.length && hasTurnRoom()) at += this.#handOn(bytes, at);
    if (at === bytes.length) return true;
    this.#kept.push(Buffer.from(bytes.subarray(at)));
    this.#schedule();
    return false;
  }

  /** Hands on all that is kept, now: the channel is over. */
  flush(): void {
    for (const bytes of this.#kept.splice(0)) this.#options.onBytes(bytes);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    whenTurnHasRoom(() => this.#goOn());
  }

  #goOn(): void {
    this.#isScheduled = false;
    const [first] = this.#kept;
    if (first === undefined) return; // flushed
    const count = Math.min(first.length, SLICE_BYTES);
    if (count === first.length) this.#kept.shift();
    else this.#kept[0] = first.subarray(count);
    this.#handOn(first, 0);
    if (this.#kept.length > 0) this.#schedule();
    else this.#options.onRoom();
  }

  #handOn(bytes: Buffer, at: number): number {
    const slice = bytes.subarray(at, at + SLICE_BYTES);
    spendOfTurn(slice.length * COST_OF_BYTE);
    this.#options.onBytes(slice);
    return slice.length;
  }
}
