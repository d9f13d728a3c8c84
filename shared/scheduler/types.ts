import type { ServeError } from '../errors/index.ts';
import type { RouterConfigOverride, RoutingConstraints } from '../protocol/index.ts';
import type { PromptHome, RankId, RoutableWorker, WorkerPool } from '../router/index.ts';
import type { RouterMetrics, RouterPoolMetrics } from '../telemetry/index.ts';
import type { BlockHashes } from '../tokens/index.ts';

/**
 * What the scheduler knows of a worker; one that does not say what its engine takes in one pass counts as 10,000,000
 * tokens.
 */
export type SchedulableWorker = Pick<
  RoutableWorker,
  'id' | 'dataParallelStartRank' | 'dataParallelSize' | 'taints' | 'totalKvBlocks' | 'maxNumBatchedTokens'
>;

/** Predicts how long a worker will prefill. */
export interface PrefillDurationModel {
  /**
   * Milliseconds, 0 or more, for one prompt of `uncachedTokens` after `cachedTokens` that are there already; undefined
   * when the model cannot say, and then the prefill counts in full until its first token. Asked once for each request,
   * at its decision. Never throws.
   */
  durationMs(uncachedTokens: number, cachedTokens: number): number | undefined;
}

/** The hard filters of a request, before load or overlap are looked at. Absent = it does not narrow. */
export interface WorkerFilter {
  /** Undefined = every worker. */
  readonly allowedWorkers?: ReadonlySet<string> | undefined;
  /** Workers this request must not go to: they failed it, or are stalled. */
  readonly excludedWorkers?: ReadonlySet<string> | undefined;
  /** Workers above their busy thresholds; when only such are left, the request fails as overload. */
  readonly busyWorkers?: ReadonlySet<string> | undefined;
  /** Workers to pass over while another is left. */
  readonly avoidedWorkers?: ReadonlySet<string> | undefined;
  readonly constraints?: RoutingConstraints | undefined;
}

/** The one place that will do. */
export interface WorkerPin {
  readonly workerId: string;
  readonly dpRank?: number | undefined;
  /** Fields by which the client named it. @default somebody else did */
  readonly named?: { readonly worker: string; readonly rank: string } | undefined;
}

/** One request, as far as choosing its worker goes. */
export interface SchedulingRequest extends WorkerFilter {
  readonly id: string;
  /** Prompt length in tokens. */
  readonly promptTokens: number;
  readonly hashes: BlockHashes;
  /** Names of the same blocks among those of running requests (`TrackingHash`). @default the sequence hashes */
  readonly activeHashes?: Uint32Array | undefined;
  readonly override?: RouterConfigOverride | undefined;
  /** Seconds ahead of its arrival in the queue. @default 0 */
  readonly priorityJump?: number | undefined;
  /** Queue tier; higher tiers always run first. @default 0 */
  readonly strictPriority?: number | undefined;
  readonly expectedOutputTokens?: number | undefined;
  readonly policyClass?: string | undefined;
  /** False: fail with `DoNotQueue` rather than wait. @default true */
  readonly mayWait?: boolean | undefined;
  /** Instant of the scheduler's clock after which waiting is in vain. @default none */
  readonly deadlineMs?: number | undefined;
  /** How long its client expects the prompt to be of use. For indexes that predict. */
  readonly cacheTtlMs?: number | undefined;
  /** No other worker will do. */
  readonly pinned?: WorkerPin | undefined;
  /** Blocks that an outside pool holds: sorted, disjoint, `[start, end)`. @default none */
  readonly sharedRanges?: readonly (readonly [start: number, end: number])[] | undefined;
  /** Worker that its session went to before; kept while it may take the request. */
  readonly preferredWorker?: RankId | undefined;
  /** Breaks near ties. */
  readonly home?: PromptHome | undefined;
}

/** The worker and rank that took a request, and what the choice was made on. */
export interface Decision extends RankId {
  readonly requestId: string;
  /** Number of the pair in the router's `RankTable`. */
  readonly rank: number;
  readonly cost: number;
  /** Blocks found on the device; the others go on from there. */
  readonly deviceBlocks: number;
  readonly hostBlocks: number;
  readonly diskBlocks: number;
  readonly effectiveOverlapBlocks: number;
  readonly cachedTokens: number;
  /** Prompt tokens that the worker still has to compute, as far as the router knows. */
  readonly uncachedTokens: number;
  /** Of those, what was booked as load: none where prompts are not tracked. */
  readonly prefillTokens: number;
  /** Predicted length of that prefill; undefined = not predicted. */
  readonly prefillMs: number | undefined;
  /** The worker's active blocks with the request's own, and one for each block of its prompt (release 1.6.1). */
  readonly potentialDecodeBlocks: number;
  /** Why this one: it was the only candidate, the cheapest, one of several as cheap, drawn by weight, or asked for. */
  readonly reason: DecisionReason;
  /** Time in the queue. */
  readonly waitedMs: number;
}

export type DecisionReason = 'only' | 'lowest-cost' | 'tie' | 'drawn' | 'pinned' | 'session';

/** Told once, synchronously from `submit` or later from the queue. */
export interface SchedulingOutcome {
  /** The request is booked at the worker: `free` it when it ends. */
  decided(decision: Decision): void;
  /** Nothing is booked. A `RoutingError` unless the request itself is at fault. */
  rejected(error: ServeError): void;
}

/** A request that was submitted. */
export interface SchedulingTicket {
  /** False once it was decided, rejected or cancelled. */
  readonly isWaiting: boolean;
  /** Requests ahead of it, counted when asked; undefined once it waits no more. */
  readonly position: number | undefined;
  /** Leaves the queue without an outcome. A decided request is left alone. Idempotent. */
  cancel(): void;
}

/** Load of a rank if a request went there. */
export interface PotentialLoad extends RankId {
  readonly potentialPrefillTokens: number;
  readonly potentialDecodeBlocks: number;
  readonly activeRequests: number;
}

/** What requests weigh on a rank. In a change, amounts may be negative. */
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
  readonly promptTokens: number;
  /** Undefined = its blocks are not known. */
  readonly hashes: BlockHashes | undefined;
  /** Prompt tokens still to compute there. */
  readonly uncachedTokens: number;
  readonly expectedOutputTokens?: number | undefined;
  /** Predicted length of its prefill. */
  readonly prefillMs?: number | undefined;
}

/** Present load of a rank. */
export interface RankLoad extends RankId {
  readonly activePrefillTokens: number;
  readonly activeDecodeBlocks: number;
  readonly activeRequests: number;
}

/** What is counted of the decisions for one pool. Every call is in the request's path: be quick. */
export type SchedulerObserver = Pick<RouterPoolMetrics, 'received' | 'decided' | 'pending' | 'backpressure'>;

export interface PendingTotals {
  readonly requests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** What the router around the scheduler adds. */
export interface KvRouterObserver {
  /** Observer of one pool's scheduler, made with the pool. */
  pool(pool: WorkerPool): SchedulerObserver;
  readonly requests: Pick<RouterMetrics, 'hashed' | 'firstToken' | 'tokens' | 'ended'>;
}
