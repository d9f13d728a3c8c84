import { type ServeError, workerError } from '../errors/index.ts';
import type { PoolRole, RouteRequest, Router } from '../router/index.ts';
import type { ExplanationRecord, KvRouter } from '../scheduler/index.ts';
import { type MetricRegistry, type Tracer, within } from '../telemetry/index.ts';
import type {
  ChooseCaller,
  ChooseQuery,
  ChooseService,
  ChosenWorker,
  PoolLoads,
  PresentPool,
  ReservationChangeQuery,
} from './messages.ts';
import { ReservationBook, type ReservationBookOptions } from './reservation-book.ts';

export interface ResidentServiceOptions extends ReservationBookOptions {
  /** Router that decides; it also serves this process's own requests. */
  readonly router: Pick<Router, 'choose'>;
  /** Whether the router asks another process before it decides, so that queries wait for that, too. @default false */
  readonly asksFirst?: boolean | undefined;
  /** Router that explains its decisions. */
  readonly kv: Pick<KvRouter, 'explain' | 'explained' | 'pools'>;
  /** Creates a span of each decision. @default no spans */
  readonly tracer?: Tracer | undefined;
  /** Returns the present worker set. */
  findPool(key: string, role: PoolRole): PresentPool | undefined;
  /** Whether this process is the one that answers: it holds the lease, and has settled. */
  isLeader(): boolean;
}

/** Signal of queries that do not wait: they are decided at once. */
const NEVER = new AbortController().signal;
/** Bound of the queries that wait at once. If more wait, the limits of the fleet's queue are set too high. */
const WAITING_MAX = 65_536;

/**
 * The core of the resident router: decides on requests of other processes, with reservations. A reservation ends with
 * its request. If the process that asked is gone, it runs out: two seconds after the decision if nothing has shown the
 * request since, otherwise ten minutes after the last sign of it.
 */
export class ResidentService implements ChooseService {
  readonly #options: ResidentServiceOptions;
  readonly #book: ReservationBook;
  readonly #waiting = new Map<string, AbortController>();

  constructor(options: ResidentServiceOptions) {
    this.#options = options;
    this.#book = new ReservationBook(options);
  }

  /** Whether this process is the resident that answers. */
  get isLeader(): boolean {
    return this.#options.isLeader();
  }

  /** Number of reservations that are held now. */
  get reservations(): number {
    return this.#book.size;
  }

  /** Number of queries that wait for their decision now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  choose(query: ChooseQuery, caller: ChooseCaller): Promise<ChosenWorker> {
    const { tracer } = this.#options;
    if (tracer === undefined) return this.#choose(query, caller);
    const { requestId: request_id, role } = query;
    const { traceparent } = caller;
    const span = tracer.begin('choose', { traceparent }, { kind: 'server', attributes: { request_id, role } });
    return within(span, async () => {
      const chosen = await this.#choose(query, caller);
      const { workerId: worker_id, dpRank: dp_rank, cachedTokens: cached_tokens } = chosen;
      span.set({ worker_id, dp_rank, cached_tokens });
      return chosen;
    });
  }

  async #choose(query: ChooseQuery, caller: ChooseCaller): Promise<ChosenWorker> {
    const { requestId } = query;
    if (!this.isLeader) throw notLeading('another router answers, or no router does yet');
    const held = this.#heldFor(query);
    if (held !== undefined) return held;
    if (this.#waiting.size >= WAITING_MAX) throw workerError('WorkerOverloaded', 'too many requests wait');
    let waiting: AbortController | undefined;
    const onQueued = (position: number): AbortSignal => {
      caller.queued(position);
      waiting ??= this.#wait(requestId, caller.left);
      return waiting.signal;
    };
    // A caller that hears nothing would decide by itself before the second decision.
    const request = { ...routeRequestOf(query, this.#poolOf(query)), onQueued, onHeld: () => onQueued(0) };
    this.#leave(requestId, 'another query with its id'); // its caller gave up, and asks again
    if (this.#options.asksFirst) waiting = this.#wait(requestId, caller.left);
    try {
      const reservation = await this.#options.router.choose(request, waiting?.signal ?? NEVER);
      if (waiting?.signal.aborted || caller.hasLeft) {
        reservation.release(); // it left in the turn of its decision, or before
        throw waiting?.signal.reason ?? workerError('Cancelled');
      }
      return this.#book.add(requestId, reservation);
    } finally {
      if (waiting !== undefined && this.#waiting.get(requestId) === waiting) this.#waiting.delete(requestId);
    }
  }

  release({ requestId, reservationId, stage, outputTokens = 0 }: ReservationChangeQuery): void {
    if (stage === 'end') this.#book.end(requestId, reservationId, outputTokens);
    else this.#book.prefillDone(requestId, reservationId);
  }

  /** Takes a worker's report of requests that have arrived there or left. Ignores requests of others. */
  reported(workerId: string, arrived: readonly string[], left: readonly string[]): void {
    for (const requestId of arrived) this.#book.seenAt(workerId, requestId);
    for (const requestId of left) this.#book.leftWorker(workerId, requestId);
  }

