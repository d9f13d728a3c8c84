import type { RankTable } from '../block-index/index.ts';
import { Overlaps, type PrefixIndex } from '../block-index/index.ts';
import type { Clock, Random } from '../clock/index.ts';
import { toServeError } from '../errors/index.ts';
import { type RankId, RoutingError, type RoutingFailure } from '../router/index.ts';
import { Chooser, type WeighedRequest } from './chooser.ts';
import { cachedTokensOf, type ReplicaShare } from './cost.ts';
import { Decider } from './decider.ts';
import type { ExplanationRecord } from './explanation-record.ts';
import type { KvRouterConfig } from './kv-config.ts';
import { ActiveLoad } from './load/active-load.ts';
import { RankSpeeds } from './load/rank-speeds.ts';
import { UnseenLoad } from './load/unseen-load.ts';
import type { Waiting } from './queue/class-queue.ts';
import { type PolicyProfile, singleClass } from './queue/policy-config.ts';
import { RequestQueue } from './queue/request-queue.ts';
import { type HeldRequest, SecondLooks } from './second-looks.ts';
import type {
  Booking,
  Decision,
  PeerPlace,
  PotentialLoad,
  PrefillDurationModel,
  RankLoad,
  RankWeight,
  SchedulableWorker,
  SchedulerObserver,
  SchedulingOutcome,
  SchedulingRequest,
  SchedulingTicket,
} from './types.ts';
import { WorkerSet } from './worker-set.ts';

export interface SchedulerOptions {
  readonly config: KvRouterConfig;
  readonly blockSizeTokens: number;
  /** Numbers of the pool's ranks, shared with the source of `index`. */
  readonly ranks: RankTable;
  /** Index of cached blocks; undefined = caches are unknown, only load decides. */
  readonly index: PrefixIndex | undefined;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly random: Random;
  /** Whether the pool is labelled decode: see `DynamoWeights.isDecodePool`. @default false */
  readonly isDecodePool?: boolean;
  /** Queue classes. @default one, with the settings of the configuration */
  readonly policies?: PolicyProfile | undefined;
  readonly prefillDuration?: PrefillDurationModel | undefined;
  /**
   * Share of the ranks if other routers place requests in the same pool, for the cost model `stator`. @default this is
   * the only router
   */
  readonly share?: ReplicaShare | undefined;
  /** Returns the milliseconds from a booking of another router until `book` hears of it. @default 5 */
  readonly peerLagMs?: (() => number | undefined) | undefined;
  /** Number of decisions kept for `explained`, 0 = none. @default 1000 */
  readonly explainedMax?: number;
  readonly observer?: SchedulerObserver | undefined;
}

/** Interval at which arriving requests trigger a search for lost ones. */
const EXPIRY_CHECK_MS = 30_000;
const RECHECK_MS = 60_000;
/** Interval of checks while load shrinks with time, because the queue can open at any instant. */
const DECAY_RECHECK_MS = 100;
/** Time after which a booking of another router is known, if nothing has measured it. */
const PEER_LAG_MS = 5;
const DONE: SchedulingTicket = { isWaiting: false, position: undefined, cancel: () => {} };

/**
 * The core of the router, without sockets and timers: index, load, cost and queue of one pool of workers. It does
 * everything in the caller's turn of the event loop, and takes the time from its clock.
 */
export class Scheduler {
  readonly recheckMs: number;
  readonly #options: SchedulerOptions;
  readonly #workers: WorkerSet;
  readonly #load: ActiveLoad;
  readonly #pace = new RankSpeeds();
  readonly #unseen: UnseenLoad;
  readonly #chooser: Chooser;
  readonly #decider: Decider;
  readonly #queue: RequestQueue;
  readonly #looks: SecondLooks;
  #checkedExpiryMs: number;
  #isDraining = false;
  #drainsAgain = false;
  #isClosed = false;

