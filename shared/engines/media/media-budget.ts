import { overLimit } from '../../errors/index.ts';

/** Bytes that the media of one request may hold together, taken as they are read: many small ones cost as much as a large one. */
export class MediaBudget {
  readonly #bytesMax: number;
  #taken = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** @throws ServeError `invalid_value` when the media of the request hold more than they may */
  take(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken > this.#bytesMax) {
      const message = `the media of a request may hold ${this.#bytesMax} bytes together`;
      throw overLimit('media_bytes', message, { param: 'messages', worker: 'InvalidArgument' });
    }
  }
}
