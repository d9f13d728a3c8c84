import { copyOverlaps, restoreOverlaps } from '../../block-index/index.ts';
import { assertNever } from '../../errors/index.ts';
import type { RoutingFailure } from '../../router/index.ts';
import type { Chooser, ChooserOptions, WeighedRequest } from '../chooser.ts';
import { SHORT_BACKLOG_TOKENS, uncachedTokens } from '../cost.ts';
import type { QueuePolicy } from '../kv-config.ts';
import type { SchedulerObserver, SchedulingOutcome, SchedulingRequest } from '../types.ts';
import type { ClassQueue, Waiting } from './class-queue.ts';
import { canWait, isFull, type PolicyProfile } from './policy-config.ts';
import { PolicyQueue } from './policy-queue.ts';

export interface RequestQueueOptions extends ChooserOptions {
  readonly chooser: Chooser;
  readonly policies: PolicyProfile;
  readonly observer: SchedulerObserver | undefined;
}

/** Tokens by which a waiting request becomes more urgent while one token could have been prefilled. */
const STATOR_AGING = 0.05;
/** What `stator` orders by is looked up again after this. */
const STATOR_REFRESH_MS = 50;
/** At each event, for at most so many requests, the longest known ones first; for fewer where many wait. */
const STATOR_REFRESH_MAX = 64;
const STATOR_REFRESH_MAX_LONG = 8;
/** Where more wait, the order is made anew only once the pace has changed by so much. */
const SHORT_LINE_MAX = 64;
const PACE_DRIFT_MAX = 0.01;
const DECAY_POLL_MS = 100;
/** A prefill is surely over by the sum of its parts, whatever their last digits do. */
const ROUNDING_MS = 0.01;
const INVALID = Number.NEGATIVE_INFINITY;

