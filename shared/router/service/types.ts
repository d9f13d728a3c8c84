import type { ServeError } from '../../errors/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../../protocol/generation/index.ts';
import type { Explanation, RankLoad } from '../scheduler/types.ts';
import type { HashedPrompt, PoolRole, RoutableWorker, WorkerPool } from '../types.ts';

/** One question to a resident router: which worker takes this request? */
export interface ChooseQuery {
  readonly requestId: string;
  /** `WorkerPool.key`, on which both sides must agree. */
  readonly poolKey: string;
  readonly role: PoolRole;
  /** What the prompt was hashed with; a resident that uses another one cannot answer. */
  readonly blockSizeTokens: number;
  readonly prompt: HashedPrompt;
  readonly routing: RoutingHints;
  readonly override: RouterConfigOverride | undefined;
  /** Workers that failed the request. */
  readonly excluded: ReadonlySet<string>;
  /** Workers to pass over while another is left. */
  readonly avoided: ReadonlySet<string>;
  readonly policyClass: string | undefined;
}

/** A decision with the place that it holds. */
export interface ChosenWorker {
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly dpRank: number | undefined;
  readonly overlapBlocks: number;
  readonly cachedTokens: number;
  /** Names this place, so that the release of an earlier one of the same request does not end it. Hex. */
  readonly reservationId: string;
  /** What the worker is to be told of the place, beside the request and the reservation's name. @default nothing */
  readonly headers: Readonly<Record<string, string>> | undefined;
}

/** Told what becomes of a query: `queued` at most once and first, then one of the others. */
export interface ChooseListener {
  /** So many requests are ahead of it; the decision comes when its turn does. */
  queued(position: number): void;
  decided(chosen: ChosenWorker): void;
  /** Nothing is reserved. */
  failed(error: ServeError): void;
}

/** How far a request with a reservation has come. `prefill_done`: its first token is there. */
export type ReservationStage = 'prefill_done' | 'end';

/** What is known of a reservation by its caller. */
export interface ReservationChangeQuery {
  readonly requestId: string;
  readonly reservationId: string;
  readonly stage: ReservationStage;
}

/** Load of one worker set. */
export interface PoolLoads {
  readonly model: string;
  readonly poolKey: string;
  readonly role: PoolRole;
  readonly pendingRequests: number;
  readonly pendingPromptTokens: number;
  readonly loads: readonly RankLoad[];
}

/** A worker set as the process of the resident sees it. */
export interface PresentPool {
  readonly pool: WorkerPool;
  readonly workers: readonly RoutableWorker[];
  /** Those of them above the busy limits of their model. @default none */
  readonly busy?: ReadonlySet<string> | undefined;
}

/** The resident router, whatever carries its answers. */
export interface ChooseService {
  /** Asks for a worker. Returns what leaves the queue again; without effect once the listener was told the outcome. */
  choose(query: ChooseQuery, listener: ChooseListener): () => void;
  /** A reservation goes on or ends. Idempotent; one that is not known is ignored. */
  release(change: ReservationChangeQuery): void;
  loads(): readonly PoolLoads[];
  /** What was decided for a request, if it was one of the last. */
  explained(requestId: string): Explanation | undefined;
  /** What would be decided now. @throws ServeError as `choose` fails */
  explain(query: ChooseQuery): Explanation;
}
