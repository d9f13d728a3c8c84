import { type ErrorCode, ServeError } from '../errors/index.ts';
import type { ChatMessage, RouterConfigOverride, RoutingHints } from '../protocol/index.ts';
import type { BlockHashes } from '../tokens/index.ts';
import type { RendezvousKey } from './rendezvous.ts';

/** Facts that a router knows of a worker from its discovery records. */
export interface RoutableWorker {
  /** Instance id, lower-case hex. */
  readonly id: string;
  readonly dataParallelStartRank: number;
  readonly dataParallelSize: number;
  readonly deviceType: string | undefined;
  readonly taints: readonly string[];
  /** KV blocks of one rank. Absent = unknown. */
  readonly totalKvBlocks?: number | undefined;
  /** Tokens that the engine takes in one pass. Absent = unknown. */
  readonly maxNumBatchedTokens?: number | undefined;
  /** Requests that the engine runs at once on each rank. Absent = unknown. */
  readonly maxNumSeqs?: number | undefined;
  /** Adapters that the worker has loaded. Absent = unknown. */
  readonly loraNames?: readonly string[] | undefined;
  /** Name that outlives the process (`DYN_STABLE_ROUTING_ID`). Absent = only its id. */
  readonly stableId?: string | undefined;
}

/** Returns whether the worker has the data-parallel rank. @param rank undefined = any rank */
export function hasRank(
  {
    dataParallelStartRank: start,
    dataParallelSize: size,
  }: Pick<RoutableWorker, 'dataParallelStartRank' | 'dataParallelSize'>,
  rank: number | undefined,
): boolean {
  return rank === undefined || (rank >= start && rank < start + size);
}

/** One data-parallel rank of one worker. */
export interface RankId {
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly dpRank: number;
}

/** The worker set that a request is for; made once a model, not once a request. */
export interface WorkerPool {
  /** Names the worker set: the same key means the same prompt format and block size. */
  readonly key: string;
  /** Name of the model, for its queue classes and for metrics. @default the key */
  readonly model?: string | undefined;
  /** Work of its workers. One key can have a pool of prefill workers beside its pool of decode workers. */
  readonly role: PoolRole;
  /** Tokens in one block of the engines' KV cache; 0 = unknown, so their caches are unknown, too. */
  readonly blockSizeTokens: number;
  /** Whether the engines speculate: a block then also covers the first token after it. @default false */
  readonly isEagle?: boolean | undefined;
  /**
   * Pool of the base model, if this is the pool of an adapter. The adapter's workers are among those of the base, so
   * their caches and loads are the same. Blocks of adapters have names of their own, so one index holds them all.
   * @default its workers serve no other pool
   */
  readonly base?: WorkerPool | undefined;
}

export type PoolRole = 'aggregated' | 'prefill' | 'decode';

/** One request, with everything that routing needs. */
export interface RouteRequest {
  readonly id: string;
  /** Pool whose workers may take the request: those of the last `Router.setWorkers`. */
  readonly pool: WorkerPool;
  readonly routing: RoutingHints;
  readonly override: RouterConfigOverride | undefined;
  /** Prompt token ids, for prefix overlap; absent for models that take text or tensors. */
  readonly tokenIds: Uint32Array | undefined;
  /** Messages that the prompt was rendered from, if it was. They identify a conversation at all its turns. */
  readonly messages?: readonly ChatMessage[] | undefined;
  /** The prompt with the hashes of its blocks, if they are already known. The router then does not read `tokenIds`. */
  readonly prompt?: HashedPrompt | undefined;
  /** Rank that gets the request if it costs about the same there as elsewhere. @default none */
  readonly home?: PromptHome | undefined;
  /** Workers that this request must not go to again: they failed it. */
  readonly excluded: ReadonlySet<string>;
  /** Workers to skip while another is left, in addition to those that this router itself skips. @default none */
  readonly avoided?: ReadonlySet<string> | undefined;
  /** Workers above their busy thresholds. @default none */
  readonly busy?: ReadonlySet<string> | undefined;
  /** Header that names the span of the decision, for a router in another process. @default no span */
  readonly traceparent?: string | undefined;
  /** Family or name of the queue class (header `x-dynamo-meta-policy-class`). */
  readonly policyClass?: string | undefined;
  /**
   * Called once if the request has to wait, with the number of requests ahead of it. May return a signal by which the
   * request leaves the queue, in place of `choose`'s.
   */
  readonly onQueued?: ((position: number) => AbortSignal | undefined) | undefined;
  /**
   * Called once instead of `onQueued` if the router decides a second time in an instant, so that its answer takes
   * longer than a decision does. May return such a signal, too.
   */
  readonly onHeld?: (() => AbortSignal | undefined) | undefined;
}