  /** Ends all reservations at a worker that is gone. */
  workerGone(workerId: string): void {
    this.#book.leftAll(workerId);
  }

  loads(): readonly PoolLoads[] {
    return this.#options.kv.pools.map(({ pool, scheduler }) => ({
      model: pool.model ?? pool.key,
      poolKey: pool.key,
      role: pool.role,
      pendingRequests: scheduler.pendingRequests,
      pendingPromptTokens: scheduler.pendingPromptTokens,
      loads: scheduler.loads(),
    }));
  }

  explained(requestId: string): ExplanationRecord | undefined {
    return this.#options.kv.explained(requestId);
  }

  explain(query: ChooseQuery): ExplanationRecord {
    const present = this.#poolOf(query);
    return this.#options.kv.explain(routeRequestOf(query, present));
  }

  /**
   * Ends the waits of all queries, because another router answers from now on. Their callers then ask that one.
   * Reservations continue.
   */
  standDown(): void {
    for (const requestId of [...this.#waiting.keys()]) this.#leave(requestId, 'this router no longer holds the lease');
  }

  close(): void {
    this.standDown();
    this.#book.close();
  }

  /** Returns the place that the request already holds. Gives it back if its worker has failed the request since. */
  #heldFor({ requestId, excluded }: ChooseQuery): ChosenWorker | undefined {
    const held = this.#book.find(requestId);
    if (held === undefined || !excluded.has(held.workerId)) return held;
    this.#book.free(requestId);
    return undefined;
  }

  /** Makes a request wait until its turn comes, the service rejects it, or `gone` aborts. */
  #wait(requestId: string, gone: AbortSignal): AbortController {
    const waiting = new AbortController();
    this.#waiting.set(requestId, waiting);
    const leave = (): void => {
      // Callers also leave after the decision: a failure with its stack would cost more than their leaving.
      if (this.#waiting.get(requestId) === waiting) waiting.abort(workerError('Cancelled'));
    };
    gone.addEventListener('abort', leave, { once: true });
    if (gone.aborted) leave();
    return waiting;
  }

  #leave(requestId: string, why: string): void {
    this.#waiting.get(requestId)?.abort(notLeading(why));
    this.#waiting.delete(requestId);
  }

  #poolOf({ poolKey, role, blockSizeTokens }: ChooseQuery): PresentPool {
    const present = this.#options.findPool(poolKey, role);
    if (present === undefined) throw notLeading(`worker set ${poolKey} is not known here`);
    if (present.pool.blockSizeTokens === blockSizeTokens) return present;
    throw notLeading(`blocks have ${present.pool.blockSizeTokens} tokens here, not ${blockSizeTokens}`);
  }
}

/** Creates the failure after which the caller decides by itself, or asks another router. */
function notLeading(why: string): ServeError {
  return workerError('WorkerUnavailable', why);
}

function routeRequestOf(query: ChooseQuery, { pool, busy }: PresentPool): RouteRequest {
  const { requestId: id, prompt, routing, override, excluded, avoided, policyClass } = query;
  return { id, pool, prompt, routing, override, excluded, avoided, policyClass, busy, tokenIds: undefined };
}

/** Values that are read together with the metrics. */
interface ResidentFacts {
  readonly isLeader: boolean;
  readonly reservations: number;
  readonly waiting: number;
}

/** Registers the metrics that only a resident router has. Returns the callback for a reservation that runs out. */
export function createResidentMetrics(
  registry: MetricRegistry,
  facts: () => ResidentFacts,
): (wasSeen: boolean) => void {
  const answering = registry.gauge('stator_router_answering', '1 while this process answers for the resident router.');
  const reservations = registry.gauge('stator_router_reservations', 'Places held for requests of other processes.');
  const waiting = registry.gauge('stator_router_waiting_queries', 'Queries of other processes that wait in the queue.');
  const expired = registry.counter(
    'stator_router_reservations_expired_total',
    'Places freed because their request was never seen at the worker, or there was no sign of it any more.',
    'seen',
  );
  for (const seen of ['true', 'false']) expired.with(seen);
  registry.beforeScrape(() => {
    const now = facts();
    answering.with().set(now.isLeader ? 1 : 0);
    reservations.with().set(now.reservations);
    waiting.with().set(now.waiting);
  });
  return (wasSeen) => expired.with(String(wasSeen)).add();
}
