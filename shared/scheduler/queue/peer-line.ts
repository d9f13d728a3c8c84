import type { Chooser, ChooserOptions } from '../chooser.ts';
import { uncachedTokens } from '../cost.ts';
import type { PeerPlace, SchedulingRequest } from '../types.ts';
import type { Waiting } from './class-queue.ts';

/** Facts of a waiting request that decide its urgency. */
export interface Urgent {
  readonly weighed: { readonly request: SchedulingRequest };
  readonly arrivedMs: number;
  /** Prompt tokens left to compute at the best rank. */
  readonly uncachedTokens: number;
}

/** A request that waits at another router. */
interface PeerWaiting extends Urgent {
  /** Id of its booking in the load, once its router books it. */
  readonly id: string;
  uncachedTokens: number;
  foundMs: number;
}

export interface PeerLineOptions extends ChooserOptions {
  readonly chooser: Chooser;
  /** Returns the milliseconds from a booking until other routers hear of it. */
  readonly lagMs: () => number;
  /** Returns the urgency of a request, the larger first. */
  readonly urgencyOf: (waiting: Urgent) => number;
}

/** Waiting requests of other routers. Beyond that, the least urgent is forgotten. */
const WAITING_MAX = 256;
/** Bookings of others that this router expects at once. Its own requests wait until one arrives, or is overdue. */
const EXPECTED_MAX = 64;
/** Age of a look-up after which it is repeated, and look-ups that are repeated for one request of this router. */
const REFRESH_MS = 50;
const REFRESH_MAX = 8;
/** Time after which a rank counts as free if a request went elsewhere than expected: the next message may say more. */
const RECHECK_MS = 1;
/** Time beyond the delay of messages there and back after which an expected booking no longer counts. */
const MARGIN_MS = 5;

/**
 * The requests that wait in the queues of other routers. All routers together serve one line: before a request leaves,
 * its router books the more urgent ones of others where their routers will probably send them. If there is no room for
 * one of those, its own request waits, too. So only one request leaves for each rank with room, and it is the one that
 * a single router would send.
 */
export class PeerLine {
  readonly #options: PeerLineOptions;
  readonly #waiting = new Map<string, PeerWaiting>();
  /** Instant until which the booking of each request counts without its router, by id, the earliest first. */
  readonly #expected = new Map<string, number>();
  /** Instant at which own requests may have room, because one of others went elsewhere than expected. */
  #recheckMs = Number.POSITIVE_INFINITY;

  constructor(options: PeerLineOptions) {
    this.#options = options;
  }

  /** Whether no request waits at another router, as far as this one knows. */
  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /**
   * Whether a rank waits for an expected booking no longer than a mean prefill of others takes. With slower messages,
   * ranks would be idle while routers wait for each other, and the line would grow.
   */
  get isWorthIt(): boolean {
    const { unseen, pace } = this.#options;
    const { meanTokens } = unseen;
    return meanTokens === 0 || this.#expectedMs() <= meanTokens * pace.msPerToken;
  }