/**
 * The gate before a choice: who must wait, in what order they leave, and when. `dynamo` waits while every eligible rank
 * has more active prefill tokens than the class allows; `stator` while every one has any that should not be done by
 * now, and orders by what is left to compute. Bounds and an order that somebody set hold in either.
 */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  readonly #chooser: Chooser;
  readonly #lines: PolicyQueue;
  readonly #isStator: boolean;
  readonly #startMs: number;
  /** What waits, in the order of `foundMs`. */
  readonly #byAge = new Set<Waiting>();
  #arrivals = 0;
  /** How many of what waits have a deadline. */
  #deadlines = 0;
  /** Tokens a millisecond by which keys were made. */
  #aging: number;

  constructor(options: RequestQueueOptions) {
    const { chooser, policies, config, clock } = options;
    this.#options = options;
    this.#chooser = chooser;
    this.#lines = new PolicyQueue(policies, config.queuedRequestsMax);
    this.#isStator = config.costModel === 'stator';
    this.#startMs = clock.nowMs();
    this.#aging = STATOR_AGING / options.pace.msPerToken;
  }

  get requests(): number {
    return this.#lines.requests;
  }

  get promptTokens(): number {
    return this.#lines.promptTokens;
  }

  /**
   * Whether the request that the chooser narrowed to must wait: nobody has room, or others of its class wait already.
   */
  mustWait({ request }: WeighedRequest): boolean {
    const line = this.#lineFor(request);
    if (!canWait(line.policyClass)) return false;
    if (line.hasLineFor(request)) return true;
    return !this.#hasRoom(line, uncachedTokens(request.promptTokens, this.#chooser.bestCachedTokens()));
  }

  /** Whether requests wait, but none where this one would: time may have made room for them that it must not take. */
  waitsElsewhere(request: SchedulingRequest): boolean {
    return this.#lines.waitsElsewhere(request);
  }

  /** Lets the request in, or says why it may not wait. The chooser has looked and narrowed for it. */
  enter(weighed: WeighedRequest, outcome: SchedulingOutcome, nowMs: number): Waiting | RoutingFailure {
    const { request } = weighed;
    const cachedTokens = Math.min(this.#chooser.bestCachedTokens(), request.promptTokens);
    const missing = request.promptTokens - cachedTokens;
    const line = this.#lineFor(request);
    if (request.mayWait === false) return doNotQueue(line);
    const refusal = this.#lines.refusal(line, missing, this.#options.workers.workers.length);
    if (refusal !== undefined) return refusal;
    const costTokens = Math.max(1, missing);
    const waiting: Waiting = {
      weighed,
      outcome,
      arrivedMs: nowMs,
      order: this.#arrivals++,
      key: 0,
      cachedTokens,
      costTokens,
      line,
      found: copyOverlaps(this.#chooser.overlaps),
      foundMs: nowMs,
      uncachedTokens: uncachedTokens(request.promptTokens, cachedTokens),
      lane: '',
      heapAt: -1,
    };
    waiting.key = this.#keyOf(waiting);
    this.#lines.add(waiting);
    this.#byAge.add(waiting);
    if (request.deadlineMs !== undefined) this.#deadlines++;
    this.#tell(line);
    return waiting;
  }

  /** Takes out the next request that can go now; undefined when none can. */
  next(): Waiting | undefined {
    if (this.#lines.requests === 0) return undefined;
    if (this.#isStator) this.#orderByUrgency();
    const next = this.#lines.next((first) => this.#canGo(first));
    if (next !== undefined) this.#left(next);
    return next;
  }

  /** False when it does not wait any more. */
  leave(waiting: Waiting): boolean {
    if (!this.#lines.remove(waiting)) return false;
    this.#left(waiting);
    return true;
  }

  #left(waiting: Waiting): void {
    this.#byAge.delete(waiting);
    if (waiting.weighed.request.deadlineMs !== undefined) this.#deadlines--;
    this.#tell(waiting.line);
  }

  leaveAll(): readonly Waiting[] {
    const all = [...this.#lines.entries()];
    for (const waiting of all) this.leave(waiting);
    return all;
  }

  /** Requests ahead in its class; undefined once it left. */
  positionOf(waiting: Waiting): number | undefined {
    return waiting.heapAt === -1 ? undefined : waiting.line.before(waiting);
  }

  /** Puts what the index had said of the request back before the chooser, asked anew when that is too old. */
  recall(waiting: Waiting, nowMs: number): void {
    const { config, ranks } = this.#options;
    const ageMs = nowMs - waiting.foundMs;
    const refreshAfterMs = this.#isStator ? STATOR_REFRESH_MS : config.overlapRefreshAfterMs;
    const isOld = waiting.foundMs === INVALID || (refreshAfterMs > 0 && ageMs > refreshAfterMs);
    if (isOld) this.#chooser.look(waiting.weighed.request);
    else restoreOverlaps(waiting.found, this.#chooser.overlaps, ranks.capacity);
  }

  /** What the index had said does not hold any more. */
  invalidateMatches(): void {
    for (const waiting of this.#lines.entries()) waiting.foundMs = INVALID;
  }

  /** Instant at which time alone may let somebody go or run out of time; undefined when only an event can. */
  nextOpeningMs(): number | undefined {
    if (this.#lines.requests === 0) return undefined;
    let nextMs = this.#isStator ? this.#nextIdleMs() : this.#nextDecayMs();
    if (this.#deadlines > 0) {
      for (const { weighed } of this.#lines.entries()) nextMs = Math.min(nextMs, weighed.request.deadlineMs ?? nextMs);
    }
    return Number.isFinite(nextMs) ? nextMs : undefined;
  }

  /** Takes out those that have waited past their deadline. */
  leaveOverdue(nowMs: number): readonly Waiting[] {
    if (this.#deadlines === 0) return [];
    const overdue: Waiting[] = [];
    for (const waiting of this.#lines.entries()) if (isOverdue(waiting, nowMs)) overdue.push(waiting);
    for (const waiting of overdue) this.leave(waiting);
    return overdue;
  }

  #lineFor(request: SchedulingRequest): ClassQueue {
    return this.#lines.lineFor(request.policyClass, () => this.#missingTokens(request));
  }

  #missingTokens({ promptTokens }: SchedulingRequest): number {
    return promptTokens - Math.min(this.#chooser.bestCachedTokens(), promptTokens);
  }

  /** Whether some rank that the chooser narrowed to can take one more, of which `costTokens` are left to compute. */
  #hasRoom({ policyClass }: ClassQueue, costTokens: number): boolean {
    const { workers, clock } = this.#options;
    const { ranks, count } = this.#chooser.candidates;
    const isForeseeing = this.#isStator && !policyClass.hasOwnBounds;
    const nowMs = clock.nowMs();
    const enough = count - policyClass.busyShare * count; // more ranks with room than that, and nobody waits
    let open = 0;
    for (let at = 0; at < count; at++) {
      const rank = ranks[at] as number;
      const tokens = this.#chooser.prefillTokensAt(rank, nowMs, isForeseeing ? 'stator' : 'dynamo');
      const hasRoom = isForeseeing
        ? tokens === 0 || tokens + costTokens <= SHORT_BACKLOG_TOKENS
        : !isFull(policyClass, tokens, workers.batchedTokensOf(rank));
      if (hasRoom && ++open > enough) return true;
    }
    return false;
  }

  /** Also one that nobody can take any more: it leaves to be told so. */
  #canGo(waiting: Waiting): boolean {
    if (isOverdue(waiting, this.#options.clock.nowMs())) return true;
    return (
      this.#chooser.narrow(waiting.weighed.request) !== undefined || this.#hasRoom(waiting.line, waiting.costTokens)
    );
  }

  /** Whether the line is in the order of `stator`, whose keys change while requests wait. */
  #ages({ policyClass }: ClassQueue): boolean {
    return this.#isStator && policyClass.policy === 'auto';
  }

  #keyOf(waiting: Waiting): number {
    const { line, arrivedMs, costTokens, weighed } = waiting;
    if (this.#ages(line)) return this.#urgencyOf(waiting);
    const { policy } = line.policyClass;
    const arrivedSecs = (arrivedMs - this.#startMs) / 1000;
    return queueKey(policy === 'auto' ? 'fcfs' : policy, arrivedSecs, weighed.request.priorityJump ?? 0, costTokens);
  }

  /** Least left to compute first; waiting makes a request seem shorter. */
  #urgencyOf({ uncachedTokens: left, arrivedMs, weighed }: Waiting): number {
    const jumpMs = 1000 * Math.max(0, weighed.request.priorityJump ?? 0);
    return this.#aging * (jumpMs - (arrivedMs - this.#startMs)) - left; // the present would add as much to every one
  }

  /** Keys follow what the index says and the pace; a long line follows the pace by steps. */
  #orderByUrgency(): void {
    const { clock, pace } = this.#options;
    const isShort = this.#lines.requests <= SHORT_LINE_MAX;
    this.#refreshOldest(clock.nowMs(), isShort ? STATOR_REFRESH_MAX : STATOR_REFRESH_MAX_LONG);
    const aging = STATOR_AGING / pace.msPerToken;
    if (aging === this.#aging || (!isShort && Math.abs(aging / this.#aging - 1) < PACE_DRIFT_MAX)) return;
    this.#aging = aging;
    this.#lines.rekey((waiting) => this.#keyOf(waiting));
  }

  #refreshOldest(nowMs: number, most: number): void {
    let refreshes = 0;
    for (const waiting of this.#byAge) {
      if (nowMs - waiting.foundMs <= STATOR_REFRESH_MS || refreshes++ === most) break;
      this.#refresh(waiting, nowMs);
    }
  }

  #refresh(waiting: Waiting, nowMs: number): void {
    const { request } = waiting.weighed;
    this.#chooser.look(request);
    this.#byAge.delete(waiting);
    this.#byAge.add(waiting);
    waiting.foundMs = nowMs;
    const isAsBefore = waiting.found.ranks.length === 0 && this.#chooser.overlaps.count === 0;
    waiting.found = copyOverlaps(this.#chooser.overlaps);
    if (isAsBefore) return; // nobody had any of it, and nobody has
    if (this.#chooser.narrow(request) !== undefined) return;
    waiting.uncachedTokens = uncachedTokens(request.promptTokens, this.#chooser.bestCachedTokens());
    waiting.key = this.#keyOf(waiting);
    waiting.line.moved(waiting);
  }

  /** The first instant at which the last prefill of some rank should be over. */
  #nextIdleMs(): number {
    const { workers, load, pace, clock } = this.#options;
    const nowMs = clock.nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const rank of workers.allRanks) {
      if (load.prefills[rank] !== 1) continue;
      const lastsMs = (load.oldestTokens[rank] as number) * pace.msPerToken;
      const idleMs = (load.oldestSinceMs[rank] as number) + lastsMs + ROUNDING_MS;
      if (idleMs > nowMs) nextMs = Math.min(nextMs, idleMs); // the others are idle already and did not help
    }
    return nextMs;
  }

  #nextDecayMs(): number {
    const { load, clock } = this.#options;
    return load.decays ? clock.nowMs() + DECAY_POLL_MS : Number.POSITIVE_INFINITY;
  }

  #tell({ policyClass, totals: { requests, promptTokens, cachedTokens } }: ClassQueue): void {
    this.#options.observer?.pending(policyClass.name, requests, promptTokens, cachedTokens);
  }
}

function doNotQueue({ policyClass, totals }: ClassQueue): RoutingFailure {
  return {
    kind: 'DoNotQueue',
    policyClass: policyClass.name,
    pendingRequests: totals.requests,
    pendingPromptTokens: totals.promptTokens,
    pendingCachedTokens: totals.cachedTokens,
  };
}

function isOverdue({ weighed }: Waiting, nowMs: number): boolean {
  const { deadlineMs } = weighed.request;
  return deadlineMs !== undefined && deadlineMs <= nowMs;
}

/**
 * Urgency of a waiting request, larger first.
 * @param arrivedSecs seconds from any fixed instant to its arrival
 * @param jumpSecs seconds ahead of its arrival; below 0 counts as 0
 * @param costTokens prompt tokens that no eligible worker has cached, at least 1
 */
export function queueKey(policy: QueuePolicy, arrivedSecs: number, jumpSecs: number, costTokens: number): number {
  const jump = Math.max(0, jumpSecs);
  switch (policy) {
    case 'fcfs':
      return jump - arrivedSecs;
    case 'lcfs':
      return jump + arrivedSecs;
    case 'wspt':
      return (1 + jump) / Math.max(1, costTokens);
    default:
      return assertNever(policy);
  }
}
