import type { QueueLimit } from '../routing-error.ts';
import type { WorkerPool } from '../types.ts';
import type { Decision, SchedulingRequest } from './scheduler-types.ts';

/** What operators are told of routing decisions. Every call is in the request's path: be quick. */
export interface SchedulerObserver {
  /** A worker was chosen. Times in milliseconds; `bestCachedTokens` is the most that any eligible worker has cached. */
  decided(decision: Decision, request: SchedulingRequest, facts: DecisionFacts): void;
  /** A request began to wait, or a waiting one left. Numbers of its class after that. */
  queued(policyClass: string, pending: PendingTotals): void;
  /** A request was turned away because of the queue. */
  backpressure(policyClass: string, reason: QueueLimit | 'do_not_queue'): void;
}

export interface DecisionFacts {
  readonly matchMs: number;
  /** Eligibility, load, cost and choice. */
  readonly schedulingMs: number;
  readonly bestDeviceBlocks: number;
  readonly bestCachedTokens: number;
  /** Hits of the shared pool beyond the chosen worker's own. */
  readonly sharedBeyondBlocks: number;
}

export interface PendingTotals {
  readonly requests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** What the router around the scheduler adds. */
export interface KvRouterObserver {
  /** Observer of one pool's scheduler, made with the pool. */
  pool?(pool: WorkerPool): SchedulerObserver | undefined;
  /** Hashing the prompt took so long. */
  hashed?(ms: number): void;
}
