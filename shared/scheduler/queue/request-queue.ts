import { copyOverlaps, restoreOverlaps } from '../../block-index/index.ts';
import { assertNever } from '../../errors/index.ts';
import type { RoutingFailure } from '../../router/index.ts';
import type { Chooser, ChooserOptions, WeighedRequest } from '../chooser.ts';
import { SHORT_BACKLOG_TOKENS, uncachedTokens } from '../cost.ts';
import { isPlain } from '../eligibility.ts';
import type { QueuePolicy } from '../kv-config.ts';
import type { SchedulerObserver, SchedulingOutcome, SchedulingRequest } from '../types.ts';
import type { ClassQueue, HeadOf, Waiting } from './class-queue.ts';
import { MeanLine } from './mean-line.ts';
import { PeerLine, type Urgent } from './peer-line.ts';
import { canWait, isFull, type PolicyProfile } from './policy-config.ts';
import { PolicyQueue } from './policy-queue.ts';
import { SoonestFirst } from './soonest-first.ts';

export interface RequestQueueOptions extends ChooserOptions {
  readonly chooser: Chooser;
  readonly policies: PolicyProfile;
  /** Returns the milliseconds from a booking until other routers hear of it. */
  readonly lagMs: () => number;
  readonly observer: SchedulerObserver | undefined;
}

/**
 * Backlog of a rank with which a request need not wait, as a share of what the request has to compute: the end of that
 * prefill hardly delays it. If it waited for an idle rank, shorter requests that arrive later would overtake it.
 */
const REST_SHARE = 0.1;
/** Most tokens of that backlog: about the fixed cost of a pass. */
const REST_TOKENS_MAX = 1000;
/**
 * Part of the tokens of other waiting requests, divided among the ranks, that a rank may have as its backlog. Engines
 * fill their passes from what waits there. If all of a long line waited here, each rank would run a pass of decode
 * steps alone before it got its next prompt, and at full load the line would grow without end. The line counts by its
 * mean over some seconds: one that is gone in a moment is better kept in order.
 */
const AHEAD_SHARE = 0.5;
/** Most tokens of that backlog: a large pass of an engine. */
const AHEAD_TOKENS_MAX = 8192;
/** Tokens by which a waiting request becomes more urgent in the time of the prefill of one token. */
const STATOR_AGING = 0.15;
/** Age of a look-up after which `stator` repeats it, because its order depends on it. */
const STATOR_REFRESH_MS = 50;
/** Number of look-ups repeated at each event, the oldest first; fewer if many requests wait. */
const STATOR_REFRESH_MAX = 64;
const STATOR_REFRESH_MAX_LONG = 8;
/** Number of waiting requests above which the order is renewed only after a sufficient change of the pace. */
const SHORT_LINE_MAX = 64;
const PACE_DRIFT_MAX = 0.01;
const DECAY_POLL_MS = 100;
/** Tolerance: a prefill is certainly over at the sum of its parts, in spite of rounding. */
const ROUNDING_MS = 0.01;
const INVALID = Number.NEGATIVE_INFINITY;

/**
 * The queue before the choice of a worker. It decides which requests must wait, in what order they leave, and when.
 * With `dynamo` a request waits while every eligible rank has more active prefill tokens than the class allows. With
 * `stator` it waits while every rank has a prefill that should not be over yet, and the order is by the tokens ahead of
 * its first token. Bounds and an order that someone set apply to both.
 */
export class RequestQueue {
  /** Requests that wait at other routers. */
  readonly peers: PeerLine;
  readonly #options: RequestQueueOptions;
  readonly #chooser: Chooser;
  readonly #lines: PolicyQueue;
  readonly #soonest: SoonestFirst;
  readonly #isStator: boolean;
  readonly #startMs: number;
  /** Uncached tokens of the waiting requests. */
  readonly #meanLine: MeanLine;
  /** Waiting requests, in the order of `foundMs`. */
  readonly #byAge = new Set<Waiting>();
  #arrivals = 0;
  /** Number of waiting requests that have a deadline. */
  #deadlines = 0;
  /** Tokens per millisecond with which the keys were made. */
  #aging: number;

