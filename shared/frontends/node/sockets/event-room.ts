import type { Clock } from '../../../clock/index.ts';
import type { ByteBudget } from '../../inference/deps.ts';

/** Bytes of a client's short frame beside its payload. */
const FRAME_BYTES = 6;

/**
 * The share of the room for bodies that the events of one connection take, from their first byte until they are read.
 */
export class EventRoom {
  readonly #budget: ByteBudget;
  readonly #clock: Clock;
  /** Bytes of the event that is incomplete. */
  #partBytes = 0;
  #partSinceMs: number | undefined;
  /** Bytes of the events that wait. */
  #wholeBytes = 0;
  #isReleased = false;

  constructor(budget: ByteBudget, clock: Clock) {
    this.#budget = budget;
    this.#clock = clock;
  }

  /**
   * Takes room for bytes that arrived; their kind is known when the frame is complete. @throws ServeError
   * `server_overloaded`
   */
  arrived(bytes: number): void {
    if (this.#isReleased) return;
    this.#budget.take(bytes);
    this.#partSinceMs ??= this.#clock.nowMs();
    this.#partBytes += bytes;
  }

  /** Gives the room back of bytes that were a ping or a pong. */
  arrivedControl(payloadBytes: number): void {
    this.#give(payloadBytes + FRAME_BYTES);
  }

  /** Takes room for a complete event in place of its bytes. @throws ServeError `server_overloaded` */
  arrivedWhole(bytes: number): void {
    this.#give(this.#partBytes);
    if (this.#isReleased) return;
    this.#budget.take(bytes);
    this.#wholeBytes += bytes;
  }

  /** Gives the room of an event back that is about to be read, because its reader takes room itself. */
  read(bytes: number): void {
    if (this.#isReleased) return;
    this.#wholeBytes -= bytes;
    this.#budget.give(bytes);
  }

  /** Returns whether an event has been arriving since before `ms`. */
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
