import { LIMITS, overLimit } from '../../errors/index.ts';

/** What is held, and what a client is told that finds no room. */
const WORDS = {
  bodies_bytes: 'The request bodies that are being read fill the room for them',
  answers_bytes: 'The answers that are being put together fill the room for them',
} as const;

/**
 * Room for what is held of requests under way, in bytes, over all of the process: what each alone may hold, enough of them at
 * once would end the process. Whoever finds no room is told to come back.
 */
export class ByteBudget {
  readonly limitBytes: number;
  readonly #limit: keyof typeof WORDS;
  readonly #onTaken: (bytes: number) => void;
  #takenBytes = 0;

  /** @param onTaken hears how many bytes are taken, after every change */
  constructor(limit: keyof typeof WORDS, limitBytes: number, onTaken: (bytes: number) => void = () => {}) {
    this.#limit = limit;
    this.limitBytes = limitBytes;
    this.#onTaken = onTaken;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** @throws ServeError `server_overloaded` when there is no room for so many bytes more. */
  take(bytes: number): void {
    if (this.#takenBytes + bytes > this.limitBytes) {
      throw overLimit(this.#limit, `${WORDS[this.#limit]} (${LIMITS[this.#limit].max}); try again`);
    }
    this.#takenBytes += bytes;
    this.#onTaken(this.#takenBytes);
  }

  /** Gives back what was taken. */
  give(bytes: number): void {
    this.#takenBytes -= bytes;
    this.#onTaken(this.#takenBytes);
  }
}