  constructor(options: RequestQueueOptions) {
    const { chooser, policies, config, clock } = options;
    this.#options = options;
    this.#chooser = chooser;
    this.#lines = new PolicyQueue(policies, config.queuedRequestsMax);
    this.#soonest = new SoonestFirst(options);
    this.#isStator = config.costModel === 'stator';
    this.#startMs = clock.nowMs();
    this.#meanLine = new MeanLine(this.#startMs);
    this.#aging = STATOR_AGING / options.pace.msPerToken;
    this.peers = new PeerLine({ ...options, urgencyOf: (waiting) => this.#urgencyOf(waiting) });
  }

  get requests(): number {
    return this.#lines.requests;
  }

  get promptTokens(): number {
    return this.#lines.promptTokens;
  }

  /**
   * Whether the request last narrowed by the chooser must wait: no rank has room, or others of its class already wait,
   * here or at another router.
   */
  mustWait(weighed: WeighedRequest, outcome: SchedulingOutcome): boolean {
    const { request } = weighed;
    const line = this.#lineFor(request);
    if (!canWait(line.policyClass)) return false;
    const isShared = this.#isShared({ line, weighed, outcome });
    if (!isShared && this.#isCrowded(line)) return false;
    if (line.hasLineFor(request) || (isShared && !this.peers.isEmpty)) return true;
    return !this.#hasRoom(line, uncachedTokens(request.promptTokens, this.#chooser.bestCachedTokens()));
  }

  /**
   * Whether requests wait, but none in the lane of this one. Time may have made room for those, and this one must not
   * take it.
   */
  waitsElsewhere(request: SchedulingRequest): boolean {
    return this.#lines.waitsElsewhere(request);
  }

  /** Queues the request, or returns why it may not wait. The chooser has looked and narrowed for it. */
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

  /** Removes and returns the next request that can leave now; undefined if none can. */
  next(): Waiting | undefined {
    if (this.#lines.requests === 0) return undefined;
    if (this.#isStator) this.#orderByUrgency();
    const next = this.#lines.next(this.#canGo, this.#headOf);
    if (next !== undefined) this.#left(next);
    return next;
  }

  /** Returns false if the request no longer waits. */
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

  /** Number of requests ahead in its class; undefined once it left. */
  positionOf(waiting: Waiting): number | undefined {
    return waiting.heapAt === -1 ? undefined : waiting.line.before(waiting);
  }

  /** Gives the chooser the request's overlaps again. Repeats the look-up if it is too old. */
  recall(waiting: Waiting, nowMs: number): void {
    const { config, ranks } = this.#options;
    const ageMs = nowMs - waiting.foundMs;
    const refreshAfterMs = this.#isStator ? STATOR_REFRESH_MS : config.overlapRefreshAfterMs;
    const isOld = waiting.foundMs === INVALID || (refreshAfterMs > 0 && ageMs > refreshAfterMs);
    if (isOld) this.#chooser.look(waiting.weighed.request);
    else restoreOverlaps(waiting.found, this.#chooser.overlaps, ranks.capacity);
  }

  /** Makes all earlier look-ups invalid. */
  invalidateMatches(): void {
    for (const waiting of this.#lines.entries()) waiting.foundMs = INVALID;
  }

  /**
   * Returns the instant at which the passing of time may let a request leave or miss its deadline; undefined if only an
   * event can.
   */
  nextOpeningMs(): number | undefined {
    if (this.#lines.requests === 0) return undefined;
    let nextMs = this.#isStator ? this.#nextIdleMs() : this.#nextDecayMs();
    nextMs = Math.min(nextMs, this.peers.nextMs);
    if (this.#deadlines > 0) {
      for (const { weighed } of this.#lines.entries()) nextMs = Math.min(nextMs, weighed.request.deadlineMs ?? nextMs);
    }
    return Number.isFinite(nextMs) ? nextMs : undefined;
  }

  /** Removes and returns the requests that have waited past their deadline. */
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

  /**
   * Whether a rank of those that the chooser narrowed to can take one more request with `costTokens` left to compute.
   */
  #hasRoom({ policyClass, totals }: ClassQueue, costTokens: number): boolean {
    const { workers, clock } = this.#options;
    const { ranks, count } = this.#chooser.candidates;
    const isForeseeing = this.#isStator && !policyClass.hasOwnBounds;
    const nowMs = clock.nowMs();
    const enough = count - policyClass.busyShare * count; // with more free ranks than that, no request waits
    const line = Math.min(totals.promptTokens - totals.cachedTokens, this.#meanLine.at(nowMs));
    const others = Math.max(0, line - costTokens);
    const ahead = Math.min(AHEAD_TOKENS_MAX, (AHEAD_SHARE * others) / count);
    let open = 0;
    for (let at = 0; at < count; at++) {
      const rank = ranks[at] as number;
      const tokens = this.#chooser.prefillTokensAt(rank, nowMs, isForeseeing ? 'stator' : 'dynamo');
      const hasRoom = isForeseeing
        ? isShort(tokens, costTokens) || tokens <= ahead
        : !isFull(policyClass, tokens, workers.batchedTokensOf(rank));
      if (hasRoom && ++open > enough) return true;
    }
    return false;
  }

  /** Whether the request can leave. So can one that no worker can take any more: it leaves with its error. */
  readonly #canGo = (waiting: Waiting): boolean => {
    if (isOverdue(waiting, this.#options.clock.nowMs())) return true;
    const { line, costTokens, weighed } = waiting;
    if (this.#chooser.narrow(weighed.request) !== undefined) return true;
    const isShared = this.#isShared(waiting);
    if (!isShared && this.#isCrowded(line)) return true;
    if (isShared && !this.peers.isEmpty) {
      if (!this.peers.sendBefore(waiting, (others) => this.#hasRoom(line, others))) return false;
      if (this.#chooser.narrow(weighed.request) !== undefined) return true;
    }
    return this.#hasRoom(line, costTokens);
  };

  /** While requests wait at several routers, these can only agree on an order that does not depend on the ranks. */
  readonly #headOf: HeadOf = (top, lane) =>
    this.#ages(top.line) && this.peers.isEmpty ? this.#soonest.of(top, lane) : top;

  /** Whether the request takes its turn in one line with those of other routers. */
  #isShared({ line, outcome, weighed }: Pick<Waiting, 'line' | 'outcome' | 'weighed'>): boolean {
    if (outcome.waits === undefined || line.policyClass.hasOwnBounds || !this.#ages(line)) return false;
    return isPlain(weighed.request) && this.peers.isWorthIt;
  }

  /** Calls `waits` for a request that takes its turn in one line with those of other routers. */
  tellPeers(waiting: Waiting): void {
    const { outcome, weighed, uncachedTokens: left, arrivedMs } = waiting;
    const { workers, ranks, clock } = this.#options;
    const [rank] = workers.allRanks;
    if (rank === undefined || !this.#isShared(waiting)) return;
    const names = { workerId: ranks.workerIdOf(rank) ?? '', dpRank: ranks.dpRankOf(rank) };
    const { id: requestId } = weighed.request;
    outcome.waits?.({ ...names, requestId, uncachedTokens: left, waitedMs: clock.nowMs() - arrivedMs });
  }

  /**
   * Whether there are as many routers as ranks or more, and the class has no bounds of its own. Then requests that are
   * not in the shared line, and wait in each router, would all leave for the first rank with room.
   */
  #isCrowded({ policyClass }: ClassQueue): boolean {
    const { share } = this.#options;
    if (share === undefined || !this.#isStator || policyClass.hasOwnBounds) return false;
    return share.routers > 1 && share.routers >= this.#chooser.candidates.count;
  }

  /** Whether the class has the order of `stator`, whose keys change while requests wait. */
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

  /** Returns the urgency: the least left to compute first. Waiting makes a request count as shorter. */
  #urgencyOf({ uncachedTokens: left, arrivedMs, weighed }: Urgent): number {
    const jumpMs = 1000 * Math.max(0, weighed.request.priorityJump ?? 0);
    return this.#aging * (jumpMs - (arrivedMs - this.#startMs)) - left; // the current time would add the same to each
  }

  /**
   * Renews the keys, which follow the index and the pace. With many waiting requests, the pace must first change
   * enough.
   */
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
    if (isAsBefore) return; // no worker had any of it cached, and none has now
    if (this.#chooser.narrow(request) !== undefined) return;
    waiting.uncachedTokens = uncachedTokens(request.promptTokens, this.#chooser.bestCachedTokens());
    waiting.key = this.#keyOf(waiting);
    waiting.line.moved(waiting);
  }

  /** Returns the first instant at which the last prefill of some rank should be over. */
  #nextIdleMs(): number {
    const { workers, load, pace, clock } = this.#options;
    const nowMs = clock.nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const rank of workers.allRanks) {
      if (load.prefills[rank] !== 1) continue;
      const lastsMs = (load.oldestTokens[rank] as number) * pace.msPerTokenOf(rank);
      const idleMs = (load.oldestSinceMs[rank] as number) + lastsMs + ROUNDING_MS;
      if (idleMs > nowMs) nextMs = Math.min(nextMs, idleMs); // a rank that is already idle has not helped
    }
    return nextMs;
  }

  #nextDecayMs(): number {
    const { load, clock } = this.#options;
    return load.decays ? clock.nowMs() + DECAY_POLL_MS : Number.POSITIVE_INFINITY;
  }

  #tell({ policyClass, totals: { requests, promptTokens, cachedTokens } }: ClassQueue): void {
    this.#meanLine.set(this.#lines.promptTokens - this.#lines.cachedTokens, this.#options.clock.nowMs());
    this.#options.observer?.pending(policyClass.name, requests, promptTokens, cachedTokens);
  }
}

/** Whether a rank with this backlog may get a request with `costTokens` left to compute. */
function isShort(backlogTokens: number, costTokens: number): boolean {
  const rest = Math.min(REST_TOKENS_MAX, REST_SHARE * costTokens);
  return backlogTokens <= rest || backlogTokens + costTokens <= SHORT_BACKLOG_TOKENS;
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
 * Returns the urgency of a waiting request, larger first.
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