/**
 * A part of a prompt that no worker is known to have cached. The worker of the last similar prompt may have it cached.
 */
export interface PromptHome {
  /** Key by which every router that knows the workers finds the same worker. */
  readonly key: RendezvousKey;
  /** Prompt tokens that the worker may have cached. */
  readonly tokens: number;
}

/** A prompt with everything that routing needs. */
export interface HashedPrompt {
  readonly tokens: number;
  readonly hashes: BlockHashes;
}

/** A decision that holds a place at the worker until it is released. */
export interface Reservation<Worker extends RoutableWorker = RoutableWorker> {
  readonly worker: Worker;
  /** Absent = the worker chooses. */
  readonly dpRank: number | undefined;
  /** Leading prompt blocks that the worker is believed to hold. */
  readonly overlapBlocks: number;
  /** Prompt tokens that the worker is believed to hold. Caches below the device count with their weight. */
  readonly cachedTokens: number;
  /** Headers that tell the worker of the place, sent with the request. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Hears that the first token came: the prompt is no longer load. Idempotent. */
  prefillDone(): void;
  /** Hears the number of output tokens so far; has an effect only if output blocks are tracked. */
  produced(outputTokens: number): void;
  /** Hears that the request left the worker. Idempotent. */
  release(): void;
}

/** Modes that do not need to know the workers' caches. */
export type SimpleRouterMode =
  | 'round-robin'
  | 'random'
  | 'power-of-two'
  | 'least-loaded'
  | 'device-aware-weighted'
  | 'direct';

export type RouterMode = SimpleRouterMode | 'kv';

/** Chooses the worker for each request. Every mode, and every source of decisions, has the same `choose()`. */
export interface Router<Worker extends RoutableWorker = RoutableWorker> {
  readonly mode: RouterMode;
  /**
   * Sets the workers of a pool, and creates the pool if it is new. Only this call decides which workers are in a pool:
   * a list that came with a request would be stale after the first wait. Cheap for a list seen before.
   */
  setWorkers(pool: WorkerPool, workers: readonly Worker[]): void;
  /** Removes the pool: requests that wait for it fail. Idempotent. */
  removePool(pool: WorkerPool): void;
  /**
   * Chooses a worker of the request's pool and reserves a place there. May wait in a queue until `signal` aborts. Fails
   * with `ServeError`: `service_unavailable` without a routable worker, `invalid_value` for a pin that cannot be met,
   * `server_overloaded` if all that may take it are busy or the queue is full.
   */
  choose(request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>>;
}

/** Returns `router` with another `choose`. */
export function withChoose<Worker extends RoutableWorker>(
  router: Router<Worker>,
  choose: Router<Worker>['choose'],
): Router<Worker> {
  return {
    mode: router.mode,
    setWorkers: (pool, workers) => router.setWorkers(pool, workers),
    removePool: (pool) => router.removePool(pool),
    choose,
  };
}

/** Reason why no worker took a request. */
export type RoutingFailure =
  | { readonly kind: 'NoEndpoints'; readonly fault?: RequestFault | undefined }
  | { readonly kind: 'PinnedWorkerNotAllowed'; readonly workerId: string; readonly param?: string | undefined }
  | { readonly kind: 'AllEligibleWorkersOverloaded' }
  | { readonly kind: 'PinnedWorkerOverloaded'; readonly workerId: string }
  | {
      readonly kind: 'QueueRejected';
      readonly policyClass: string;
      readonly limit: QueueLimit;
      readonly current: number;
      readonly max: number;
    }
  | {
      readonly kind: 'DoNotQueue';
      readonly policyClass: string;
      readonly pendingRequests: number;
      readonly pendingPromptTokens: number;
      readonly pendingCachedTokens: number;
    }
  | { readonly kind: 'DeadlineExceeded' }
  | { readonly kind: 'SubscriberShutdown' }
  | { readonly kind: 'BookingFailed'; readonly requestId: string };

/** Part of a request that no worker can ever meet. */
export interface RequestFault {
  readonly param: string;
  readonly says: string;
}

/** Limit that a full queue has reached; also the label of its metric. */
export type QueueLimit = 'request_limit' | 'raw_isl_token_limit' | 'cached_token_limit';

/** Code and text for the client: `server_overloaded` for a full fleet, `service_unavailable` for a missing one. */
const SHOWN: Readonly<Record<RoutingFailure['kind'], readonly [ErrorCode, string]>> = {
  NoEndpoints: ['service_unavailable', 'Service temporarily unavailable'],
  PinnedWorkerNotAllowed: ['invalid_value', 'Invalid request'],
  AllEligibleWorkersOverloaded: ['server_overloaded', 'Service temporarily overloaded'],
  PinnedWorkerOverloaded: ['server_overloaded', 'Service temporarily overloaded'],
  QueueRejected: ['server_overloaded', 'Service temporarily overloaded'],
  DoNotQueue: ['server_overloaded', 'Service temporarily overloaded'],
  DeadlineExceeded: ['deadline_exceeded', 'Request deadline exceeded'],
  SubscriberShutdown: ['service_unavailable', 'Service temporarily unavailable'],
  BookingFailed: ['invalid_value', 'Invalid request: a request with this id is already running'],
};

/** A failure to find a worker: a `ServeError` for clients, `failure` and `detail` for services and operators. */
export class RoutingError extends ServeError {
  readonly failure: RoutingFailure;

