import { keyOfText, type RendezvousKey } from '../router/index.ts';
import type { Chooser, ChooserOptions, WeighedRequest } from './chooser.ts';
import { uncachedTokens } from './cost.ts';
import { isPlain } from './eligibility.ts';
import type { LoadEntry } from './load/active-load.ts';
import type { Decision, SchedulingOutcome } from './types.ts';

/** A request that is booked, and whose decision the router will make again. */
export interface HeldRequest {
  readonly weighed: WeighedRequest;
  readonly outcome: SchedulingOutcome;
  /** First decision. */
  readonly decision: Decision;
  readonly waitedMs: number;
  /** Duration of the index look-up. */
  readonly matchMs: number;
  /** Instants of the first decision and of the second. */
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** A booking that its router will decide again. */
interface OpenBooking {
  readonly entry: LoadEntry;
  /** Pairs of sequence hashes of the prompt's complete blocks, even if the load does not count blocks. */
  readonly hashes: Uint32Array;
  /** Id of the request at its router. */
  readonly requestId: string;
  readonly key: RendezvousKey;
  /** Instant at which this router heard of it. */
  readonly atMs: number;
  /** Request of this router, if it is decided now. */
  readonly held?: HeldRequest;
}

/** Requests held at once. Further ones are decided once. */
const HELD_MAX = 64;
/** Latest open bookings of other routers. Older ones count at the ranks where they are booked. */
const HEARD_MAX = 64;
/**
 * Costs of ranks that one turn of the event loop computes for requests of this router, and as many for those of others:
 * about a millisecond. Further requests of this router have their turn next, and the shortest of others stay where they
 * are booked.
 */
const COSTS_MAX = 8192;
/** Longest time for which one of the first requests is held. */
const HOLD_MS_MAX = 300;
/** Longest time for which a later request is held. Beyond it, all of six workloads but one lost more than they won. */
const SEEN_HOLD_MS_MAX = 60;
/** Time for which a request is held beyond the delay of messages: a share of that delay, and the grain of timers. */
const MARGIN_SHARE = 0.1;
const MARGIN_MS = 1;
/**
 * Factor of the time that decisions in the same instant cost, from which on a second look costs less. Measured with six
 * workloads and delays of 5 to 250 ms.
 */
const WORTH = 0.7;
/**
 * Share of the time to compute a prompt for which a router holds its first requests. Caches are still empty, and others
 * may be about to compute the same long beginnings.
 */
const TRIAL_SHARE = 0.5;

/**
 * Decisions that the router makes twice. Routers that decide in one instant see the same loads, and would choose the
 * same ranks. So each books its request, tells the others, and holds it until it knows what they have booked in that
 * instant. Then each puts these requests into the same order. It decides those before its own as their routers will,
 * and its own with that knowledge. So all come to the choices that a single router would make, without more messages.
 */
export class SecondLooks {
  readonly #options: ChooserOptions;
  readonly #chooser: Chooser;
  readonly #lagMs: () => number;
  /** In the order of the second decisions. */
  readonly #held = new Map<SchedulingOutcome, HeldRequest>();
  readonly #heard: OpenBooking[] = [];

  /** @param lagMs returns the milliseconds from a booking until other routers hear of it */
  constructor(options: ChooserOptions, chooser: Chooser, lagMs: () => number) {
    this.#options = options;
    this.#chooser = chooser;
    this.#lagMs = lagMs;
  }

