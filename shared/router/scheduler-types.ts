import type { ServeError } from '../errors/index.ts';
import type { RouterConfigOverride, RoutingConstraints } from '../protocol/generation/index.ts';
import type { BlockHashes } from '../tokens/index.ts';

/** What the scheduler knows of a worker. */
export interface SchedulableWorker {
  /** Instance id, lower-case hex. */
  readonly id: string;
  readonly dataParallelStartRank: number;
  readonly dataParallelSize: number;
  readonly taints: readonly string[];
  /** Of one rank; undefined = unknown. */
  readonly totalKvBlocks: number | undefined;
  /** Tokens the engine takes in one pass; undefined = unknown, counts as 10,000,000 (router.md, section 6.1). */
  readonly maxNumBatchedTokens: number | undefined;
}

/** One request, as far as choosing its worker goes. */
export interface SchedulingRequest {
  readonly id: string;
  /** Prompt length in tokens. */
  readonly promptTokens: number;
  readonly hashes: BlockHashes;
  readonly override?: RouterConfigOverride | undefined;
  /** Seconds ahead of its arrival in the queue. @default 0 */
  readonly priorityJump?: number | undefined;
  /** Queue tier; higher tiers always run first. @default 0 */
  readonly strictPriority?: number | undefined;
  readonly expectedOutputTokens?: number | undefined;
  readonly policyClass?: string | undefined;
  readonly sessionId?: string | undefined;
  /** Undefined = every worker. */
  readonly allowedWorkers?: ReadonlySet<string> | undefined;
  /** Workers this request must not go to: they failed it, are stalled, or are busy. */
  readonly excludedWorkers?: ReadonlySet<string> | undefined;
  /** No other worker will do. */
  readonly pinned?: { readonly workerId: string; readonly dpRank?: number | undefined } | undefined;
  readonly constraints?: RoutingConstraints | undefined;
}

/** The worker and rank that took a request, and what the choice was made on (router.md, section 2.8). */
export interface Decision {
  readonly requestId: string;
  readonly workerId: string;
  readonly dpRank: number;
  /** Number of the pair in the router's `RankTable`. */
  readonly rank: number;
  readonly cost: number;
  /** Blocks found on the device; the others go on from there. */
  readonly deviceBlocks: number;
  readonly hostBlocks: number;
  readonly diskBlocks: number;
  readonly effectiveOverlapBlocks: number;
  readonly cachedTokens: number;
  readonly potentialDecodeBlocks: number;
  /** Time in the queue. */
  readonly waitedMs: number;
}

/** Told once, synchronously from `submit` or later from the queue. */
export interface SchedulingOutcome {
  /** The request is booked at the worker: `free` it when it ends. */
  decided(decision: Decision): void;
  /** Nothing is booked. */
  rejected(error: ServeError): void;
}

/** A request that was submitted. */
export interface SchedulingTicket {
  /** Requests ahead of it; undefined once it was decided, rejected or cancelled. */
  readonly position: number | undefined;
  /** Leaves the queue without an outcome. A decided request is left alone. Idempotent. */
  cancel(): void;
}

/** Load of a rank if a request went there (router.md, section 5.4). */
export interface PotentialLoad {
  readonly workerId: string;
  readonly dpRank: number;
  readonly potentialPrefillTokens: number;
  readonly potentialDecodeBlocks: number;
  readonly activeRequests: number;
}

/**
 * The router's core without sockets and timers: index, load, cost and queue of one pool of workers. Everything happens in
 * the caller's turn; time comes from the clock it was made with.
 */
export interface Scheduler {
  /** The pool as it is now. Workers that are gone lose their bookings and their blocks. */
  setWorkers(workers: readonly SchedulableWorker[]): void;
  submit(request: SchedulingRequest, outcome: SchedulingOutcome): SchedulingTicket;
  /** The first token came. Idempotent; unknown ids are ignored. */
  prefillDone(requestId: string): void;
  /** `outputTokens` so far. Needed only where output blocks are tracked. */
  produced(requestId: string, outputTokens: number): void;
  /** The request left its worker, however it ended. Idempotent. */
  free(requestId: string): void;
  /** Looks at the queue and at requests that were never freed; call it about every `recheckMs`. */
  tick(): void;
  readonly recheckMs: number;
  readonly pendingRequests: number;
  readonly pendingPromptTokens: number;
  potentialLoads(hashes: BlockHashes, promptTokens: number): readonly PotentialLoad[];
}