  constructor(failure: RoutingFailure) {
    const cause = new Error(describeFailure(failure));
    const fault = faultOf(failure);
    if (fault === undefined) super(...SHOWN[failure.kind], { cause });
    else super('invalid_value', `Invalid request: ${fault.says}`, { param: fault.param, cause });
    this.failure = failure;
  }

  /** The failure in one line, for operators. */
  get detail(): string {
    return describeFailure(this.failure);
  }
}

function faultOf(failure: RoutingFailure): RequestFault | undefined {
  if (failure.kind === 'NoEndpoints') return failure.fault;
  if (failure.kind !== 'PinnedWorkerNotAllowed') return undefined;
  const { param = 'nvext.backend_instance_id' } = failure;
  return { param, says: 'the worker that it names is not one of those that may take it' };
}

/** Describes the failure in one line, for operators. */
export function describeFailure(failure: RoutingFailure): string {
  switch (failure.kind) {
    case 'NoEndpoints':
      return 'no endpoints available to route work';
    case 'PinnedWorkerNotAllowed':
      return `pinned worker ${failure.workerId} is not in allowed worker set`;
    case 'AllEligibleWorkersOverloaded':
      return 'all eligible workers are overloaded';
    case 'PinnedWorkerOverloaded':
      return `pinned worker ${failure.workerId} is overloaded`;
    case 'QueueRejected':
      return `queue of class ${failure.policyClass} is full: ${failure.limit} ${failure.current} of ${failure.max}`;
    case 'DoNotQueue':
      return `every eligible worker is busy and the request must not wait in class ${failure.policyClass}`;
    case 'DeadlineExceeded':
      return 'deadline passed while waiting for a worker';
    case 'SubscriberShutdown':
      return 'router is shutting down';
    case 'BookingFailed':
      return `request ${failure.requestId} is booked already`;
  }
}

/** Returns the pool whose caches and loads `pool` shares: the base model's for an adapter. */
export function rootOf(pool: WorkerPool): WorkerPool {
  return pool.base ?? pool;
}

// cached, because every request needs the name of one of a few pools
const names = new WeakMap<Pick<WorkerPool, 'role' | 'key'>, string>();

/** Returns the name of a pool, which has its role because a key may have a pool in several roles. */
export function poolName(pool: Pick<WorkerPool, 'role' | 'key'>): string {
  const known = names.get(pool);
  if (known !== undefined) return known;
  const name = `${pool.role} ${pool.key}`;
  names.set(pool, name);
  return name;
}