  /** Whether the request, for which the chooser has narrowed, is better decided twice. */
  wants({ request, costModel }: WeighedRequest): boolean {
    const { share, unseen, pace } = this.#options;
    if (share === undefined || share.routers === 1 || costModel !== 'stator') return false;

    const { count } = this.#chooser.candidates;
    if (count === 1 || this.#held.size >= HELD_MAX || !isPlain(request)) return false;
    const holdMs = this.#holdMs();
    if (unseen.isNew) {
      const tokens = uncachedTokens(request.promptTokens, this.#chooser.bestCachedTokens());
      return holdMs <= Math.min(HOLD_MS_MAX, TRIAL_SHARE * tokens * pace.msPerToken);
    }
    // If others choose ranks at random, their numbers at one rank deviate by about the root of the mean. If all choose
    // the ranks that have a prefix cached, more meet there.
    const spreadTokens = Math.sqrt(unseen.mean / count) * unseen.meanTokens;
    const lossMs = Math.max(spreadTokens, unseen.collidedTokens) * pace.msPerToken;
    return holdMs <= Math.min(SEEN_HOLD_MS_MAX, WORTH * lossMs);
  }

  hold(held: Omit<HeldRequest, 'sinceMs' | 'untilMs'>, nowMs: number): void {
    this.#held.set(held.outcome, { ...held, sinceMs: nowMs, untilMs: nowMs + this.#holdMs() });
  }

  /** Instant of the next second decision; undefined if no request is held. */
  get nextMs(): number | undefined {
    for (const { untilMs } of this.#held.values()) return untilMs;
    return undefined;
  }

  isHeld(outcome: SchedulingOutcome): boolean {
    return this.#held.has(outcome);
  }

  /** Removes and returns the request; undefined if it is not held. */
  leave(outcome: SchedulingOutcome): HeldRequest | undefined {
    const held = this.#held.get(outcome);
    this.#held.delete(outcome);
    return held;
  }

  /** Removes and returns requests that must be decided again before or at `nowMs`, as many as fit into one turn. */
  leaveDue(nowMs: number): readonly HeldRequest[] {
    const most = this.#turnMax();
    const due: HeldRequest[] = [];
    for (const held of this.#held.values()) {
      if (held.untilMs > nowMs || due.length === most) break;
      this.#held.delete(held.outcome);
      due.push(held);
    }
    return due;
  }

  leaveAll(): readonly HeldRequest[] {
    const all = [...this.#held.values()];
    this.#held.clear();
    return all;
  }

  /** Records a booking of another router, which will decide it again. */
  heard(requestId: string, entry: LoadEntry, hashes: Uint32Array, atMs: number): void {
    if (this.#held.size === 0) return;
    if (this.#heard.length === HEARD_MAX) this.#heard.shift();
    this.#heard.push({ entry, hashes, requestId, key: keyOfText(requestId), atMs });
  }

  /**
   * Calls `decide`, which books, for each of the requests, of which there is at least one. At each call the chooser has
   * looked for the request, and the load is what it will be when the requests before this one have been decided again.
   */
  lookAgain(due: readonly HeldRequest[], decide: (held: HeldRequest, before: number) => void): void {
    const { load, clock } = this.#options;
    const nowMs = clock.nowMs();
    const own = due.map((held) => ({ ...this.#bookingOf(held), held }));
    const sinceMs = Math.min(...own.map(({ atMs }) => atMs));
    const held = Array.from(this.#held.values(), (each) => this.#bookingOf(each));
    const later = held.filter(({ entry }) => load.has(entry.id)); // the workers of the others have left
    // One that is booked on another rank by now has been decided again.
    const open = this.#heard.filter(({ entry, atMs }) => atMs >= sinceMs && load.isPrefilling(entry));
    const heard = open.sort(byLength).slice(0, this.#turnMax());
    this.#forgetBefore(Math.min(nowMs, ...held.map(({ atMs }) => atMs)));
    for (const { entry } of [...own, ...heard, ...later]) load.takeBack(entry.id, nowMs);
    const placed: OpenBooking[] = [];
    for (const booking of inOrder(own, heard)) {
      if (booking.held === undefined) {
        this.#place(booking, due[0] as HeldRequest, nowMs);
        placed.push(booking);
      } else {
        this.#chooser.look(booking.held.weighed.request);
        decide(booking.held, placed.length);
      }
    }
    for (const { entry } of placed) load.takeBack(entry.id, nowMs);
    for (const { entry, atMs } of [...heard, ...later]) load.add(entry, atMs); // until their routers tell
  }

  /** Books a request of another router where that router will probably send it. */
  #place({ entry, hashes: sequence, requestId: id }: OpenBooking, { weighed }: HeldRequest, nowMs: number): void {
    const chooser = this.#chooser;
    const { promptTokens, expectedOutputTokens } = entry;
    const hashes = { local: NO_HASHES, sequence };
    const request = { ...weighed.request, id, promptTokens, expectedOutputTokens, hashes };
    chooser.look(request);
    if (chooser.narrow(request) !== undefined) return; // this router's own request will fail in the same way
    const { at } = chooser.choose({ ...weighed, request }, 'peer');
    const { ranks, cachedTokens } = chooser.candidates;
    const prefillTokens = uncachedTokens(promptTokens, cachedTokens[at] as number);
    this.#options.load.add({ ...entry, rank: ranks[at] as number, prefillTokens }, nowMs);
  }

  /** Returns the booking of a request that this router holds. */
  #bookingOf({ weighed: { request, weights }, decision, sinceMs }: HeldRequest): OpenBooking {
    const { id, promptTokens, expectedOutputTokens } = request;
    const { rank, prefillTokens, prefillMs } = decision;
    const hashes = request.hashes.sequence;
    const counted = this.#options.config.trackActiveBlocks ? hashes : undefined;
    const tokens = { promptTokens, prefillTokens, prefillMs, expectedOutputTokens };
    const entry = { id, rank, ...tokens, hashes: counted, isReusing: weights.assumeKvReuse };
    return { entry, hashes, requestId: id, key: keyOfText(id), atMs: sinceMs };
  }

  /** Returns how many requests are decided in one turn of the event loop. */
  #turnMax(): number {
    return Math.max(1, Math.floor(COSTS_MAX / Math.max(1, this.#options.workers.allRanks.length)));
  }

  #holdMs(): number {
    return MARGIN_MS + (1 + MARGIN_SHARE) * this.#lagMs();
  }

  #forgetBefore(sinceMs: number): void {
    while ((this.#heard[0]?.atMs ?? sinceMs) < sinceMs) this.#heard.shift();
  }
}

const NO_HASHES = new Uint32Array(0);

/** Returns the requests of one instant in the order of all routers, down to the last one of this router. */
function inOrder(own: readonly OpenBooking[], heard: readonly OpenBooking[]): readonly OpenBooking[] {
  const all = [...own, ...heard].sort(byLength);
  return all.slice(0, 1 + all.findLastIndex(({ held }) => held !== undefined));
}

/**
 * Compares requests in the order in which all routers decide them: the longest prompt first, because short ones then
 * fill what it leaves. Counted in blocks, as other routers only hear of complete ones.
 */
function byLength(
  { hashes: a, key: [aLow, aHigh] }: OpenBooking,
  { hashes: b, key: [bLow, bHigh] }: OpenBooking,
): number {
  return b.length - a.length || aLow - bLow || aHigh - bHigh;
}
