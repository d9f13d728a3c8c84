import type { ServeError } from '../errors/index.ts';
import type { RouterConfigOverride, RoutingConstraints } from '../protocol/index.ts';
import type { PromptHome, RankId, RoutableWorker, WorkerPool } from '../router/index.ts';
import type { RouterMetrics, RouterPoolMetrics } from '../telemetry/index.ts';
import type { BlockHashes } from '../tokens/index.ts';

/**
 * Facts about a worker that the scheduler uses. A worker that does not state how many tokens its engine takes in one
 * pass counts as 10,000,000 tokens.
 */
export type SchedulableWorker = Pick<
  RoutableWorker,
  | 'id'
  | 'dataParallelStartRank'
  | 'dataParallelSize'
  | 'taints'
  | 'totalKvBlocks'
  | 'maxNumBatchedTokens'
  | 'maxNumSeqs'
>;

/** Predicts how long a worker will prefill. */
export interface PrefillDurationModel {
  /**
   * Returns the milliseconds, 0 or more, for one prompt of `uncachedTokens` after `cachedTokens` that are already
   * there. Returns undefined if the model cannot say; then the prefill counts in full until its first token. The
   * scheduler calls it once for each request, at its decision. Never throws.
   */
  durationMs(uncachedTokens: number, cachedTokens: number): number | undefined;
}

/** The hard filters of a request, which apply before load and overlap. An absent filter does not narrow. */
export interface WorkerFilter {
  /** Ids of the only workers that may take it; undefined = every worker. */
  readonly allowedWorkers?: ReadonlySet<string> | undefined;
  /** Workers that this request must not go to: they failed it, or are stalled. */
  readonly excludedWorkers?: ReadonlySet<string> | undefined;
  /** Workers above their busy thresholds. If only such workers are left, the request fails as overload. */
  readonly busyWorkers?: ReadonlySet<string> | undefined;
  /** Workers to skip while another is left. */
  readonly avoidedWorkers?: ReadonlySet<string> | undefined;
  readonly constraints?: RoutingConstraints | undefined;
}

/** The only worker and rank that may take a request. */
export interface WorkerPin {
  readonly workerId: string;
  readonly dpRank?: number | undefined;
  /** Fields in which the client named it. @default the client did not name it */
  readonly named?: { readonly worker: string; readonly rank: string } | undefined;
}

/** The parts of a request that the choice of its worker needs. */
export interface SchedulingRequest extends WorkerFilter {
  readonly id: string;
  /** Prompt length in tokens. */
  readonly promptTokens: number;
  readonly hashes: BlockHashes;
  /** Names of its blocks among those of running requests (`TrackingHash`). @default the sequence hashes */
  readonly activeHashes?: Uint32Array | undefined;
  readonly override?: RouterConfigOverride | undefined;
  /** Seconds ahead of its arrival in the queue. @default 0 */
  readonly priorityJump?: number | undefined;
  /** Queue tier; higher tiers always leave first. @default 0 */
  readonly strictPriority?: number | undefined;
  readonly expectedOutputTokens?: number | undefined;
  readonly policyClass?: string | undefined;
  /** Whether it may wait; if false, it fails with `DoNotQueue` instead. @default true */
  readonly mayWait?: boolean | undefined;
  /** Instant of the scheduler's clock after which waiting is useless. @default none */
  readonly deadlineMs?: number | undefined;
  /** Time for which its client expects to reuse the prompt. For indexes that predict. */
  readonly cacheTtlMs?: number | undefined;
  /** The only worker that may take it. */
  readonly pinned?: WorkerPin | undefined;
  /** Blocks that an outside pool holds: sorted, disjoint, `[start, end)`. @default none */
  readonly sharedRanges?: readonly (readonly [start: number, end: number])[] | undefined;
  /** Worker that its session used before; kept while it may take the request. */
  readonly preferredWorker?: RankId | undefined;
  /** Rank that wins over others of nearly the same cost. */
  readonly home?: PromptHome | undefined;
}

/** The worker and rank that took a request, and the facts behind the choice. */
export interface Decision extends RankId {
  readonly requestId: string;
  /** Number of the pair in the router's `RankTable`. */
  readonly rank: number;
  readonly cost: number;
  /** Blocks found on the device. The other tiers continue from there. */
  readonly deviceBlocks: number;
  readonly hostBlocks: number;
  readonly diskBlocks: number;
  readonly effectiveOverlapBlocks: number;
  readonly cachedTokens: number;
  /** Prompt tokens that the worker still has to compute, as far as the router knows. */
  readonly uncachedTokens: number;
  /** Part of those that was booked as load: 0 if prompts are not tracked. */
  readonly prefillTokens: number;
  /** Predicted length of that prefill; undefined = not predicted. */
  readonly prefillMs: number | undefined;
  /** The worker's active blocks with the request's own, and one for each block of its prompt (release 1.6.1). */
  readonly potentialDecodeBlocks: number;
  /** Reason of the choice: the only candidate, the cheapest, one of several as cheap, drawn by weight, or requested. */
  readonly reason: DecisionReason;
  /** Time in the queue. */
  readonly waitedMs: number;
}

