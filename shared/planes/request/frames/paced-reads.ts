import { hasTurnRoom, spendOfTurn, whenTurnHasRoom } from '../../../concurrency/index.ts';

/** Number of bytes read between two checks of the room in the turn. */
const SLICE_BYTES = 16 * 1024;
/**
 * Cost of reading a byte of a worker, as a multiple of writing one: the byte is decoded, detokenized and put into an
 * event.
 */
const COST_OF_BYTE = 32;

interface PacedReadsOptions {
  /** Takes the next bytes, which are valid only during the call. */
  readonly onBytes: (bytes: Buffer) => void;
  /** Called when no byte is kept any more, so that reading may continue after `push` has returned false. */
  readonly onRoom: () => void;
}

/**
 * Passes on the bytes that a channel reads, in order. In each turn of the event loop it passes on only as many as the
 * turn has room for.
 */
export class PacedReads {
  readonly #options: PacedReadsOptions;
  #kept: Buffer[] = [];
  #isScheduled = false;

  constructor(options: PacedReadsOptions) {
    this.#options = options;
  }

  /**
   * Takes bytes that were read, and copies those that it keeps.
   * @returns false while bytes are kept: the caller must not read more before `onRoom`
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

  /** Passes on every kept byte now, because the channel has ended. */
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
    const slice = at === 0 && bytes.length <= SLICE_BYTES ? bytes : bytes.subarray(at, at + SLICE_BYTES);
    spendOfTurn(slice.length * COST_OF_BYTE);
    this.#options.onBytes(slice);
    return slice.length;
  }
}
