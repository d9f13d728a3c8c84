import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { RankWeight } from '../scheduler/types.ts';
import { addLoad, isNoLoad, NO_LOAD, subtractLoad } from './load-amounts.ts';
import type { PoolAddress, RankId, ReservationChange, RouterState } from './types.ts';

export interface ReservationLedgerOptions {
  readonly state: RouterState;
  readonly pool: PoolAddress;
  readonly clock: Clock;
  readonly random: Random;
  /** How long changes are gathered before they are written: 0 for a router that decides now and then. @default 0 */
  readonly gatherMs?: number;
  /** Hears of writes that failed; they are repeated. */
  onProblem(problem: unknown): void;
}

interface Entry {
  readonly rank: RankId;
  /** Not yet in any change. */
  pending: RankWeight;
  /** Sent, and not known to have arrived: sent again as it is, for only then is it recognised. */
  sent: ReservationChange | undefined;
  isUnderWay: boolean;
}

/** Writes under way at once. */
const WRITES_MAX = 16;
const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 5000;

/**
 * What a decider reserves and releases, on its way into the shared counters. Changes of one rank are added up while one is
 * under way, so a busy decider makes as many writes as the table takes and never queues more than one a rank. A change whose
 * outcome is unknown is sent again under its own number, until it is known.
 *
 *   reserve -> pending --one write a rank--> sent --answer--> gone        no answer: sent again, with back-off
 */
export class ReservationLedger {
  readonly #options: ReservationLedgerOptions;
  readonly #deciderId: string;
  readonly #entries = new Map<string, Entry>(); // bounded by the ranks that requests go to
  readonly #closing = new AbortController();
  #number = 0; // one sequence for all ranks: an entry can be dropped without its number coming again
  #underWay = 0;
  #hasMore = false;
  #failures = 0;
  #pausedUntilMs = 0;
  #timer: Timer | undefined;
  #whenIdle: (() => void) | undefined;

  constructor(options: ReservationLedgerOptions) {
    this.#options = options;
    this.#deciderId = options.random.instanceId();
  }

  /** Ranks with changes that are not known to have arrived. */
  get pendingRanks(): number {
    return this.#entries.size;
  }

  /** A request is about to be sent to `rank`. */
  reserve(rank: RankId, amounts: RankWeight): void {
    this.#change(rank, (pending) => addLoad(pending, amounts));
  }

  /** A reserved request was never sent. One that was sent is its worker's business. */
  release(rank: RankId, amounts: RankWeight): void {
    this.#change(rank, (pending) => subtractLoad(pending, amounts));
  }

  /** The worker is gone, and its counters with it. */
  forget(workerId: string): void {
    for (const [key, { rank }] of this.#entries) if (rank.workerId === workerId) this.#entries.delete(key);
  }

  /** Writes what is pending, for `timeoutMs` at most; what is then left counts as arrived within two report intervals. */
  async close(timeoutMs: number): Promise<void> {
    const { clock } = this.#options;
    this.#cancelTimer();
    this.#pausedUntilMs = 0;
    this.#send();
    if (this.#entries.size > 0) {
      await new Promise<void>((resolve) => {
        const deadline = clock.after(timeoutMs, resolve);
        this.#whenIdle = () => {
          deadline.cancel();
          resolve();
        };
      });
    }
    this.#closing.abort(new Error('the reservation ledger is closed'));
    this.#cancelTimer();
    this.#entries.clear();
  }

  #change(rank: RankId, change: (pending: RankWeight) => RankWeight): void {
    if (this.#closing.signal.aborted) return;
    const key = `${rank.workerId}/${rank.dpRank}`;
    const entry = this.#entries.get(key) ?? { rank, pending: NO_LOAD, sent: undefined, isUnderWay: false };
    this.#entries.set(key, entry);
    entry.pending = change(entry.pending);
    this.#schedule(this.#options.gatherMs ?? 0);
  }

  #schedule(delayMs: number): void {
    if (this.#timer !== undefined || this.#closing.signal.aborted) return;
    const { clock } = this.#options;
    this.#timer = clock.after(Math.max(delayMs, this.#pausedUntilMs - clock.nowMs()), () => {
      this.#timer = undefined;
      this.#send();
    });
  }

  #cancelTimer(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #send(): void {
    this.#hasMore = false;
    if (this.#options.clock.nowMs() < this.#pausedUntilMs) {
      this.#schedule(0);
      return;
    }
    for (const [key, entry] of this.#entries) {
      if (this.#underWay >= WRITES_MAX) {
        this.#hasMore = true; // the end of a write goes on
        return;
      }
      if (entry.isUnderWay) continue;
      if (entry.sent === undefined && isNoLoad(entry.pending)) {
        this.#entries.delete(key); // released before it was written
        continue;
      }
      void this.#write(key, entry); // never rejects
    }
    if (this.#entries.size === 0) this.#whenIdle?.();
  }

  async #write(key: string, entry: Entry): Promise<void> {
    const { state, pool, onProblem } = this.#options;
    const { rank, pending: amounts } = entry;
    const change = entry.sent ?? { rank, amounts, deciderId: this.#deciderId, number: ++this.#number };
    if (entry.sent === undefined) entry.pending = NO_LOAD;
    entry.sent = change;
    entry.isUnderWay = true;
    this.#underWay++;
    try {
      const isKnown = await state.reserve(pool, change, this.#closing.signal);
      entry.sent = undefined;
      if (!isKnown) entry.pending = NO_LOAD; // the worker is gone, or was never there
      this.#failures = 0;
    } catch (problem) {
      if (this.#closing.signal.aborted) return;
      this.#pause();
      onProblem(problem);
    } finally {
      entry.isUnderWay = false;
      this.#underWay--;
    }
    if (entry.sent === undefined && isNoLoad(entry.pending) && this.#entries.get(key) === entry)
      this.#entries.delete(key);
    if (this.#entries.size === 0) this.#whenIdle?.();
    else if (this.#hasMore) this.#send();
    else this.#schedule(this.#options.gatherMs ?? 0);
  }

  #pause(): void {
    const { clock, random } = this.#options;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures++, PAUSE_MS_MAX);
    this.#pausedUntilMs = clock.nowMs() + pauseMs * (0.5 + random.next() / 2);
  }
}
