import { ServeError } from '../../../errors/index.ts';

/** What operators are told of the room for bodies. */
export interface BodyBudgetObserver {
  /** So many bytes are taken now. */
  taken(bytes: number): void;
  /** A request found no room. */
  refused(): void;
}

/**
 * Room for the bodies that are being read, in bytes, over all requests of the process: each alone may be as large as the
 * body limit, and enough of them at once would end the process. Whoever finds no room is told to come back.
 */
export class BodyBudget {
  readonly limitBytes: number;
  readonly #observer: BodyBudgetObserver;
  #takenBytes = 0;

  constructor(limitBytes: number, observer: BodyBudgetObserver = { taken() {}, refused() {} }) {
    this.limitBytes = limitBytes;
    this.#observer = observer;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** @throws ServeError `server_overloaded` when there is no room for so many bytes more. */
  take(bytes: number): void {
    if (this.#takenBytes + bytes > this.limitBytes) {
      this.#observer.refused();
      throw new ServeError(
        'server_overloaded',
        'The request bodies that are being read fill the room for them (STATOR_HTTP_BODY_BUDGET_MB); try again',
      );
    }
    this.#takenBytes += bytes;
    this.#observer.taken(this.#takenBytes);
  }

  /** Gives back what was taken. */
  give(bytes: number): void {
    this.#takenBytes -= bytes;
    this.#observer.taken(this.#takenBytes);
  }
}