  constructor(options: SchedulerOptions) {
    const { config, blockSizeTokens, ranks, index, clock, random, isDecodePool = false, share } = options;
    this.#options = options;
    this.#workers = new WorkerSet(ranks);
    this.#load = new ActiveLoad(ranks.capacity, { blockSizeTokens, expiryMs: config.activeRequestExpiryMs });
    const lagMs = (): number => options.peerLagMs?.() ?? PEER_LAG_MS;
    this.#unseen = new UnseenLoad(lagMs);
    const shared = { workers: this.#workers, load: this.#load, pace: this.#pace, unseen: this.#unseen };
    const choosing = { config, blockSizeTokens, ranks, index, clock, random, isDecodePool, share, ...shared };
    this.#chooser = new Chooser(choosing);
    const { prefillDuration, observer, explainedMax = 1000, policies = singleClass(config) } = options;
    this.#decider = new Decider({ ...choosing, chooser: this.#chooser, prefillDuration, observer, explainedMax });
    this.#queue = new RequestQueue({ ...choosing, chooser: this.#chooser, policies, observer, lagMs });
    this.#looks = new SecondLooks(choosing, this.#chooser, lagMs);
    const hasQueue = config.queueThreshold !== undefined;
    this.recheckMs = prefillDuration !== undefined && hasQueue ? DECAY_RECHECK_MS : RECHECK_MS;
    this.#checkedExpiryMs = clock.nowMs();
  }

  /** Replaces the pool. Workers that are gone lose their bookings and their blocks. */
  setWorkers(workers: readonly SchedulableWorker[]): void {
    const { ranks, index, clock } = this.#options;
    const gone = this.#workers.replace(workers);
    this.#load.reserve(ranks.capacity);
    this.#pace.reserve(ranks.capacity);
    for (const rank of gone) {
      this.#load.freeRank(rank, clock.nowMs());
      this.#pace.forget(rank);
      if (index === undefined) ranks.recycle(rank);
      else index.removeRank(rank);
    }
    if (index?.setCapacity !== undefined) {
      for (const { ranks: own, totalKvBlocks } of this.#workers.workers) {
        for (const rank of own) index.setCapacity(rank, totalKvBlocks);
      }
    }
    if (gone.length > 0) this.#queue.invalidateMatches(); // their numbers may soon belong to other ranks
    this.#drain();
  }

  /** Books the request on a worker, now or when one has room. Calls `outcome` once, possibly before this returns. */
  submit(request: SchedulingRequest, outcome: SchedulingOutcome): SchedulingTicket {
    const { clock, observer } = this.#options;
    observer?.received(request.policyClass ?? 'default');
    if (this.#isClosed) return this.#reject(outcome, { kind: 'SubscriberShutdown' });
    let weighed: WeighedRequest;
    try {
      weighed = this.#chooser.weigh(request);
    } catch (thrown) {
      outcome.rejected(toServeError(thrown));
      return DONE;
    }
    if (this.#queue.waitsElsewhere(request)) this.#drain(); // waiting requests leave first
    const startMs = clock.nowMs();
    this.#expireSometimes(startMs);
    this.#chooser.look(request);
    const matchMs = observer === undefined ? 0 : clock.nowMs() - startMs;
    const failure = this.#chooser.narrow(request);
    if (failure !== undefined) return this.#reject(outcome, failure);
    if (!this.#queue.mustWait(weighed, outcome)) {
      this.#dispatch(weighed, outcome, 0, matchMs);
      return this.#looks.isHeld(outcome) ? this.#heldTicketOf(outcome) : DONE;
    }
    const waiting = this.#queue.enter(weighed, outcome, startMs);
    if ('kind' in waiting) return this.#reject(outcome, waiting);
    this.#drain(); // it may be more urgent than the first that waits
    if (waiting.heapAt !== -1) this.#queue.tellPeers(waiting);
    return new QueueTicket(this.#queue, waiting, this.#heldTicketOf(outcome), () => this.#drain());
  }

  #heldTicketOf(outcome: SchedulingOutcome): HeldTicket {
    return new HeldTicket(this.#looks, outcome, (held) => this.#withdraw(held));
  }

  /** Records the first token of a request. Idempotent; ignores unknown ids. */
  prefillDone(requestId: string): void {
    const end = this.#load.prefillDone(requestId, this.#options.clock.nowMs());
    if (end === undefined) return;
    if (end.elapsedMs !== undefined) this.#pace.learnPrefill(end.rank, end.tokens, end.elapsedMs);
    this.#pace.learnFirstToken(end.sinceStartMs);
    this.#drain();
  }

  /** Records the output tokens so far. Needed only if output blocks are tracked. */
  produced(requestId: string, outputTokens: number): void {
    if (this.#options.config.trackOutputBlocks) this.#load.produced(requestId, outputTokens);
  }

  /**
   * Adds one block of output for a caller that counts blocks itself, even if output blocks are not tracked. `fraction`
   * is from now on the weight of the blocks that only this request uses. Returns false for unknown ids.
   */
  addOutputBlock(requestId: string, fraction?: number): boolean {
    return this.#load.addOutputBlock(requestId, fraction);
  }

  /** Whether the request is booked at a worker: it was not freed and did not expire. */
  isActive(requestId: string): boolean {
    return this.#load.has(requestId);
  }

  /**
   * Frees a request that left its worker for whatever reason. Idempotent.
   * @param outputTokens from which the router learns how fast the rank is; 0 = unknown
   */
  free(requestId: string, outputTokens = 0): void {
    const nowMs = this.#options.clock.nowMs();
    const span = outputTokens > 0 ? this.#load.decodeSpanOf(requestId, nowMs) : undefined;
    if (span !== undefined) this.#pace.learnEnd(span, outputTokens);
    const wasExpected = this.#queue.peers.remove(requestId, nowMs);
    if (!this.#load.free(requestId, nowMs) && !wasExpected) return;
    this.#options.index?.freed?.(requestId);
    this.#drain();
  }

  /**
   * Books a request that this scheduler did not place: a peer's, or one with a worker chosen elsewhere. Returns false,
   * and changes nothing, if the worker is unknown or the id is already booked.
   */
  book(booking: Booking): boolean {
    const { config, ranks, clock } = this.#options;
    const nowMs = clock.nowMs();
    const rank = ranks.find(booking.workerId, booking.dpRank);
    this.#queue.peers.booked(booking.requestId, rank, nowMs);
    if (rank === undefined || this.#workers.ofRank(rank) === undefined) return false;
    const { requestId: id, promptTokens, uncachedTokens, prefillMs, expectedOutputTokens, hashes } = booking;
    const prefillTokens = config.trackPrefillTokens ? uncachedTokens : 0;
    const counted = config.trackActiveBlocks ? hashes?.sequence : undefined;
    const tokens = { promptTokens, prefillTokens, prefillMs, expectedOutputTokens };
    const entry = { id, rank, ...tokens, hashes: counted, isReusing: config.assumeKvReuse };
    if (!this.#load.add(entry, nowMs)) return false;
    const { provisionalId } = booking;
    if (provisionalId !== undefined && hashes !== undefined) {
      this.#looks.heard(provisionalId, entry, hashes.sequence, nowMs);
    }
    this.#unseen.booked(uncachedTokens, nowMs, rank);
    return true;
  }

  /** Records that a request waits at another router, until `book` or `free`. */
  heardWaiting(place: PeerPlace): void {
    this.#queue.peers.add(place, this.#options.clock.nowMs());
  }

  /** Returns the load of the booked requests on a rank; undefined if the rank is unknown. */
  bookedLoad(workerId: string, dpRank: number): RankWeight | undefined {
    const rank = this.#options.ranks.find(workerId, dpRank);
    return rank === undefined ? undefined : this.#load.booked(rank);
  }

  /** Sets the load on a rank that others caused without a booking. It counts until the next call. */
  setUnattributedLoad(workerId: string, dpRank: number, load: RankWeight): void {
    const { ranks } = this.#options;
    const rank = ranks.find(workerId, dpRank);
    if (rank === undefined || this.#workers.ofRank(rank) === undefined) return;
    this.#load.setUnattributed(rank, load);
    this.#drain(); // requests of others that the queue waits for may be over
  }

  /**
   * Checks the queue and searches for requests that were never freed. Call it every `recheckMs`, and at `nextTickMs`.
   */
  tick(): void {
    const nowMs = this.#options.clock.nowMs();
    this.#expire(nowMs);
    this.#queue.peers.expire(nowMs);
    for (const { outcome } of this.#queue.leaveOverdue(nowMs)) this.#reject(outcome, { kind: 'DeadlineExceeded' });
    this.#lookAgain(nowMs);
    this.#drain();
  }

  /**
   * Instant at which a request may leave by the passing of time: one that waits, or one that is held for a second look.
   * Undefined if only an event can let one leave.
   */
  get nextTickMs(): number | undefined {
    const [openingMs, lookMs] = [this.#queue.nextOpeningMs(), this.#looks.nextMs];
    return openingMs === undefined || lookMs === undefined ? (openingMs ?? lookMs) : Math.min(openingMs, lookMs);
  }

  get pendingRequests(): number {
    return this.#queue.requests;
  }

  get pendingPromptTokens(): number {
    return this.#queue.promptTokens;
  }

  get activeRequests(): number {
    return this.#load.size;
  }

  /** Returns the load of every rank of the pool, in the order of worker id and rank. */
  loads(): readonly RankLoad[] {
    const { ranks, clock } = this.#options;
    const nowMs = clock.nowMs();
    return Array.from(this.#workers.allRanks, (rank) => ({
      workerId: ranks.workerIdOf(rank) ?? '',
      dpRank: ranks.dpRankOf(rank),
      activePrefillTokens: this.#load.prefillTokensAt(rank, nowMs),
      activeDecodeBlocks: this.#load.activeBlocks[rank] as number,
      activeRequests: this.#load.requests[rank] as number,
    }));
  }

  /** Returns the load that each rank would have with the request. */
  potentialLoads(hashes: SchedulingRequest['hashes'], promptTokens: number): readonly PotentialLoad[] {
    const { config, ranks, index } = this.#options;
    const overlaps = new Overlaps(ranks.capacity);
    index?.match(hashes, overlaps);
    this.#load.uses.matchDepths(hashes.sequence);
    const depths = this.#load.uses.depths;
    return this.loads().map((load, at) => {
      const rank = this.#workers.allRanks[at] as number;
      const cached = {
        deviceBlocks: overlaps.device[rank] ?? 0,
        hostBlocks: overlaps.host[rank] ?? 0,
        diskBlocks: overlaps.disk[rank] ?? 0,
      };
      const cachedTokens = cachedTokensOf(cached, this.#options, config);
      const addedBlocks = config.trackActiveBlocks ? (hashes.sequence.length >> 1) - (depths[rank] as number) : 0;
      return {
        workerId: load.workerId,
        dpRank: load.dpRank,
        potentialPrefillTokens: load.activePrefillTokens + Math.max(promptTokens - cachedTokens, 0),
        potentialDecodeBlocks: load.activeDecodeBlocks + addedBlocks,
        activeRequests: load.activeRequests,
      };
    });
  }

  /** Explains the decision that would be made now, without booking. */
  explain(request: SchedulingRequest): ExplanationRecord {
    const weighed = this.#chooser.weigh(request);
    this.#chooser.look(request);
    const failure = this.#chooser.narrow(request);
    return failure === undefined ? this.#decider.explain(weighed) : this.#decider.explainFailure(weighed, failure);
  }

  /** Returns the explanation of the decision for one of the last requests. */
  explained(requestId: string): ExplanationRecord | undefined {
    return this.#decider.explained(requestId);
  }

  /** Rejects every waiting and every later request with `SubscriberShutdown`. Idempotent. */
  close(): void {
    this.#isClosed = true;
    for (const waiting of this.#queue.leaveAll()) this.#reject(waiting.outcome, { kind: 'SubscriberShutdown' });
    for (const held of this.#looks.leaveAll()) this.#giveUp(held, { kind: 'SubscriberShutdown' });
  }

  #dispatch(weighed: WeighedRequest, outcome: SchedulingOutcome, waitedMs: number, matchMs: number): void {
    const isHeld = outcome.booked !== undefined && this.#looks.wants(weighed);
    const decision = isHeld
      ? this.#decider.decideForNow(weighed, waitedMs)
      : this.#decider.decide(weighed, waitedMs, matchMs);
    if (decision === undefined) {
      this.#reject(outcome, { kind: 'BookingFailed', requestId: weighed.request.id });
      return;
    }
    const nowMs = this.#options.clock.nowMs();
    if (this.#options.share !== undefined) this.#unseen.decided(nowMs, decision.rank);
    if (isHeld) {
      this.#looks.hold({ weighed, outcome, decision, waitedMs, matchMs }, nowMs);
      outcome.booked?.(decision);
    } else outcome.decided(decision);
  }

  /** Decides held requests with the knowledge of what other routers decided in the same instant, and sends them. */
  #lookAgain(nowMs: number): void {
    const due: HeldRequest[] = [];
    for (const held of this.#looks.leaveDue(nowMs)) {
      const { deadlineMs } = held.weighed.request;
      if (deadlineMs === undefined || deadlineMs > nowMs) due.push(held);
      else this.#giveUp(held, { kind: 'DeadlineExceeded' });
    }
    if (due.length === 0) return;
    const tellings: (() => void)[] = []; // outcomes may call back in, which must find the load complete
    this.#looks.lookAgain(due, (held, before) => {
      const decision = this.#decideAgain(held, before, nowMs);
      tellings.push(() => this.#tellDecidedAgain(held, decision));
    });
    for (const tell of tellings) tell();
  }

  #decideAgain(held: HeldRequest, before: number, nowMs: number): Decision | RoutingFailure {
    const { weighed, decision: first, waitedMs, matchMs, sinceMs } = held;
    const failure = this.#chooser.narrow(weighed.request);
    if (failure !== undefined) return failure;
    const look = { held_ms: nowMs - sinceMs, before, first: { worker_id: first.workerId, dp_rank: first.dpRank } };
    const requestId = weighed.request.id;
    return this.#decider.decide(weighed, waitedMs, matchMs, look) ?? { kind: 'BookingFailed', requestId };
  }

  #tellDecidedAgain({ outcome, decision: first }: HeldRequest, decided: Decision | RoutingFailure): void {
    if ('kind' in decided || !isAt(decided, first)) outcome.withdrawn?.(first);
    if ('kind' in decided) this.#reject(outcome, decided);
    else outcome.decided(decided);
  }

  /** Ends a held request that leaves without a worker, with its booking. */
  #giveUp(held: HeldRequest, failure: RoutingFailure): void {
    this.#withdraw(held);
    this.#reject(held.outcome, failure);
  }

  /** Ends the booking of a held request that leaves without a worker. */
  #withdraw({ weighed, outcome, decision }: HeldRequest): void {
    this.#load.takeBack(weighed.request.id, this.#options.clock.nowMs());
    outcome.withdrawn?.(decision);
    this.#drain();
  }

  #reject(outcome: SchedulingOutcome, failure: RoutingFailure): SchedulingTicket {
    const { observer } = this.#options;
    if (failure.kind === 'QueueRejected') observer?.backpressure(failure.policyClass, failure.limit);
    if (failure.kind === 'DoNotQueue') observer?.backpressure(failure.policyClass, 'do_not_queue');
    outcome.rejected(new RoutingError(failure));
    return DONE;
  }

  /** Sends the requests that can leave. Outcomes may call back in; that only asks for one more round. */
  #drain(): void {
    if (this.#queue.requests === 0) return;
    this.#drainsAgain = true;
    if (this.#isDraining) return;
    this.#isDraining = true;
    try {
      while (this.#drainsAgain) {
        this.#drainsAgain = false;
        for (let next = this.#queue.next(); next !== undefined; next = this.#queue.next()) this.#serve(next);
      }
    } finally {
      this.#isDraining = false;
    }
  }

  #serve(waiting: Waiting): void {
    const { weighed, outcome, arrivedMs } = waiting;
    const nowMs = this.#options.clock.nowMs();
    const { deadlineMs } = weighed.request;
    if (deadlineMs !== undefined && deadlineMs <= nowMs) {
      this.#reject(outcome, { kind: 'DeadlineExceeded' });
      return;
    }
    this.#queue.recall(waiting, nowMs);
    const failure = this.#chooser.narrow(weighed.request);
    if (failure !== undefined) this.#reject(outcome, failure);
    else this.#dispatch(weighed, outcome, nowMs - arrivedMs, 0);
  }

  #expireSometimes(nowMs: number): void {
    if (nowMs - this.#checkedExpiryMs >= EXPIRY_CHECK_MS) this.#expire(nowMs);
  }

  #expire(nowMs: number): void {
    this.#checkedExpiryMs = nowMs;
    for (const id of this.#load.expire(nowMs)) this.#options.index?.freed?.(id);
  }
}

function isAt(a: RankId, b: RankId): boolean {
  return a.workerId === b.workerId && a.dpRank === b.dpRank;
}

class QueueTicket implements SchedulingTicket {
  readonly #queue: RequestQueue;
  readonly #waiting: Waiting;
  readonly #ofLook: HeldTicket;
  readonly #onLeft: () => void;

  /** @param onLeft called when it leaves, because requests behind it may then be able to go */
  constructor(queue: RequestQueue, waiting: Waiting, ofLook: HeldTicket, onLeft: () => void) {
    this.#queue = queue;
    this.#waiting = waiting;
    this.#ofLook = ofLook;
    this.#onLeft = onLeft;
  }

  get isWaiting(): boolean {
    return this.#waiting.heapAt !== -1 || this.#ofLook.isWaiting;
  }

  get position(): number | undefined {
    return this.#queue.positionOf(this.#waiting);
  }

  cancel(): void {
    if (this.#queue.leave(this.#waiting)) this.#onLeft();
    else this.#ofLook.cancel();
  }
}

/** Ticket of a request that is held for a second look, now or once it left the queue. */
class HeldTicket implements SchedulingTicket {
  readonly position = undefined;
  readonly #looks: SecondLooks;
  readonly #outcome: SchedulingOutcome;
  readonly #onLeft: (held: HeldRequest) => void;

  constructor(looks: SecondLooks, outcome: SchedulingOutcome, onLeft: (held: HeldRequest) => void) {
    this.#looks = looks;
    this.#outcome = outcome;
    this.#onLeft = onLeft;
  }

  get isWaiting(): boolean {
    return this.#looks.isHeld(this.#outcome);
  }

  cancel(): void {
    const held = this.#looks.leave(this.#outcome);
    if (held !== undefined) this.#onLeft(held);
  }
}
