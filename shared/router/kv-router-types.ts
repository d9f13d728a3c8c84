import type { Clock, Random } from '../clock/index.ts';
import type { KvRouterConfig } from './config/kv-config.ts';
import type { ReplicaShare } from './cost/stator-cost.ts';
import type { PrefillDurationModel } from './load/prefill-duration.ts';
import type { PolicyConfig } from './queue/policy-config.ts';
import type { RankTable } from './rank-table.ts';
import type { KvRouterObserver } from './scheduler/router-observer.ts';
import type { Decision, Explanation, PrefixIndex, Scheduler, SchedulingRequest } from './scheduler/scheduler-types.ts';
import type { SessionAffinityOptions } from './session-affinity.ts';
import type { TrackingHash } from './tracking/index.ts';
import type { RoutableWorker, RouteRequest, Router, WorkerPool } from './types.ts';

export interface KvRouterOptions {
  readonly config: KvRouterConfig;
  readonly clock: Clock;
  readonly random: Random;
  /** How long a worker that failed is passed over, 0 = never. @default 5000 */
  readonly inhibitedMs?: number;
  /**
   * The block index of a worker set, asked for once when the set appears. What feeds it numbers workers with `ranks`
   * (`intern`, `find`) and stops for a rank after `removeRank`. Not called when the overlap credit is 0.
   * @default no index: load alone decides
   */
  readonly indexFor?: (pool: WorkerPool, ranks: RankTable) => PrefixIndex | undefined;
  /** Queue classes of a model (`readPolicyConfig`). @default one class as the configuration says */
  readonly policies?: PolicyConfig | undefined;
  /** @default off */
  readonly sessionAffinity?: SessionAffinityOptions | undefined;
  /** Predicts prefills, so that the load of the oldest one shrinks while it runs. @default none */
  readonly prefillDuration?: PrefillDurationModel | undefined;
  /** Names the blocks of running requests. @default their public sequence hashes */
  readonly tracking?: TrackingHash | undefined;
  /** Decisions kept for `explained`, 0 = none. @default 1000 */
  readonly explainedMax?: number;
  readonly observer?: KvRouterObserver | undefined;
  /** The ranks of a worker set that this router prefers among equals. @default it places requests alone */
  readonly shareFor?: (pool: WorkerPool, ranks: RankTable) => ReplicaShare;
  /** Tells other routers of what this one books. @default nobody is told */
  readonly peers?: PeerTeller | undefined;
}

/** Hears of every request that the router books. Called in the request's path. */
export interface PeerTeller {
  /** Returns what the worker is to be told of it, beside the request; undefined = nothing. */
  booked(
    pool: WorkerPool,
    decision: Decision,
    request: SchedulingRequest,
  ): Readonly<Record<string, string>> | undefined;
  /** Its first token came. At most once, before `ended`. */
  prefillDone(pool: WorkerPool, decision: Decision): void;
  /** It left its worker. Once. */
  ended(pool: WorkerPool, decision: Decision): void;
}

/** One worker set of a KV router and what decides for it. */
export interface KvPool {
  readonly pool: WorkerPool;
  readonly ranks: RankTable;
  readonly index: PrefixIndex | undefined;
  readonly scheduler: Scheduler;
}

/** The router of mode `kv`: one scheduler for each worker set. */
export interface KvRouter extends Router {
  readonly mode: 'kv';
  /**
   * The workers of a pool as they are now; makes the pool when it is new. What is known of workers that are not among them
   * any more is forgotten: their blocks, their bookings. Nothing else changes who is in a pool: the list that comes with a
   * request may have been read a while ago, and counts only when the pool is not known yet. Cheap for a list seen before.
   */
  setWorkers(pool: WorkerPool, workers: readonly RoutableWorker[]): KvPool;
  /** Worker sets in the order they appeared. */
  readonly pools: readonly KvPool[];
  /** What would be decided now and why, without booking. @throws ServeError for an override out of range */
  explain(request: RouteRequest, workers: readonly RoutableWorker[]): Explanation;
  /** What was decided for one of the last requests and why. */
  explained(requestId: string): Explanation | undefined;
  /** The pool is gone: waiting requests are told, its index is left to its owner. Idempotent. */
  removePool(key: string): void;
  /** Waiting requests fail; timers end. Idempotent. */
  close(): void;
}