  /** Instant at which own requests may have room without an event; infinity if only an event can make room. */
  get nextMs(): number {
    for (const untilMs of this.#expected.values()) return Math.min(untilMs, this.#recheckMs);
    return this.#recheckMs;
  }

  /** Records that a request waits at another router. */
  add(place: PeerPlace, nowMs: number): void {
    const { id, requestId, promptTokens, sequenceHashes: sequence, uncachedTokens: left, waitedMs } = place;
    const { expectedOutputTokens, priorityJump, strictPriority } = place;
    const hashes = { local: NO_HASHES, sequence };
    const request = { id: requestId, promptTokens, hashes, expectedOutputTokens, priorityJump, strictPriority };
    const arrivedMs = nowMs - this.#options.lagMs() - waitedMs;
    this.#waiting.set(id, { id, weighed: { request }, arrivedMs, uncachedTokens: left, foundMs: nowMs });
    if (this.#waiting.size > WAITING_MAX) this.#forgetLast();
  }

  /** Forgets a request, for example because its client has left. Returns whether that ended an expected booking. */
  remove(id: string, nowMs: number): boolean {
    this.#waiting.delete(id);
    if (!this.#expected.delete(id)) return false;
    this.#options.load.takeBack(id, nowMs);
    return true;
  }

  /** Forgets a request that its router has booked on that rank; undefined = on an unknown one. */
  booked(id: string, rank: number | undefined, nowMs: number): void {
    const wasElsewhere = this.#options.load.rankOf(id) !== rank;
    if (this.remove(id, nowMs) && wasElsewhere) this.#recheckMs = nowMs + RECHECK_MS;
  }

  /** Ends the expected bookings that have not come in time. Their requests lose their places, too. */
  expire(nowMs: number): void {
    if (this.#recheckMs <= nowMs) this.#recheckMs = Number.POSITIVE_INFINITY;
    for (const [id, untilMs] of this.#expected) {
      if (untilMs > nowMs) return;
      this.remove(id, nowMs);
    }
  }

  /**
   * Books the requests of others that leave before a request of this router. Returns whether the own one may leave
   * next: all of those had room. Changes the chooser's candidates.
   */
  sendBefore(own: Waiting, hasRoom: (costTokens: number) => boolean): boolean {
    const nowMs = this.#options.clock.nowMs();
    this.expire(nowMs);
    let refreshes = 0;
    for (let first = this.#firstBefore(own); first !== undefined; first = this.#firstBefore(own)) {
      if (this.#expected.size >= EXPECTED_MAX) return false;
      const { chooser } = this.#options;
      const request = { ...own.weighed.request, ...first.weighed.request };
      chooser.look(request);
      if (chooser.narrow(request) !== undefined) return true; // the own one will fail in the same way
      if (nowMs - first.foundMs > REFRESH_MS && refreshes++ < REFRESH_MAX) {
        first.uncachedTokens = uncachedTokens(request.promptTokens, chooser.bestCachedTokens());
        first.foundMs = nowMs;
      } else if (hasRoom(Math.max(1, first.uncachedTokens))) this.#expect(first, request, own, nowMs);
      else return false;
    }
    return true;
  }

  /** Returns the most urgent of the requests that leave before `own`. */
  #firstBefore(own: Waiting): PeerWaiting | undefined {
    const { urgencyOf } = this.#options;
    let first: PeerWaiting | undefined;
    let [tier, urgency] = [own.weighed.request.strictPriority ?? 0, own.key];
    for (const waiting of this.#waiting.values()) {
      const its = waiting.weighed.request.strictPriority ?? 0;
      if (its < tier) continue;
      const itsUrgency = urgencyOf(waiting);
      if (its === tier && itsUrgency <= urgency) continue;
      [first, tier, urgency] = [waiting, its, itsUrgency];
    }
    return first;
  }

  /** Books a request, for which the chooser has narrowed, where its router will probably send it. */
  #expect({ id }: PeerWaiting, request: SchedulingRequest, { weighed }: Waiting, nowMs: number): void {
    const { chooser, load, config } = this.#options;
    const { at } = chooser.choose({ ...weighed, request }, 'peer');
    const { ranks, cachedTokens } = chooser.candidates;
    const { promptTokens, expectedOutputTokens } = request;
    const prefillTokens = uncachedTokens(promptTokens, cachedTokens[at] as number);
    const hashes = config.trackActiveBlocks ? request.hashes.sequence : undefined;
    const rank = ranks[at] as number;
    const isReusing = weighed.weights.assumeKvReuse;
    load.add({ id, rank, promptTokens, prefillTokens, expectedOutputTokens, hashes, isReusing }, nowMs);
    this.#waiting.delete(id);
    this.#expected.set(id, nowMs + this.#expectedMs());
  }

  /** Returns for how long an expected booking counts without its router. */
  #expectedMs(): number {
    return 2 * this.#options.lagMs() + MARGIN_MS;
  }

  #forgetLast(): void {
    const { urgencyOf } = this.#options;
    let last: string | undefined;
    let lowest = Number.POSITIVE_INFINITY;
    for (const [id, waiting] of this.#waiting) {
      const urgency = urgencyOf(waiting);
      if (urgency < lowest) [last, lowest] = [id, urgency];
    }
    if (last !== undefined) this.#waiting.delete(last);
  }
}

const NO_HASHES = new Uint32Array(0);
