import type { Clock, Random, Timer } from '../clock/index.ts';
import type { Reservation } from '../router/index.ts';
import type { ChosenWorker } from './messages.ts';

export interface ReservationBookOptions {
  readonly clock: Clock;
  readonly random: Pick<Random, 'instanceId'>;
  /** Time after which a reservation is freed if its request has not been seen at the worker. @default 2000 */
  readonly unseenMsMax?: number;
  /** Hears that a reservation ran out. */
  onExpired?(wasSeen: boolean): void;
}

interface Entry {
  readonly reservation: Reservation;
  readonly chosen: ChosenWorker;
  expiresAtMs: number;
}

const UNSEEN_MS_MAX = 2000;
/** Time without a sign after which a reservation that was seen is freed, too. */
const SEEN_MS_MAX = 600_000;

/**
 * Places at workers that a resident router holds for requests of other processes, by request id.
 *
 * | State | seen at the worker, or first token | end, left its worker | time up |
 * |---|---|---|---|
 * | unseen (after the decision, 2 s) | -> seen | freed | freed |
 * | seen (10 min since the last sign) | - | freed | freed |
 *
 * All reservations at a worker end if the worker is gone.
 */
export class ReservationBook {
  readonly #options: ReservationBookOptions;
  // Each map is in the order in which its entries run out. Bounded: an entry that no caller ends runs out.
  readonly #unseen = new Map<string, Entry>();
  readonly #seen = new Map<string, Entry>();
  readonly #prefix: string;
  #number = 0;
  #timer: Timer | undefined;

  constructor(options: ReservationBookOptions) {
    this.#options = options;
    this.#prefix = options.random.instanceId();
  }

  get size(): number {
    return this.#unseen.size + this.#seen.size;
  }

  /** Adds a reservation. The request must have none, or its caller must have handled the earlier one. */
  add(requestId: string, reservation: Reservation): ChosenWorker {
    const { worker, dpRank, overlapBlocks, cachedTokens } = reservation;
    const reservationId = `${this.#prefix}${(++this.#number).toString(16)}`;
    const chosen = { workerId: worker.id, dpRank, overlapBlocks, cachedTokens, reservationId };
    const { clock, unseenMsMax = UNSEEN_MS_MAX } = this.#options;
    this.#unseen.set(requestId, { reservation, chosen, expiresAtMs: clock.nowMs() + unseenMsMax });
    this.#arm();
    return chosen;
  }

  find(requestId: string): ChosenWorker | undefined {
    return this.#entryOf(requestId)?.chosen;
  }

  /** Notes that the worker has the request. Only the chosen worker counts. */
  seenAt(workerId: string, requestId: string): void {
    const entry = this.#entryOf(requestId);
    if (entry?.chosen.workerId === workerId) this.#noteSeen(requestId, entry);
  }

  /** Notes that the request left the worker. */
  leftWorker(workerId: string, requestId: string): void {
    const entry = this.#entryOf(requestId);
    if (entry?.chosen.workerId === workerId) this.free(requestId);
  }

  /** Notes that every request left the worker, because it is gone. */
  leftAll(workerId: string): void {
    for (const entries of [this.#unseen, this.#seen]) {
      for (const [requestId, { chosen }] of entries) if (chosen.workerId === workerId) this.free(requestId);
    }
  }

  prefillDone(requestId: string, reservationId: string): void {
    const entry = this.#entryOf(requestId);
    if (entry?.chosen.reservationId !== reservationId) return;
    entry.reservation.prefillDone();
    this.#noteSeen(requestId, entry);
  }

  /** @param outputTokens tokens of the answer; 0 = unknown */
  end(requestId: string, reservationId: string, outputTokens: number): void {
    const entry = this.#entryOf(requestId);
    if (entry?.chosen.reservationId !== reservationId) return;
    if (outputTokens > 0) entry.reservation.produced(outputTokens);
    this.free(requestId);
  }

  /** Frees the places that the request holds. Idempotent. */
  free(requestId: string): void {
    const entry = this.#entryOf(requestId);
    this.#unseen.delete(requestId);
    this.#seen.delete(requestId);
    entry?.reservation.release();
  }

  /** Frees all places. */
  close(): void {
    for (const requestId of [...this.#unseen.keys(), ...this.#seen.keys()]) this.free(requestId);
    this.#timer?.cancel();
  }

  #entryOf(requestId: string): Entry | undefined {
    return this.#unseen.get(requestId) ?? this.#seen.get(requestId);
  }

  #noteSeen(requestId: string, entry: Entry): void {
    this.#unseen.delete(requestId);
    this.#seen.delete(requestId);
    entry.expiresAtMs = this.#options.clock.nowMs() + SEEN_MS_MAX;
    this.#seen.set(requestId, entry);
    this.#arm();
  }

  /** Sets one timer for the reservation that runs out next. If that one has gone by then, the timer is set again. */
  #arm(): void {
    if (this.#timer !== undefined) return;
    const nextMs = Math.min(...[this.#unseen, this.#seen].map(expiryOfFirst));
    if (nextMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#options;
    this.#timer = clock.after(Math.max(0, nextMs - clock.nowMs()), () => {
      this.#timer = undefined;
      this.#expire(this.#unseen, false);
      this.#expire(this.#seen, true);
      this.#arm();
    });
  }

  #expire(entries: Map<string, Entry>, wasSeen: boolean): void {
    const { clock, onExpired } = this.#options;
    for (const [requestId, { expiresAtMs }] of entries) {
      if (expiresAtMs > clock.nowMs()) return;
      this.free(requestId);
      onExpired?.(wasSeen);
    }
  }
}

function expiryOfFirst(entries: ReadonlyMap<string, Entry>): number {
  for (const { expiresAtMs } of entries.values()) return expiresAtMs;
  return Number.POSITIVE_INFINITY;
}
