import type { Clock } from '../../../clock/index.ts';
import type { ByteBudget } from '../../inference/deps.ts';

/** Bytes of a client's frame beside its payload, of frames that are short. */
const FRAME_BYTES = 6;

/** What the events of one connection take of the room for bodies, from their first byte until they are read. */
export class EventRoom {
  readonly #budget: ByteBudget;
  readonly #clock: Clock;
  /** Of the event that has not come whole. */
  #partBytes = 0;
  #partSinceMs: number | undefined;
  /** Of those that wait. */
  #wholeBytes = 0;
  #isReleased = false;

  constructor(budget: ByteBudget, clock: Clock) {
    this.#budget = budget;
    this.#clock = clock;
  }

  /** Bytes have come; of what, shows when it is whole. @throws ServeError `server_overloaded` */
  arrived(bytes: number): void {
    if (this.#isReleased) return;
    this.#budget.take(bytes);
    this.#partSinceMs ??= this.#clock.nowMs();
    this.#partBytes += bytes;
  }

  /** They were a ping or a pong. */
  arrivedControl(payloadBytes: number): void {
    this.#give(payloadBytes + FRAME_BYTES);
  }

  /** They were an event. @throws ServeError `server_overloaded` */
  arrivedWhole(bytes: number): void {
    this.#give(this.#partBytes);
    if (this.#isReleased) return;
    this.#budget.take(bytes);
    this.#wholeBytes += bytes;
  }

  /** An event is about to be read, which takes room for itself. */
  read(bytes: number): void {
    if (this.#isReleased) return;
    this.#wholeBytes -= bytes;
    this.#budget.give(bytes);
  }

  /** Whether an event has been coming since before `ms`. */
  isLate(ms: number): boolean {
    return this.#partSinceMs !== undefined && this.#partSinceMs < ms;
  }

  /** Gives everything back, for good. */
  release(): void {
    this.#isReleased = true;
    this.#budget.give(this.#partBytes + this.#wholeBytes);
    this.#partBytes = 0;
    this.#wholeBytes = 0;
    this.#partSinceMs = undefined;
  }

  #give(bytes: number): void {
    const given = Math.min(bytes, this.#partBytes);
    this.#partBytes -= given;
    this.#budget.give(given);
    if (this.#partBytes === 0) this.#partSinceMs = undefined;
  }
}