export type DecisionReason = 'only' | 'lowest-cost' | 'tie' | 'drawn' | 'pinned' | 'session';

/** Receives the outcome once, synchronously from `submit` or later from the queue. */
export interface SchedulingOutcome {
  /**
   * Takes a decision that the scheduler will make again shortly, when it knows what other routers decided in the same
   * instant. The request is booked, but must not be sent yet. @default the scheduler decides only once
   */
  booked?(decision: Decision): void;
  /**
   * Takes the place of a request that waits, so that other routers can take their turns. It waits until the next call,
   * or until the caller cancels. @default with as many routers as ranks, no request waits
   */
  waits?(place: QueuePlace): void;
  /** Takes the end of such a booking: the request goes elsewhere, or leaves. */
  withdrawn?(decision: Decision): void;
  /** Takes the decision. The request is booked at the worker: call `free` when it ends. */
  decided(decision: Decision): void;
  /** Takes the rejection. Nothing is booked. The error is a `RoutingError` unless the request itself is invalid. */
  rejected(error: ServeError): void;
}

/** A request that was submitted. */
export interface SchedulingTicket {
  /** Whether it waits; false once it was decided, rejected or cancelled. */
  readonly isWaiting: boolean;
  /** Number of requests ahead of it, counted at each read; undefined once it no longer waits. */
  readonly position: number | undefined;
  /** Leaves the queue without an outcome. Has no effect on a decided request. Idempotent. */
  cancel(): void;
}

/** Load that a rank would have with a request. */
export interface PotentialLoad extends RankId {
  readonly potentialPrefillTokens: number;
  readonly potentialDecodeBlocks: number;
  readonly activeRequests: number;
}

/** Load of requests on a rank. In a change, amounts may be negative. */
export interface RankWeight {
  readonly requests: number;
  /** Blocks of KV cache that they hold. */
  readonly decodeBlocks: number;
  /** Prompt tokens that still have to be computed. */
  readonly prefillTokens: number;
}

/** A request at a worker that this scheduler did not choose. */
export interface Booking extends RankId {
  readonly requestId: string;
  /** Id of the request at its own router, if that router will decide it again (`SecondLooks`). @default it is final */
  readonly provisionalId?: string | undefined;
  readonly promptTokens: number;
  /** Hashes of its blocks; undefined = unknown. */
  readonly hashes: BlockHashes | undefined;
  /** Prompt tokens still to compute there. */
  readonly uncachedTokens: number;
  readonly expectedOutputTokens?: number | undefined;
  /** Predicted length of its prefill. */
  readonly prefillMs?: number | undefined;
}

/** Place of a request in the queue of a router. Its rank is any of its pool, and only names the pool. */
export interface QueuePlace extends RankId {
  readonly requestId: string;
  /** Prompt tokens left to compute at the best rank. */
  readonly uncachedTokens: number;
  /** Milliseconds since its arrival. */
  readonly waitedMs: number;
}

/** Place of a request in the queue of another router. */
export interface PeerPlace extends Omit<QueuePlace, keyof RankId> {
  /** Id of the booking that its router will make. */
  readonly id: string;
  readonly promptTokens: number;
  /** Pairs of sequence hashes of the prompt's complete blocks. */
  readonly sequenceHashes: Uint32Array;
  readonly expectedOutputTokens?: number | undefined;
  /** As in `SchedulingRequest`. */
  readonly priorityJump?: number | undefined;
  readonly strictPriority?: number | undefined;
}

/** Present load of a rank. */
export interface RankLoad extends RankId {
  readonly activePrefillTokens: number;
  readonly activeDecodeBlocks: number;
  readonly activeRequests: number;
}

/** Metrics of the decisions for one pool. Every call is in the request's path and must be fast. */
export type SchedulerObserver = Pick<RouterPoolMetrics, 'received' | 'decided' | 'pending' | 'backpressure'>;

export interface PendingTotals {
  readonly requests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** Observer of the router around the scheduler. */
export interface KvRouterObserver {
  /** Returns the observer of one pool's scheduler. The router calls it when it makes the pool. */
  pool(pool: WorkerPool): SchedulerObserver;
  readonly requests: Pick<RouterMetrics, 'hashed' | 'firstToken' | 'tokens' | 'ended'>;
}
